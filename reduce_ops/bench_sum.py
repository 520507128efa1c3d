"""Races ``reduce.sum`` against ``torch.sum``, CUB, ``torch.compile`` and a kernel that only reads, at all sizes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from torch import Tensor

from reduce_ops import _library, measure
from reduce_ops.bench_ladder import random_input

OURS = "reduce.sum"
READ = "read only"

CUB_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
    *(torch.int8, torch.int32, torch.int64),
)
"""What CUB is built for (benchmarks/csrc/cub_sum.cu)."""


OTHER_DTYPES = (
    *(torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


@dataclass(frozen=True)
class Row:
    """One input. Times are seconds of one call."""

    n: int
    dtype: str
    bytes: int
    offset: int
    """Elements between the input and an address that is a multiple of 16."""
    seconds: dict[str, float]
    iqr: dict[str, float]

    @property
    def fastest_peer(self) -> str:
        """The best of the others that also sum."""
        peers = {name: time for name, time in self.seconds.items() if name not in (OURS, READ)}
        return min(peers, key=peers.__getitem__)

    @property
    def over_fastest_peer(self) -> float:
        """Speed over that of the fastest peer."""
        return self.seconds[self.fastest_peer] / self.seconds[OURS]


@dataclass(frozen=True)
class Report:
    """One run: what ``--json`` writes."""

    benchmark: str
    environment: dict[str, Any]
    rows: list[Row]
    host_seconds: dict[str, float]
    """What a call costs the host."""


Case = tuple[int, torch.dtype, int]
"""n, dtype and offset of one input."""


def cases(device: torch.device, dtype: torch.dtype | None = None) -> list[Case]:
    """Return what is raced: powers of two in float32 or ``dtype``; without ``dtype`` also three sizes of every other.

    Every fourth power comes with its neighbours: n - 1, n + 1 and a base off by one element.
    """
    exponents = range(6, 32) if device.type == "cuda" else range(6, 25, 2)
    result: list[Case] = []
    for exponent in exponents:
        n = 2**exponent
        result.append((n, dtype or torch.float32, 0))
        if exponent % 4 == 0:
            result += [(size, dtype or torch.float32, offset) for size, offset in ((n - 1, 0), (n + 1, 0), (n, 1))]
    if dtype is None:
        largest = 2**30 if device.type == "cuda" else 2**24  # bytes
        result += [(n, other, 0) for other in OTHER_DTYPES for n in (2**12, 2**20, largest // other.itemsize)]
    return result


def run(cases: Sequence[Case], *, show_progress: bool = False) -> Report:
    """Time all contenders on each input, in one run on the same buffers."""
    _library.load("reduce_ops_bench")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    rows = []
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not show_progress) as progress:
        for n, dtype, offset in progress.track(cases, description="timing"):
            x = random_input(n + offset, dtype, device)
            functions = _contenders(x[offset:])
            if offset:
                functions = {name: _at_offset(function, offset) for name, function in functions.items()}
            times = measure.call_times(functions, x)
            rows.append(
                Row(
                    n=n,
                    dtype=str(dtype).removeprefix("torch."),
                    bytes=n * dtype.itemsize,
                    offset=offset,
                    seconds={name: time.median for name, time in times.items()},
                    iqr={name: time.iqr for name, time in times.items()},
                )
            )
    host = measure.host_times(_host_contenders(), random_input(measure.HOST_N, torch.float32, device))
    return Report(
        benchmark="sum",
        environment=measure.environment(device),
        rows=rows,
        host_seconds={name: time.median for name, time in host.items()},
    )


def _at_offset(function: measure.Function, offset: int) -> measure.Function:
    return lambda x: function(x[offset:])


def _contenders(x: Tensor) -> dict[str, measure.Function]:
    functions: dict[str, measure.Function] = {OURS: torch.ops.reduce.sum}
    if x.data_ptr() % 16 == 0:
        functions[READ] = torch.ops.reduce_bench.read
    float8 = x.dtype.is_floating_point and x.dtype.itemsize == 1
    functions["torch.sum"] = (lambda t: torch.sum(t.float())) if float8 else torch.sum
    if x.is_cuda:
        if x.dtype in CUB_DTYPES:
            functions["CUB"] = torch.ops.reduce_bench.cub_sum
        if not x.dtype.is_complex:  # which Inductor hands back to torch.sum
            functions["torch.compile"] = _compiled_sum(x)
    return functions


def _compiled_sum(x: Tensor) -> measure.Function:
    """A fresh compilation for this very shape, as Inductor does best."""
    torch.compiler.reset()
    float8 = x.dtype.is_floating_point and x.dtype.itemsize == 1
    compiled: measure.Function = torch.compile(
        (lambda t: t.float().sum()) if float8 else (lambda t: t.sum()), fullgraph=True, dynamic=False
    )
    compiled(x)
    return compiled


def _host_contenders() -> dict[str, measure.Function]:
    from reduce_ops.canonical import sum as reduce_ops_sum

    return {
        "torch.sum": torch.sum,
        "torch.ops.reduce.sum": torch.ops.reduce.sum,
        "torch.ops.reduce.sum.default": torch.ops.reduce.sum.default,
        "reduce_ops.sum": reduce_ops_sum,
    }


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts and lists."""
    return asdict(report)


def table(report: Report) -> Table:
    """Lay a report out for a terminal."""
    on_gpu = "driver" in report.environment
    host = ", ".join(f"{name} {seconds * 1e6:.2f}" for name, seconds in report.host_seconds.items())
    table = Table(
        title=f"{report.environment['device']}, us of one call" + ("" if on_gpu else " - CPU figures"),
        caption=f"cost of a call to the host, {measure.HOST_N} elements, us: {host}",
        title_justify="left",
        caption_justify="left",
    )
    names = list(dict.fromkeys(name for row in report.rows for name in row.seconds))
    table.add_column("dtype", no_wrap=True)
    for heading in ("n", *names, "of read", "vs fastest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.rows:
        read = row.seconds.get(READ)
        table.add_row(
            row.dtype,
            _size(row),
            *(f"{row.seconds[name] * 1e6:.2f}" if name in row.seconds else "" for name in names),
            f"{read / row.seconds[OURS]:.1%}" if read else "",
            f"{row.over_fastest_peer:.2f}x",
        )
    return table


def _size(row: Row) -> str:
    """As 2^20, 2^20 - 1 or 2^20 at +1 (off by one element)."""
    exponent = max(1, row.n).bit_length() - 1
    for power, difference in ((2**exponent, row.n - 2**exponent), (2 ** (exponent + 1), row.n - 2 ** (exponent + 1))):
        if abs(difference) <= 1:
            sign = {0: "", 1: " + 1", -1: " - 1"}[difference]
            return f"2^{power.bit_length() - 1}{sign}" + (f" at +{row.offset}" if row.offset else "")
    return str(row.n)


def plot(report: Report, path: Path) -> None:
    """Draw time against n, and the share of the read rate, for the aligned rows of the first dtype."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [
        row for row in report.rows if row.dtype == report.rows[0].dtype and not row.offset and row.n & (row.n - 1) == 0
    ]
    names = list(dict.fromkeys(name for row in rows for name in row.seconds))
    figure, (times, shares) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 8), height_ratios=(2, 1))
    for name in names:
        points = [(row.n, row.seconds[name], row.seconds[READ]) for row in rows if name in row.seconds]
        n = [point[0] for point in points]
        style: dict[str, Any] = {"linewidth": 2.5 if name == OURS else 1.2, "label": name}
        if name == READ:
            style |= {"color": "0.5", "linestyle": "--"}
        times.loglog(n, [point[1] * 1e6 for point in points], **style)
        shares.semilogx(n, [point[2] / point[1] for point in points], **style)
    times.set_ylabel("time of one call, us")
    times.set_title(f"Sum of {rows[0].dtype}, {report.environment['device']}")
    times.legend()
    shares.set_ylabel("share of the read rate")
    shares.set_xlabel("elements")
    for axes in (times, shares):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
