"""Races sums along dimensions against ``torch.sum`` and ``torch.compile``, over shapes of every kind."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from rich.table import Table
from torch import Tensor

from reduce_ops import canonical, measure, race
from reduce_ops.bench_ladder import random_input
from reduce_ops.race import OURS, TORCH

HOST_SHAPE = (64, 64)
"""What the host's cost of a sum along dimension 1 is measured on."""

AHEAD = 1.01
"""From here on a shape counts as faster than the fastest peer."""

Make = Callable[[tuple[int, ...]], Tensor]
Shape = tuple[int, ...]
Sum = tuple[Shape, tuple[int, ...]]
"""A shape and the dimensions to sum over."""


def _at_plus_1(shape: Shape, make: Make) -> Tensor:
    numel = torch.empty(shape, device="meta").numel()
    return make((numel + 1,))[1:].view(shape)


LAYOUTS: dict[str, Callable[[Shape, Make], Tensor]] = {
    "contiguous": lambda shape, make: make(shape),
    "channels_last": lambda shape, make: make((shape[0], *shape[2:], shape[1])).movedim(-1, 1),
    "transposed": lambda shape, make: make((*shape[:-2], shape[-1], shape[-2])).mT,
    "reversed": lambda shape, make: make(shape[::-1]).permute(*reversed(range(len(shape)))),
    "batch turned": lambda shape, make: make((shape[1], shape[0], *shape[2:])).transpose(0, 1),
    "x[..., :-1]": lambda shape, make: make((*shape[:-1], shape[-1] + 1))[..., :-1],
    "x[..., ::2]": lambda shape, make: make((*shape[:-1], 2 * shape[-1]))[..., ::2],
    "at +1": _at_plus_1,
}
"""How an input of a shape lies in memory; `make` fills a new, contiguous tensor."""


@dataclass(frozen=True, kw_only=True)
class Row(race.Row):
    """One input."""

    group: str
    shape: list[int]
    dim: list[int]


@dataclass(frozen=True)
class Group:
    """The rows of one group, put together. Ratios above 1 are in favour of ``reduce.sum``."""

    name: str
    rows: int
    over_fastest_peer: float
    """Geometric mean."""
    over_torch_sum: float
    """Geometric mean."""
    least: float
    """The lowest speed over that of the fastest peer."""
    ahead: int
    """How many rows are more than 1 % faster than the fastest peer."""


@dataclass(frozen=True)
class Report:
    """One run: what ``--json`` writes."""

    benchmark: str
    environment: dict[str, Any]
    rows: list[Row]
    groups: list[Group]
    host_seconds: dict[str, float]
    """What a call costs the host."""


class Case(NamedTuple):
    """One input."""

    group: str
    shape: Shape
    dim: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: str = "contiguous"


LIST: tuple[Sum, ...] = (
    *(((4096, 4096), (0,)), ((4096, 4096), (1,))),
    *(((2**20, 32), (0,)), ((2**20, 32), (1,)), ((32, 2**20), (0,)), ((32, 2**20), (1,))),
    *(((8, 2**22), (0,)), ((8, 2**22), (1,)), ((2**22, 8), (0,)), ((2**22, 8), (1,))),
    *(((2**24, 3), (0,)), ((2**24, 3), (1,)), ((3, 2**24), (1,))),
    *(((131072, 257), (0,)), ((131072, 257), (1,))),
    *(((16, 2048, 4096), (1,)), ((16, 2048, 4096), (0, 1))),
    *(((64, 3, 224, 224), (0, 2, 3)), ((32, 256, 56, 56), (0, 2, 3))),
    *(((1000003,), (0,)), ((2**24, 2), (0,)), ((8192, 50257), (1,)), ((2, 2**25), (0,)), ((100, 1000, 100), (1,))),
)
"""One shape or two for each way to sum that there is."""

EXTRA: tuple[Sum, ...] = (
    *(((2**24, 4), (0,)), ((2**23, 5), (0,)), ((2**23, 6), (0,)), ((2**21, 16), (0,))),
    *(((32768, 1001), (0,)), ((64, 512, 1000), (1,))),
)

NEIGHBOURS: tuple[Sum, ...] = (
    *(((4095, 4096), (0,)), ((4097, 4096), (0,)), ((4096, 4095), (0,)), ((4096, 4097), (0,))),
    *(((4096, 4095), (1,)), ((4096, 4097), (1,)), ((4097, 4096), (1,))),
    *(((2**20 + 1, 32), (0,)), ((2**20, 33), (0,)), ((2**20, 31), (1,)), ((2**20, 33), (1,))),
    *(((31, 2**20), (0,)), ((33, 2**20), (0,)), ((32, 2**20 - 1), (1,)), ((32, 2**20 + 1), (1,))),
    *(((7, 2**22), (0,)), ((9, 2**22), (0,)), ((8, 2**22 + 1), (0,)), ((8, 2**22 + 1), (1,))),
    *(((2**22, 7), (0,)), ((2**22, 7), (1,)), ((2**22, 9), (1,)), ((2**24 + 1, 3), (0,)), ((3, 2**24 - 1), (1,))),
    *(((2**20, 9), (0,)), ((2**20, 12), (0,)), ((2**20, 17), (0,)), ((2**20, 24), (0,)), ((2**20, 31), (0,))),
    *(((131072, 256), (1,)), ((131072, 258), (0,)), ((131072, 258), (1,))),
    *(((16, 2049, 4096), (1,)), ((16, 2048, 4097), (1,)), ((8192, 50258), (1,)), ((3, 2**25), (0,))),
    *(((64, 3, 225, 225), (0, 2, 3)), ((100, 1001, 100), (1,)), ((100, 1000, 101), (1,))),
    # Small or odd ones.
    *(((2048, 2048), (0,)), ((1024, 64), (0,)), ((64, 1024), (1,)), ((17, 4099, 33), (1,)), ((5, 7, 100003), (0, 2))),
)

VIEWS: tuple[tuple[Sum, str], ...] = (
    *((((4096, 4096), (d,)), layout) for layout in ("x[..., :-1]", "x[..., ::2]", "at +1") for d in (0, 1)),
    *((((2**20, 32), (d,)), "x[..., :-1]") for d in (0, 1)),
    (((100, 1000, 100), (1,)), "transposed"),
)
"""Neighbours by their strides."""

TRAINING: tuple[Sum, ...] = (
    # Gradients of biases
    *(((32, 768), (0,)), ((256, 4096), (0,)), ((8192, 1024), (0,)), ((16384, 3072), (0,)), ((8, 512, 768), (0, 1))),
    # Statistics of layer norms
    *(((8, 512, 768), (2,)), ((4, 2048, 4096), (2,))),
)

IMAGES: tuple[Sum, ...] = (((32, 64, 112, 112), (0, 2, 3)), ((128, 512, 7, 7), (0, 2, 3)))
"""Statistics of batch norms."""

LAYOUT_SUMS: tuple[tuple[Sum, str], ...] = (
    # Full sums whose order runs across memory
    *((((4096, 4096), (0, 1)), "reversed"), (((4097, 4095), (0, 1)), "reversed"), (((3, 2**22), (0, 1)), "reversed")),
    *((((64, 3, 224, 224), (0, 1, 2, 3)), "channels_last"), (((232, 35649, 2), (0, 1, 2)), "batch turned")),
    # Both ends of a batch
    *((((184, 48318, 15), (0, 2)), "reversed"), (((454, 1065, 70), (0, 2)), "reversed")),
    *((((38, 40, 39920), (0, 2)), "reversed"), (((145, 7876, 81), (0, 1)), "reversed")),
    *((((19, 5565, 366), (0, 1)), "reversed"), (((2, 34998, 649), (1, 2)), "reversed")),
    # Rows and columns of a permuted batch
    *((((512, 128, 769), (2,)), "batch turned"), (((979, 52, 905), (0,)), "reversed")),
    *((((4590, 51, 253), (1, 2)), "reversed"), (((3325, 1538, 13, 1), (3,)), "reversed")),
)
"""Layouts that no kernel is made for, or that one is made for which no contiguous input meets."""

RANDOM_SUMS = 20
"""How many sums that nobody chose are raced: a plan made for the shapes above should do for others too."""

OF_OTHER_DTYPES: tuple[Sum, ...] = (
    *(((4096, 4096), (0,)), ((4096, 4096), (1,)), ((2**20, 32), (0,)), ((2**20, 32), (1,)), ((8, 2**22), (0,))),
    *(((2**22, 8), (0,)), ((3, 2**24), (1,)), ((131072, 257), (1,)), ((16, 2048, 4096), (1,))),
    *(((64, 3, 224, 224), (0, 2, 3)),),
)

OTHER_DTYPES = (torch.float16, torch.bfloat16, torch.int8, torch.bool)

ON_CPU: dict[str, tuple[Sum, ...]] = {
    "list": (
        *(((4096, 4096), (0,)), ((4096, 4096), (1,)), ((2**18, 8), (0,)), ((2**18, 8), (1,))),
        *(((100, 1000, 100), (1,)), ((1000003,), (0,))),
    ),
    "neighbours": (((2**18, 9), (0,)), ((2**18, 9), (1,)), ((1024, 1023), (0,)), ((17, 4099, 33), (1,))),
    "training": (((32, 768), (0,)), ((2048, 1024), (0,)), ((8, 512, 768), (2,)), ((8, 512, 7, 7), (0, 2, 3))),
}
OF_OTHER_DTYPES_ON_CPU: tuple[Sum, ...] = (((2048, 2048), (0,)), ((2048, 2048), (1,)))


def random_sums(count: int) -> tuple[Sum, ...]:
    """Return sums of 2 or 3 dimensions over one of them, of 2^18 to 2^26 elements: always the same ones."""
    random = Random(0)
    sums: list[Sum] = []
    while len(sums) < count:
        shape = tuple(int(2 ** random.uniform(1, 16)) for _ in range(random.choice((2, 3))))
        if 2**18 <= math.prod(shape) <= 2**26:
            sums.append((shape, (random.randrange(len(shape)),)))
    return tuple(sums)


def cases(device: torch.device, dtype: torch.dtype | None = None) -> list[Case]:
    """Return what is raced: all shapes in float32 or ``dtype``; without ``dtype`` also some in other dtypes."""
    first = dtype or torch.float32
    if device.type == "cuda":
        groups = {"list": LIST, "extra": EXTRA, "neighbours": NEIGHBOURS, "training": TRAINING + IMAGES}
        groups |= {"layouts": (), "random": random_sums(RANDOM_SUMS)}
        views = [("neighbours", *view) for view in VIEWS] + [("training", x, "channels_last") for x in IMAGES]
        views += [("layouts", *view) for view in LAYOUT_SUMS]
        of_other_dtypes = OF_OTHER_DTYPES
    else:
        groups = ON_CPU
        views = [("training", ON_CPU["training"][-1], "channels_last")]
        of_other_dtypes = OF_OTHER_DTYPES_ON_CPU

    result = []
    for group, sums in groups.items():
        result += [Case(group, shape, dim, first) for shape, dim in sums]
        result += [Case(group, shape, dim, first, layout) for of, (shape, dim), layout in views if of == group]
    if dtype is None:
        result += [Case("dtypes", shape, dim, other) for other in OTHER_DTYPES for shape, dim in of_other_dtypes]
    return result


def run(cases: Sequence[Case], *, show_progress: bool = False) -> Report:
    """Time all contenders on each input, in one run on the same buffers."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = race.run(cases, lambda case: _timed(case, device), show_progress=show_progress)
    host = measure.host_times(_host_contenders(), random_input(64 * 64, torch.float32, device).view(HOST_SHAPE))
    return Report(
        benchmark="dims",
        environment=measure.environment(device),
        rows=rows,
        groups=[_together(group, of_group) for group, of_group in _by_group(rows)],
        host_seconds={name: time.median for name, time in host.items()},
    )


def make_input(case: Case, device: torch.device) -> Tensor:
    """Return the input of a case, as its layout says."""

    def make(shape: Shape) -> Tensor:
        numel = torch.empty(shape, device="meta").numel()
        return random_input(numel, case.dtype, device).view(shape)

    return LAYOUTS[case.layout](case.shape, make)


def _timed(case: Case, device: torch.device) -> Row:
    x = make_input(case, device)
    functions: dict[str, measure.Function] = {
        OURS: lambda t: canonical.sum(t, case.dim),
        TORCH: race.torch_sum(case.dtype, case.dim),
    }
    functions |= race.compiled_sum(x, case.dim)
    return Row(
        group=case.group,
        shape=list(case.shape),
        dim=list(case.dim),
        layout=case.layout,
        **race.measured(functions, x),
    )


def _host_contenders() -> dict[str, measure.Function]:
    return {
        "torch.sum": lambda x: torch.sum(x, 1),
        "torch.ops.reduce.sum": lambda x: torch.ops.reduce.sum(x, 1),
        "torch.ops.reduce.sum.dim_IntList": lambda x: torch.ops.reduce.sum.dim_IntList(x, 1),
        "reduce_ops.sum": lambda x: canonical.sum(x, 1),
    }


def _together(name: str, rows: list[Row]) -> Group:
    ratios = [row.over_fastest_peer for row in rows]
    return Group(
        name=name,
        rows=len(rows),
        over_fastest_peer=statistics.geometric_mean(ratios),
        over_torch_sum=statistics.geometric_mean(row.over_torch_sum for row in rows),
        least=min(ratios),
        ahead=sum(ratio > AHEAD for ratio in ratios),
    )


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts and lists, with the ratios of every row."""
    figures = asdict(report)
    for figure, row in zip(figures["rows"], report.rows, strict=True):
        figure |= {"over_fastest_peer": row.over_fastest_peer, "over_torch_sum": row.over_torch_sum}
    return figures


def from_json(figures: dict[str, Any]) -> Report:
    """Return the report that `as_json` made these of; raises a KeyError or TypeError where something is missing."""
    fields = [field.name for field in dataclasses.fields(Row)]
    lists: list[dict[str, Any]] = [{name: row[name] for name in fields} for row in figures["rows"]]
    rows = [Row(**row | {"shape": tuple(row["shape"]), "dim": tuple(row["dim"])}) for row in lists]
    groups = [_together(name, of_group) for name, of_group in _by_group(rows)]
    return Report(figures["benchmark"], figures["environment"], rows, groups, figures["host_seconds"])


def table(report: Report) -> Table:
    """Lay a report out for a terminal."""
    notes = [
        f"{group.name}: {group.over_fastest_peer:.3f} x the fastest peer and {group.over_torch_sum:.2f} x torch.sum "
        f"(geometric means), at least {group.least:.3f} x, {group.ahead} of {group.rows} ahead by more than 1 %"
        for group in report.groups
    ]
    notes.append(f"cost of a call to the host, {HOST_SHAPE} along 1, us: {race.host_costs(report.host_seconds)}")
    table = Table(
        title=race.title(report.environment), caption="\n".join(notes), title_justify="left", caption_justify="left"
    )
    names = race.names_of(report.rows)
    for heading in ("group", "shape", "dim", "dtype", "layout"):
        table.add_column(heading, no_wrap=True)
    for heading in (*names, "GB/s", "vs fastest", "vs torch.sum"):
        table.add_column(heading, justify="right", no_wrap=True)
    before = ""
    for row in report.rows:
        if row.group != before and before:
            table.add_section()
        table.add_row(
            row.group if row.group != before else "",
            *_shape_and_dim(row),
            row.dtype,
            row.layout if row.layout != "contiguous" else "",
            *race.microseconds(row, names),
            f"{row.bytes / row.seconds[OURS] / 1e9:.4g}",
            f"{row.over_fastest_peer:.3f}x",
            f"{row.over_torch_sum:.2f}x",
        )
        before = row.group
    return table


def _shape_and_dim(row: Row) -> tuple[str, str]:
    """As (2^20, 33) and 0, 2."""

    def size(n: int) -> str:
        for power in (n, n - 1, n + 1):
            if power >= 2**14 and power & (power - 1) == 0:
                return f"2^{power.bit_length() - 1}" + {0: "", 1: "+1", -1: "-1"}[n - power]
        return str(n)

    return f"({', '.join(map(size, row.shape))})", ", ".join(map(str, row.dim))


def plot(report: Report, path: Path) -> None:
    """Draw the ratio to the fastest peer: a bar for each row, a colour for each group."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.17 * len(report.rows)))
    labels: list[str] = []
    for group, rows in _by_group(report.rows):
        first = len(labels)
        labels += [label(row) for row in rows]
        ratios = [row.over_fastest_peer for row in rows]
        axes.barh(range(first, len(labels)), [ratio - 1 for ratio in ratios], left=1, label=group)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xscale("log")
    low = min(row.over_fastest_peer for row in report.rows)
    high = max(row.over_fastest_peer for row in report.rows)
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if high > 3 * low else (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2)
    ticks = [step for step in steps if low <= step <= high or step == 1]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("speed of reduce.sum over that of the fastest peer")
    axes.set_title(f"Sums along dimensions, {report.environment['device']}", fontsize=10)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)
    race.save(figure, path)


def _by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    return [(name, list(of_group)) for name, of_group in groupby(rows, key=lambda row: row.group)]


def label(row: Row) -> str:
    """Name the input of a row."""
    shape, dim = _shape_and_dim(row)
    others = [row.dtype] if row.dtype != "float32" else []
    others += [row.layout] if row.layout != "contiguous" else []
    return " ".join([shape, f"d{dim}" if len(row.dim) == 1 else f"d({dim})", *others])
