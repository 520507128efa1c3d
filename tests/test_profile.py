"""``python -m reduce_ops profile``, with an ncu that prints the pages of a report made here."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from reduce_ops import LADDER, Rung, explain, profile
from reduce_ops.__main__ import main

N = 4096
ROOT = Path(__file__).resolve().parent.parent
V1 = [LADDER[1]]
SOURCE_COLUMNS = (
    *("#", "Address", "Source", "# Samples", "Instructions Executed", "Thread Instructions Executed"),
    *("Predicated-On Thread Instructions Executed", "L1 Wavefronts Shared", "L1 Wavefronts Shared Ideal"),
)


def page(rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


WIDTHS = {"float": 4, "double": 8}


def raw_page(conflicts: float = 1.0, rungs: Sequence[Rung] = V1) -> str:
    """First passes as they were predicted, bank conflicts scaled by a factor."""
    rows: list[list[object]] = [["ID", "Kernel Name", *profile.COUNTERS.values()]]
    units = {"seconds": "ns", "occupancy": "%", "dram_bytes_read": "byte"}
    rows.append(["", "", *(units.get(name, "") for name in profile.COUNTERS)])
    for element, width in WIDTHS.items():
        for rung in rungs:
            totals = explain(rung.number, n=N).totals
            values = dict.fromkeys(profile.COUNTERS, 32.0) | {
                "seconds": 2000.0,
                "dram_bytes_read": N * width,
                "conflicts_read": totals.conflicts_read[width] * conflicts,
                "conflicts_written": totals.conflicts_written[width] * conflicts,
            }
            kernel = f"void {rung.name}<{element}, {element}, {element}>(const T1 *, long, T3 *)"
            rows.append([0, kernel, *(f"{value:,}" for value in values.values())])
    return page(rows)


def source_page(*, predicated: bool = True, rungs: Sequence[Rung] = V1) -> str:
    """The instructions that are looked at, predicated as ptxas does it, or behind a branch."""
    text = ""
    for element, width in WIDTHS.items():
        for rung in rungs:
            totals = explain(rung.number, n=N).totals
            rows: list[list[object]] = [
                ["Kernel Name", f"void {rung.name}<{element}, {element}, {element}>(const T1 *)"]
            ]
            rows.append(list(SOURCE_COLUMNS))
            guard = "@!P1 " if predicated else ""
            reads, writes = totals.shared_reads, totals.shared_writes
            if predicated:
                reads, writes = totals.shared_reads_inside, totals.shared_writes_inside
            add = "DADD R2, R2, R4" if width == 8 else "FADD R5, R5, R0"
            for sass, warps, lanes, wavefronts in (
                ("BAR.SYNC.DEFER_BLOCKING 0x0", 8 * totals.blocks, 32 * 8 * totals.blocks, 0),
                ("BAR.SYNC.DEFER_BLOCKING 0x0", totals.block_barriers - 8 * totals.blocks, 0, 0),
                (f"      {guard}LDS R5, [R4]", reads, totals.shared_words_read, totals.wavefronts_read[width]),
                (f"      {guard}{add}", writes, totals.adds, 0),
                (f"      {guard}STS [R4], R5", writes, totals.shared_words_written, totals.wavefronts_written[width]),
                ("      SHFL.DOWN PT, R4, R3, 0x10, 0x1f", totals.shuffles, 32 * totals.shuffles, 0),
                ("      NOP", 0, 0, 0),
            ):
                rows.append([0, "0x7f", sass, 1, f"{warps:,}", 32 * warps, lanes, wavefronts, wavefronts])
            text += page(rows)
    return text


def compared(raw: str, source: str) -> dict[tuple[str, str], profile.Comparison]:
    report = profile.compare(N, V1, raw, source, {"device": "a GPU"})
    return {(kernel.dtype, item.quantity): item for kernel in report.kernels for item in kernel.comparisons}


def test_everything_agrees_where_the_rounds_branch() -> None:
    items = compared(raw_page(), source_page(predicated=False))
    assert len(items) == 2 * 12
    assert all(item.agrees and item.note == "" for item in items.values())
    assert items["float32", "bank conflicts, reads"].predicted == 16 * 70
    assert items["float64", "bank conflicts, reads"].predicted == 16 * 120


def test_predication_is_explained_with_its_line() -> None:
    items = compared(raw_page(), source_page())
    differing = {key: item for key, item in items.items() if not item.agrees}
    assert set(differing) == {(d, f"lanes a shared {k}") for d in profile.DTYPES for k in ("read", "write")}
    for item in differing.values():
        assert "@!P1 " in item.note
        assert item.counted < item.predicted


def test_a_difference_that_nothing_explains_stays_one() -> None:
    item = compared(raw_page(conflicts=1.02), source_page())["float32", "bank conflicts, reads"]
    assert not item.agrees and item.note == ""
    assert compared(raw_page(conflicts=1.005), source_page())["float32", "bank conflicts, reads"].agrees


@pytest.mark.parametrize(
    "sass, opcode, predicated",
    [
        ("@!P1 LDS R5, [R4]", "LDS", True),
        ("  @P0 BRA 0x520", "BRA", True),
        ("@!UP0 STS.64 [R0], R4", "STS", True),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "BAR", False),
        ("SHFL.DOWN PT, R4, R3, 0x10, 0x1f", "SHFL", False),
    ],
)
def test_opcodes(sass: str, opcode: str, predicated: bool) -> None:
    line = profile.Line(sass, 1, 1, 0)
    assert (line.opcode, line.predicated) == (opcode, predicated)


@pytest.mark.parametrize(
    "raw, source, words",
    [
        ("", source_page(), "raw page has no"),
        (raw_page().replace("gpu__time_duration.sum", "gpu__time"), source_page(), "gpu__time_duration.sum"),
        (raw_page().replace("sum_v1<double", "sum_v2<double"), source_page(), "no sum_v1 of float64"),
        (raw_page().replace("32.0", "n/a"), source_page(), "could not count .*: it says 'n/a'"),
        (raw_page(), "", "no sum_v1 of float32"),
        (raw_page(), source_page().replace("L1 Wavefronts Shared", "L1"), "no column 'L1 Wavefronts Shared'"),
    ],
)
def test_pages_that_lack_something(raw: str, source: str, words: str) -> None:
    with pytest.raises(profile.ProfileError, match=words):
        profile.compare(N, V1, raw, source, {})


def test_what_the_docs_make_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("update_readme", ROOT / "benchmarks" / "update_readme.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    environment = {"device": "a GPU", "date": "today"}
    report = profile.compare(N, LADDER, raw_page(rungs=LADDER), source_page(rungs=LADDER), environment)
    (tmp_path / "profile.json").write_text(json.dumps(profile.as_json(report)))
    monkeypatch.setattr(script, "ROOT", tmp_path)
    table = script.table("profile.json")
    for rung in LADDER:
        assert table.count(f"| `{rung.name}` | float") == 2
    assert "- `sum_v0` float32, lanes a shared read: predicted 5.37895, counted" in table
    counted = script.claims("profile.json").splitlines()
    assert [line.partition(".")[0] for line in counted] == [str(number) for number in range(1, 8)]
    assert "v0 0, v1 1,680" in counted[0]
    assert "54" in counted[1] and "105.0 a block" in counted[1]
    assert "32, 32, 32, 16, 8, 4, 2, 1" in counted[2] and "`@!P1 LDS R5, [R4]`" in counted[2]


# ---- the command ----


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which writes down how it was called; `ncu.out` is where it takes its answers from."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "raw").write_text(raw_page())
    (folder / "source").write_text("==PROF== Disconnected\n" + source_page())
    program = folder / "ncu"
    program.write_text(
        f"""#!/bin/sh
cd {folder}
echo "$@" >> calls
case "$*" in
  --version) echo Copyright; echo 'Version 2025.3.1.0' ;;
  *'--page raw'*) cat raw ;;
  *'--page source'*) cat source ;;
  *) [ -e failure ] && {{ cat failure; exit 1; }}
     while [ "$1" != -o ]; do shift; done; [ -e nothing ] || touch "$2" ;;
esac
"""
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(profile.measure, "environment", lambda device: {"device": "a GPU"})
    return folder


def test_command(ncu: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.json"
    assert main(["profile", "--n", str(N), "--rungs", "v1", "--json", str(path)]) == 0
    output = capfd.readouterr().out
    (float32, float64) = [line for line in output.splitlines() if " sum_v1 " in line and "│" in line]
    assert " 1,680 " in float32  # 16 blocks of 70 conflicts in reads and 35 in writes
    assert " 2,880 " in float64  # of 120 and 60
    assert "@!P1 LDS R5, [R4]" in " ".join(output.split())
    report = json.loads(path.read_text())
    assert (report["benchmark"], report["n"]) == ("profile", N)
    assert report["environment"] == {"device": "a GPU", "ncu": "Version 2025.3.1.0"}
    assert [(kernel["name"], kernel["dtype"]) for kernel in report["kernels"]] == [
        ("sum_v1", "float32"),
        ("sum_v1", "float64"),
    ]
    kernel = report["kernels"][0]
    assert kernel["counters"]["seconds"] == pytest.approx(2e-6)
    assert kernel["counters"]["occupancy"] == pytest.approx(0.32)
    assert {line["sass"] for line in kernel["lines"]} == {
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "@!P1 LDS R5, [R4]",
        "@!P1 STS [R4], R5",
    }
    first = (ncu / "calls").read_text().splitlines()[0]
    assert "--clock-control none" in first and "--section SourceCounters" in first
    assert first.endswith(f"-m reduce_ops.profile_workload {N} 1 float32,float64")


@pytest.mark.parametrize(
    "failure, words",
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "run as root"),
        ("==PROF== Connected\n==ERROR== Unknown metric x\n", "ncu failed: ==ERROR== Unknown metric x"),
        ("", "it says nothing"),
    ],
)
def test_ncu_that_fails(ncu: Path, failure: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    (ncu / "failure").write_text(failure)
    assert_one_line(capfd, words)


def test_ncu_that_sees_no_kernel(ncu: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (ncu / "nothing").touch()
    assert_one_line(capfd, "ncu wrote no report")


def test_no_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_one_line(capfd, "ncu is not on the PATH")


def test_no_gpu(ncu: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert_one_line(capfd, "no CUDA device")
    assert not (ncu / "calls").exists()


def assert_one_line(capfd: pytest.CaptureFixture[str], words: str) -> None:
    path = Path("profile.json")
    assert main(["profile", "--json", str(path)]) == 2
    output = capfd.readouterr()
    assert output.out == "" and not path.exists()
    assert words in output.err and output.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--n", "0"], "--n"),
        (["--rungs", "v9"], "unknown rung 'v9'"),
        (["--json", "missing/profile.json"], "missing is not a folder that can be written to"),
    ],
)
def test_bad_arguments(arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["profile", *arguments])
    assert error.value.code == 2
    output = capfd.readouterr()
    assert output.out == ""
    message = output.err.partition("error: ")[2]
    assert words in message and message.count("\n") == 1
