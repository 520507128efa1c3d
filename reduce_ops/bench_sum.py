"""Races ``reduce.sum`` against ``torch.sum``, CUB, ``torch.compile`` and a kernel that only reads, at all sizes."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.table import Table
from torch import Tensor

from reduce_ops import _cub, _library, measure, race
from reduce_ops.bench_ladder import random_input
from reduce_ops.race import OURS, READ, TORCH

CUB_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)
"""What CUB is built for (cub/cub_sum.cu)."""

AT_EVERY_POWER = (torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64)
"""On a GPU, and beside float32, whose powers of two are raced with their neighbours."""

AT_SOME_POWERS = (
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.complex128),
    *(torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
"""The others, but for complex32, which reduce.sum converts first, and uint16, uint32 and uint64, which torch.sum does
not take on a GPU."""

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.view(4096, 4096).t(),
    "x[:, ::2]": lambda x: x.view(4096, 4096)[:, ::2],
    "x[:, :4000]": lambda x: x.view(4096, 4096)[:, :4000],
    "permuted (2, 0, 1)": lambda x: x.view(16, 1024, 1024).permute(2, 0, 1),
    "channels_last": lambda x: x.view(16, 128, 128, 64).permute(0, 3, 1, 2),
}
"""Views of LAYOUT_N elements that are summed too, in the order of their logical index."""

LAYOUT_N = 4096 * 4096


@dataclass(frozen=True, kw_only=True)
class Row(race.Row):
    """One input."""

    n: int
    offset: int
    """Elements between the input and an address that is a multiple of 16."""


Report = race.Report[Row]


class Case(NamedTuple):
    """One input."""

    n: int
    dtype: torch.dtype
    offset: int = 0
    layout: str = "contiguous"
    compiled: bool = True
    """Whether torch.compile, which takes seconds for each case, is among the peers."""


def cases(device: torch.device, dtype: torch.dtype | None = None) -> list[Case]:
    """Return what is raced: powers of two in float32 or ``dtype``, and without ``dtype`` in the other dtypes too.

    Those come with their neighbours: n - 1, n + 1 and a base off by one element. Others are raced at some powers, on a
    GPU with neighbours too, and there `AT_EVERY_POWER` at all that take no more bytes than the largest of float32. In
    the end come views that are not contiguous.
    """
    first = dtype or torch.float32
    on_gpu = device.type == "cuda"
    exponents, some_powers = (range(6, 32), (12, 16, 20, 28)) if on_gpu else (range(6, 25, 2), (12, 20, 22))
    result = []
    for exponent in exponents:
        result.append(Case(2**exponent, first))
        result += _neighbours(2**exponent, first, compiled=exponent % 4 == 0)
    if dtype is None:
        most = 2 ** exponents[-1] * first.itemsize  # bytes
        for other in (*AT_EVERY_POWER, *AT_SOME_POWERS):
            powers = exponents if on_gpu and other in AT_EVERY_POWER else some_powers
            for exponent in powers:
                if 2**exponent * other.itemsize > most:
                    break
                result.append(Case(2**exponent, other))
                if on_gpu and exponent in some_powers:
                    result += _neighbours(2**exponent, other, compiled=False)
    base = torch.empty(LAYOUT_N, dtype=first, device="meta")
    result += [Case(view(base).numel(), first, 0, layout, compiled=False) for layout, view in LAYOUTS.items()]
    return result


def _neighbours(n: int, dtype: torch.dtype, *, compiled: bool) -> list[Case]:
    return [Case(size, dtype, offset, compiled=compiled) for size, offset in ((n - 1, 0), (n + 1, 0), (n, 1))]


def run(cases: Sequence[Case], *, show_progress: bool = False) -> Report:
    """Time all contenders on each input, in one run on the same buffers."""
    _library.load("reduce_ops")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        _cub.functions()  # built now, not between the cases
    rows = race.run(cases, lambda case: _timed(case, device), show_progress=show_progress)
    x = random_input(measure.HOST_N, torch.float32, device)
    host = measure.host_times(_host_contenders() | _backward_contenders(x), x)
    return Report(
        benchmark="sum",
        environment=measure.environment(device),
        rows=rows,
        host_seconds={name: time.median for name, time in host.items()},
    )


def _timed(case: Case, device: torch.device) -> Row:
    if case.layout == "contiguous":
        x = random_input(case.n + case.offset, case.dtype, device)[case.offset :]
    else:
        x = LAYOUTS[case.layout](random_input(LAYOUT_N, case.dtype, device))
    return Row(n=case.n, offset=case.offset, layout=case.layout, **race.measured(_contenders(case, x), x))


def _contenders(case: Case, x: Tensor) -> dict[str, measure.Function]:
    functions: dict[str, measure.Function] = {OURS: torch.ops.reduce.sum}
    if x.is_contiguous() and x.data_ptr() % 16 == 0:
        functions[READ] = torch.ops.reduce._read
    functions[TORCH] = race.torch_sum(x.dtype)
    if x.is_cuda and x.is_contiguous() and x.dtype in CUB_DTYPES and (cub := _cub.functions().sum):
        functions["CUB"] = cub
    return functions | (race.compiled_sum(x) if case.compiled else {})


def _host_contenders() -> dict[str, measure.Function]:
    from reduce_ops.canonical import sum as reduce_ops_sum

    return {
        "torch.sum": torch.sum,
        "torch.ops.reduce.sum": torch.ops.reduce.sum,
        "torch.ops.reduce.sum.default": torch.ops.reduce.sum.default,
        "reduce_ops.sum": reduce_ops_sum,
    }


def _backward_contenders(x: Tensor) -> dict[str, measure.Function]:
    """Return the same with a backward pass: what an operator costs the host in a training step."""
    leaf = x.clone().requires_grad_()

    def with_backward(function: measure.Function) -> measure.Function:
        return lambda _: torch.autograd.grad(function(leaf), leaf)[0]

    ops = torch.ops.reduce
    functions: dict[str, measure.Function] = {
        "torch.sum": torch.sum,
        "torch.ops.reduce.sum": ops.sum,
        "torch.ops.reduce.sum_v7": ops.sum_v7,
    }
    return {f"{name} and backward": with_backward(function) for name, function in functions.items()}


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts and lists."""
    return asdict(report)


def from_json(figures: dict[str, Any]) -> Report:
    """Return the report that `as_json` made these of; raises a KeyError or TypeError where something is missing."""
    fields = [field.name for field in dataclasses.fields(Row)]
    rows = [Row(**{name: row[name] for name in fields}) for row in figures["rows"]]
    return Report(figures["benchmark"], figures["environment"], rows, figures["host_seconds"])


def label(row: Row) -> str:
    """Name the input of a row."""
    return f"{row.dtype} {_size(row)}"


def drawn_rows(report: Report) -> list[Row]:
    """Return the rows that a plot shows: the aligned powers of two of the first dtype."""
    return [
        row
        for row in report.rows
        if (row.dtype, row.layout, row.offset) == (report.rows[0].dtype, "contiguous", 0) and row.n & (row.n - 1) == 0
    ]


def table(report: Report) -> Table:
    """Lay a report out for a terminal."""
    table = Table(
        title=race.title(report.environment),
        caption=f"cost of a call to the host, {measure.HOST_N} elements, us: {race.host_costs(report.host_seconds)}",
        title_justify="left",
        caption_justify="left",
    )
    names = race.names_of(report.rows)
    table.add_column("dtype", no_wrap=True)
    for heading in ("n", *names, "of read", "vs fastest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.rows:
        read = row.seconds.get(READ)
        table.add_row(
            row.dtype,
            _size(row),
            *race.microseconds(row, names),
            f"{read / row.seconds[OURS]:.1%}" if read else "",
            f"{row.over_fastest_peer:.2f}x",
        )
    return table


def _size(row: Row) -> str:
    """As 2^20, 2^20 - 1, 2^20 at +1 (off by one element) or the layout, whose size is always the same."""
    if row.layout != "contiguous":
        return row.layout
    exponent = max(1, row.n).bit_length() - 1
    for power, difference in ((2**exponent, row.n - 2**exponent), (2 ** (exponent + 1), row.n - 2 ** (exponent + 1))):
        if abs(difference) <= 1:
            sign = {0: "", 1: " + 1", -1: " - 1"}[difference]
            return f"2^{power.bit_length() - 1}{sign}" + (f" at +{row.offset}" if row.offset else "")
    return str(row.n)


def plot(report: Report, path: Path) -> None:
    """Draw time against n, and the share of the read rate, for the aligned rows of the first dtype."""
    race.plot_over_n(drawn_rows(report), lambda row: row.n, report.environment["device"], path)
