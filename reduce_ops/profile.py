"""Sets Nsight Compute's counters beside what `explain` predicts: is the schedule what the GPU does?

Two pages of one report are read. The raw page has the counters of the whole kernel: time, DRAM bytes, occupancy. The
source page has, for every machine instruction (SASS), how many warps executed it, with how many lanes not predicated
off, in how many passes through the banks and how many of these were conflicts: exact counts, and the line itself where
one differs. L1's own counters of passes and conflicts, on the raw page, see more than the instructions make, and other
numbers in every run; they are set beside the prediction too.
"""

import csv
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from rich.text import Text

from reduce_ops import measure
from reduce_ops.explanation import Explanation, Phase, explain
from reduce_ops.ladder import LADDER, Rung

DTYPES = ("float32", "float64")
"""Sums of 4 and of 8 bytes, whose shared-memory accesses differ."""

TOLERANCE = 0.01
"""A counter this close to its prediction agrees with it."""

COUNTERS = {
    "seconds": "gpu__time_duration.sum",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
    "dram_share_of_peak": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "occupancy_limit": "sm__maximum_warps_per_active_cycle_pct",
    "registers_a_thread": "launch__registers_per_thread",
    "instructions": "smsp__inst_executed.sum",
    "threads_an_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "threads_not_predicated_off": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "divergent_branches": "smsp__sass_branch_targets_threads_divergent.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared_share_of_peak": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed",
    "shared_reads": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_writes": "smsp__sass_inst_executed_op_shared_st.sum",
    "conflicts_read": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "conflicts_written": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "wavefronts_read": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "wavefronts_written": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
"""Counters of the raw page, under the names that reports give them."""

_UNITS = {"%": 1e-2, "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3}
"""Of a counter, where it is not 1."""

_LINE_COLUMNS = (
    *("Instructions Executed", "Predicated-On Thread Instructions Executed"),
    *("L1 Wavefronts Shared", "L1 Wavefronts Shared Ideal"),
)

L1_CONFLICTS = "bank conflicts by L1's counter"
"""What the quantities begin with that are not only of the kernel's making."""

_KERNEL = re.compile(r"\bsum_v(\d+)<(float|double)\b")
_ELEMENT = {"float": "float32", "double": "float64"}
_OPCODE = re.compile(r"^\s*(@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")


class ProfileError(Exception):
    """Why there is no profile, in one sentence."""


@dataclass(frozen=True)
class Line:
    """A machine instruction that was executed."""

    sass: str
    warps: int
    """How often a warp executed it."""
    lanes: int
    """The lanes of these that were not predicated off."""
    wavefronts: int
    """Passes through the banks of shared memory."""
    ideal: int
    """The fewest that could move as many bytes."""

    @property
    def conflicts(self) -> int:
        """Passes beyond these."""
        return self.wavefronts - self.ideal

    @property
    def opcode(self) -> str:
        """The first part of the mnemonic: ``LDS`` of ``@!P1 LDS R5, [R4]``."""
        match = _OPCODE.match(self.sass)
        return match[2] if match else ""

    @property
    def predicated(self) -> bool:
        """Whether lanes may sit it out without a branch."""
        return self.sass.lstrip().startswith("@")


@dataclass(frozen=True)
class Comparison:
    """One quantity, predicted and counted."""

    quantity: str
    predicted: float
    counted: float
    note: str
    """Why they differ, with the line that makes them; empty where they agree, or where it is not known."""

    @property
    def agrees(self) -> bool:
        """Whether the two are within TOLERANCE."""
        return abs(self.counted - self.predicted) <= TOLERANCE * max(abs(self.predicted), abs(self.counted))


@dataclass(frozen=True)
class Prediction:
    """One phase of one block."""

    name: str
    lanes: float
    """At work, per warp with any."""
    conflict_degree: int
    conflicts: int
    """In its reads and writes."""


@dataclass(frozen=True)
class Kernel:
    """One rung on elements of one dtype."""

    name: str
    title: str
    dtype: str
    counters: dict[str, float]
    comparisons: list[Comparison]
    phases: list[Prediction]
    """What the totals that are compared are made of."""
    lines: list[Line]
    """Its shared-memory instructions, shuffles, barriers and branches."""


@dataclass(frozen=True)
class Profile:
    """One run: what ``--json`` writes."""

    benchmark: str
    environment: dict[str, Any]
    n: int
    kernels: list[Kernel]


def run(n: int, rungs: Sequence[Rung] = LADDER) -> Profile:
    """Profile the first pass of each rung, on float32 and float64.

    Raises:
        ProfileError: There is no Nsight Compute or no GPU here, or it may not read the counters.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise ProfileError("ncu is not on the PATH; it comes with Nsight Compute, which the CUDA toolkit contains")
    if not torch.cuda.is_available():
        raise ProfileError("PyTorch sees no CUDA device, whose counters ncu could read")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "ladder.ncu-rep")
        versions = ",".join(str(rung.number) for rung in rungs)
        workload = [sys.executable, "-m", "reduce_ops.profile_workload", str(n), versions, ",".join(DTYPES)]
        metrics = ["--section", "SourceCounters", "--metrics", ",".join(COUNTERS.values())]
        # The clocks are left alone: locking them needs rights that the counters do not.
        _ncu(ncu, *metrics, "--clock-control", "none", "--kernel-name", "regex:^sum_v", "-o", str(report), *workload)
        if not report.exists():
            raise ProfileError("ncu wrote no report: it saw none of the kernels")
        raw = _ncu(ncu, "--import", str(report), "--page", "raw", "--csv", "--print-units", "base")
        source = _ncu(ncu, "--import", str(report), "--page", "source", "--csv", "--print-source", "sass")
    version = _ncu(ncu, "--version").strip().splitlines()[-1]
    environment = measure.environment(torch.device("cuda")) | {"ncu": version}
    return compare(n, rungs, raw, source, environment)


def _ncu(*command: str) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ProfileError(f"ncu does not start: {error}") from error
    if "ERR_NVGPUCTRPERM" in result.stdout + result.stderr:
        raise ProfileError(
            "the driver lets only an administrator read the counters: run as root, or load the nvidia module with "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    if result.returncode != 0:
        lines = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("==ERROR==")]
        raise ProfileError(f"ncu failed: {(errors or lines or ['it says nothing'])[-1].strip()}")
    return result.stdout


def compare(n: int, rungs: Iterable[Rung], raw: str, source: str, environment: dict[str, Any]) -> Profile:
    """Put a report's two pages beside the predictions.

    Args:
        n: Elements.
        rungs: The rungs that ran.
        raw: ``ncu --page raw --csv --print-units base``.
        source: ``ncu --page source --csv --print-source sass``.
        environment: What the figures stand with.

    Raises:
        ProfileError: A page lacks a kernel or a column.
    """
    counters = _read_raw(raw)
    lines = _read_source(source)
    kernels = []
    for dtype in DTYPES:
        for rung in rungs:
            key = (rung.number, dtype)
            if key not in counters or key not in lines:
                raise ProfileError(f"ncu's report has no {rung.name} of {dtype}")
            explanation = explain(rung.number, n=n)
            kernels.append(
                Kernel(
                    name=rung.name,
                    title=rung.title,
                    dtype=dtype,
                    counters=counters[key],
                    comparisons=_compare(explanation, dtype, counters[key], lines[key]),
                    phases=[_prediction(phase, getattr(torch, dtype).itemsize) for phase in explanation.phases],
                    lines=[line for line in lines[key] if line.opcode in ("LDS", "STS", "SHFL", "BAR", "BRA")],
                )
            )
    return Profile("profile", environment, n, kernels)


def _prediction(phase: Phase, width: int) -> Prediction:
    conflicts = phase.repeats * sum(access.conflicts(width) for access in phase.accesses)
    return Prediction(phase.name, phase.lanes, phase.degree(width), conflicts)


def _read_raw(page: str) -> dict[tuple[int, str], dict[str, float]]:
    rows = csv.DictReader(io.StringIO(_without_messages(page)))
    missing = {"Kernel Name", *COUNTERS.values()} - set(rows.fieldnames or ())
    if missing:
        raise ProfileError(f"ncu's raw page has no {min(missing)}")
    result: dict[tuple[int, str], dict[str, float]] = {}
    units: dict[str, str] = {}
    for row in rows:
        key = _key(row["Kernel Name"])
        if key is None:  # the line of units below the heading has no kernel
            units = units or row
            continue
        result[key] = {}
        for name, metric in COUNTERS.items():
            try:
                result[key][name] = _number(row[metric]) * _UNITS.get(units.get(metric, ""), 1)
            except ValueError:
                raise ProfileError(f"ncu could not count {metric}: it says {row[metric]!r}") from None
    return result


def _read_source(page: str) -> dict[tuple[int, str], list[Line]]:
    """Return the executed lines of each kernel. ncu 2025.3 prints the table of each twice: the last one counts."""
    result: dict[tuple[int, str], list[Line]] = {}
    key: tuple[int, str] | None = None
    columns: dict[str, int] = {}
    for row in csv.reader(io.StringIO(_without_messages(page))):
        if row and row[0] == "Kernel Name":
            key = _key(row[1])
            columns = {}
            if key is not None:
                result[key] = []
        elif "Source" in row and "Instructions Executed" in row:
            columns = {heading: i for i, heading in enumerate(row)}
            missing = set(_LINE_COLUMNS) - set(columns)
            if missing:
                raise ProfileError(f"ncu's source page has no column {min(missing)!r}")
        elif key is not None and columns and len(row) == len(columns):
            warps, lanes, wavefronts, ideal = (int(_number(row[columns[name]] or "0")) for name in _LINE_COLUMNS)
            if warps:
                sass = " ".join(row[columns["Source"]].split())
                result[key].append(Line(sass, warps, lanes, wavefronts, ideal))
    return result


def _without_messages(page: str) -> str:
    return "\n".join(line for line in page.splitlines() if not line.startswith("=="))


def _key(kernel: str) -> tuple[int, str] | None:
    match = _KERNEL.search(kernel)
    return (int(match[1]), _ELEMENT[match[2]]) if match else None


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _compare(
    explanation: Explanation, dtype: str, counters: dict[str, float], lines: Sequence[Line]
) -> list[Comparison]:
    totals = explanation.totals
    width = getattr(torch, dtype).itemsize
    reads, writes = _only(lines, "LDS"), _only(lines, "STS")
    adds = _only(lines, "DADD" if dtype == "float64" else "FADD")
    barriers = _only(lines, "BAR")
    conflicts_read, conflicts_written = totals.conflicts_read[width], totals.conflicts_written[width]
    read_words, written_words = totals.shared_words_read, totals.shared_words_written
    return [
        Comparison("bank conflicts, reads", conflicts_read, _sum(reads, "conflicts"), ""),
        Comparison("bank conflicts, writes", conflicts_written, _sum(writes, "conflicts"), ""),
        _by_l1("reads", conflicts_read, counters["conflicts_read"], counters["wavefronts_read"], reads),
        _by_l1("writes", conflicts_written, counters["conflicts_written"], counters["wavefronts_written"], writes),
        Comparison("bank passes, reads", totals.wavefronts_read[width], _sum(reads, "wavefronts"), ""),
        Comparison("bank passes, writes", totals.wavefronts_written[width], _sum(writes, "wavefronts"), ""),
        Comparison("shared words read", read_words, _sum(reads, "lanes"), ""),
        Comparison("shared words written", written_words, _sum(writes, "lanes"), ""),
        Comparison(
            "lanes a shared read",
            *(_ratio(read_words, totals.shared_reads), _ratio(_sum(reads, "lanes"), counters["shared_reads"]), ""),
        ),
        Comparison(
            "lanes a shared write",
            *(
                _ratio(written_words, totals.shared_writes),
                _ratio(_sum(writes, "lanes"), counters["shared_writes"]),
                "",
            ),
        ),
        _with_idle_warps("lanes a shared read", read_words, totals.shared_reads_inside, totals.shared_reads, reads),
        _with_idle_warps(
            "lanes a shared write", written_words, totals.shared_writes_inside, totals.shared_writes, writes
        ),
        Comparison("adds", totals.adds, _sum(adds, "lanes"), ""),
        Comparison("shuffles", totals.shuffles * width // 4, _sum(_only(lines, "SHFL"), "warps"), ""),
        Comparison("block barriers", totals.block_barriers, _sum(barriers, "warps"), ""),
        Comparison("bytes read", totals.global_bytes_read * width // 4, counters["dram_bytes_read"], ""),
    ]


def _by_l1(kind: str, predicted: int, counted: float, wavefronts: float, lines: Sequence[Line]) -> Comparison:
    """L1's conflicts, explained where they are the predicted ones and those of passes that no instruction asked for."""
    quantity = f"{L1_CONFLICTS}, {kind}"
    comparison = Comparison(quantity, predicted, counted, "")
    extra = wavefronts - _sum(lines, "wavefronts")
    most = max(lines, key=lambda line: line.wavefronts, default=None)
    if comparison.agrees or most is None:
        return comparison
    if abs(counted - predicted - extra) <= TOLERANCE * extra:
        note = f"L1 makes {extra:,.0f} passes that no instruction asks for, and takes them for conflicts: {most.sass}"
    elif abs(counted - extra) <= TOLERANCE * extra and most.opcode == "STS":
        note = (
            f"a write's pass for each half of a warp is none to L1, {extra:,.0f} that nobody asks for are: {most.sass}"
        )
    else:
        return comparison
    return Comparison(quantity, predicted, counted, note)


def _with_idle_warps(quantity: str, words: int, inside: int, requests: int, lines: Sequence[Line]) -> Comparison:
    """Lanes at work per instruction, also those of warps without any, which issue what the compiler predicates."""
    comparison = Comparison(
        f"{quantity}, idle warps too", _ratio(words, inside), _ratio(_sum(lines, "lanes"), _sum(lines, "warps")), ""
    )
    if comparison.agrees or not requests or not lines:
        return comparison
    if_branched = words / requests
    if abs(comparison.counted - if_branched) > TOLERANCE * if_branched:
        return comparison
    most = max(lines, key=lambda line: line.warps)
    note = f"idle warps branch around it, which makes {if_branched:.4g}: {most.sass}"
    return Comparison(comparison.quantity, comparison.predicted, comparison.counted, note)


def _ratio(amount: float, number: float) -> float:
    return amount / number if number else 0.0


def _only(lines: Iterable[Line], opcode: str) -> list[Line]:
    return [line for line in lines if line.opcode == opcode]


def _sum(lines: Iterable[Line], field: str) -> int:
    return sum(getattr(line, field) for line in lines)


def as_json(profile: Profile) -> dict[str, Any]:
    """Return the profile as plain dicts and lists, with what agrees."""
    figures = asdict(profile)
    for kernel, figure in zip(profile.kernels, figures["kernels"], strict=True):
        for comparison, entry in zip(kernel.comparisons, figure["comparisons"], strict=True):
            entry["agrees"] = comparison.agrees
    return figures


def table(profile: Profile) -> Table:
    """Lay the counters out for a terminal: a line a kernel, then what differs from the prediction."""
    notes = []
    for kernel in profile.kernels:
        for comparison in kernel.comparisons:
            if not comparison.agrees and not (comparison.note and comparison.quantity.startswith(L1_CONFLICTS)):
                notes.append(
                    f"{kernel.name} {kernel.dtype}, {comparison.quantity}: predicted {comparison.predicted:.6g}, "
                    f"counted {comparison.counted:.6g}" + (f"; {comparison.note}" if comparison.note else "")
                )
    heading = f"{profile.n:,} elements on {profile.environment['device']}, first pass of each rung"
    notes = [
        "All but these are within 1 % of the prediction:" if notes else "All are within 1 % of the prediction.",
        *notes,
    ]
    notes.append("by L1: with passes that no instruction asks for, another number in every run; not compared here")
    result = Table(
        title=heading,
        caption=Text("\n".join(notes)),  # [R4] is no markup
        title_justify="left",
        caption_justify="left",
    )
    for name in ("operator", "dtype"):
        result.add_column(name, no_wrap=True)
    for name in (
        *("us", "GB/s", "DRAM MB", "occupancy", "regs", "instructions", "lanes", "lanes on", "conflicts", "predicted"),
        *("by L1", "barriers", "shuffles"),
    ):
        result.add_column(name, justify="right", no_wrap=True)
    for kernel in profile.kernels:
        counters = kernel.counters
        by_name = {comparison.quantity: comparison for comparison in kernel.comparisons}
        conflicts = [by_name[f"bank conflicts, {kind}"] for kind in ("reads", "writes")]
        size = profile.n * getattr(torch, kernel.dtype).itemsize
        result.add_row(
            kernel.name,
            kernel.dtype,
            f"{counters['seconds'] * 1e6:.1f}",
            f"{size / counters['seconds'] / 1e9:.0f}",
            f"{counters['dram_bytes_read'] / 1e6:.1f}",
            f"{counters['occupancy']:.0%}",
            f"{counters['registers_a_thread']:.0f}",
            f"{counters['instructions']:,.0f}",
            f"{counters['threads_an_instruction']:.1f}",
            f"{counters['threads_not_predicated_off']:.1f}",
            f"{sum(item.counted for item in conflicts):,.0f}",
            f"{sum(item.predicted for item in conflicts):,.0f}",
            f"{counters['conflicts_read'] + counters['conflicts_written']:,.0f}",
            f"{by_name['block barriers'].counted:,.0f}",
            f"{by_name['shuffles'].counted:,.0f}",
        )
    return result
