"""Races ``reduce.sum_exact`` against sums that round on the way, and measures how far off these are."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from rich.table import Table
from torch import Tensor

from reduce_ops import _cub, exact, exact_value, measure, race
from reduce_ops.race import OURS, READ, TORCH

EXACT = "reduce.sum_exact"
FLOAT64 = "torch.sum, float64"
CUB = "CUB, gpu_to_gpu"
FSUM = "math.fsum"

FSUM_N = 2**20
"""Elements up to which ``math.fsum`` takes part, on the CPU: it needs 10 ns or more for each."""

CUB_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""What CUB's reproducible sum is built for (cub/cub_reproducible_sum.cu)."""

SAMPLES = 4
"""Outputs of a sum along a dimension that are checked, the first and the last among them."""

Make = Callable[[int, torch.Generator], Tensor]


def _randn(n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, generator=generator, device=generator.device, dtype=dtype)


def _mixed_scale(n: int, generator: torch.Generator) -> Tensor:
    scales = torch.rand(n, generator=generator, device=generator.device).mul_(8).sub_(4)
    return _randn(n, generator) * torch.pow(10.0, scales)


def _exponents_to(last: int, n: int, generator: torch.Generator) -> Tensor:
    """Floats whose exponent field is uniform in 0..last, of random sign and significand."""

    def below(bound: int) -> Tensor:
        return torch.randint(bound, (n,), generator=generator, device=generator.device, dtype=torch.int32)

    return ((below(2) << 31) | (below(last + 1) << 23) | below(2**23)).view(torch.float32)


def _cancellation(n: int, generator: torch.Generator) -> Tensor:
    """Every element but one has its negative on the other side of the middle; that one is what is left."""
    half = _mixed_scale(n // 2, generator)
    x = torch.cat([half, -half.flip(0)])
    x[0], x[-1] = 2.0**-30, 0.0
    return x


def _outliers(n: int, generator: torch.Generator) -> Tensor:
    """A few elements that are 1e30 times as large as the rest."""
    x = _randn(n, generator)
    x[::499] *= 1e30
    return x


DATA: dict[str, Make] = {
    "randn": _randn,
    "mixed scale": _mixed_scale,  # randn * 10^U(-4, 4)
    "any exponent": lambda n, generator: _exponents_to(230, n, generator),  # so that 2**28 elements have a finite sum
    "cancellation": _cancellation,
    "subnormal": lambda n, generator: _exponents_to(0, n, generator),
    "relu(randn)": lambda n, generator: _randn(n, generator).relu_(),
    "outliers": _outliers,
}
"""Kinds of data, in float32."""


@dataclass(frozen=True, kw_only=True)
class Row(race.Row):
    """One input."""

    ours: ClassVar[str] = EXACT

    group: str
    data: str
    """What the elements are: one of `DATA`."""
    shape: list[int]
    dim: int | None
    ulps: dict[str, float | None]
    """How far results are from the real sum, in units in the last place: the worst of those checked; None where one is
    not finite. Results are rounded to the dtype of the exact one first."""
    checked: int
    """Outputs whose bits were compared with the real sum, rounded once."""
    wrong: int
    """How many of these the exact sum had wrong."""

    @property
    def of_read(self) -> float:
        """Speed as a share of the read-only kernel's."""
        return self.seconds[READ] / self.seconds[EXACT]

    @property
    def of_sum(self) -> float:
        """Speed over that of ``reduce.sum``."""
        return self.seconds[OURS] / self.seconds[EXACT]

    @property
    def beyond_sum(self) -> float:
        """Seconds more than ``reduce.sum`` takes."""
        return self.seconds[EXACT] - self.seconds[OURS]


Report = race.Report[Row]


class Case(NamedTuple):
    """One input."""

    group: str
    shape: tuple[int, ...]
    dim: int | None = None
    dtype: torch.dtype = torch.float32
    data: str = "randn"


def cases(device: torch.device, dtype: torch.dtype | None = None) -> list[Case]:
    """Return what is raced: powers of two, rows and columns in float32 or ``dtype``; without it also other data."""
    on_gpu = device.type == "cuda"
    first = dtype or torch.float32
    large = 2**28 if on_gpu else 2**20
    result = [
        Case("sizes", (2**exponent,), dtype=first) for exponent in (range(16, 31) if on_gpu else range(16, 25, 2))
    ]
    if dtype is None:
        result += [Case("data", (large,), data=data) for data in DATA]
        others = (torch.float16, torch.bfloat16, torch.float64)
        result += [Case("dtypes", (large,), dtype=other) for other in others]
    wide = 2**18 if on_gpu else 2**10
    dims = (((4096, 4096), 0), ((4096, 4096), 1), ((wide, 1024), 1), ((1024, wide), 0))
    return result + [Case("dims", shape, dim, first) for shape, dim in (dims if on_gpu else dims[2:])]


def run(cases: Sequence[Case], *, show_progress: bool = False) -> Report:
    """Time all contenders on each input, in one run on the same buffers, and check what they return."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        _cub.functions()  # built now, not between the cases
    rows = race.run(cases, lambda case: _timed(case, device), show_progress=show_progress)
    x = make_input(Case("", (measure.HOST_N,)), device)
    host = measure.host_times(_host_contenders(x), x)
    return Report(
        benchmark="exact",
        environment=measure.environment(device),
        rows=rows,
        host_seconds={name: time.median for name, time in host.items()},
    )


def make_input(case: Case, device: torch.device) -> Tensor:
    """Return the input of a case."""
    generator, n = torch.Generator(device).manual_seed(0), math.prod(case.shape)
    if case.dtype == torch.float64:  # of float32 values a float64 has the exact sum
        return _randn(n, generator, case.dtype).view(case.shape)
    return DATA[case.data](n, generator).to(case.dtype).view(case.shape)


def _timed(case: Case, device: torch.device) -> Row:
    x = make_input(case, device)
    functions = _contenders(case, x)
    times = race.measured(functions, x)
    del functions[READ]
    if case.dim is None and x.numel() <= FSUM_N:
        values = x.tolist()
        functions[FSUM] = lambda _: torch.tensor(math.fsum(values), dtype=torch.float64)
        fsum = measure.call_times({FSUM: functions[FSUM]}, x.cpu())[FSUM]
        times["seconds"][FSUM], times["iqr"][FSUM] = fsum.median, fsum.iqr
    return Row(
        group=case.group,
        data=case.data,
        shape=list(case.shape),
        dim=case.dim,
        layout="contiguous",
        **times,
        **_checked(case, x, {name: function(x) for name, function in functions.items()}),
    )


def _contenders(case: Case, x: Tensor) -> dict[str, measure.Function]:
    dim = case.dim
    functions: dict[str, measure.Function] = {
        EXACT: lambda t: torch.ops.reduce.sum_exact(t, dim),
        OURS: lambda t: torch.ops.reduce.sum(t, dim),
        READ: torch.ops.reduce._read,
        TORCH: race.torch_sum(x.dtype, None if dim is None else (dim,)),
    }
    if x.dtype in (torch.float16, torch.bfloat16, torch.float32):
        functions[FLOAT64] = lambda t: torch.sum(t, dim, dtype=torch.float64)
    if x.is_cuda and dim is None and x.dtype in CUB_DTYPES and (cub := _cub.functions().reproducible_sum):
        functions[CUB] = cub
    return functions


def _checked(case: Case, x: Tensor, results: dict[str, Tensor]) -> dict[str, Any]:
    """Return the fields of a `Row` that say how far off the results are, by some of the outputs."""
    dtype = results[EXACT].dtype
    outputs = {name: result.to(dtype).flatten().tolist() for name, result in results.items()}
    n = results[EXACT].numel()
    samples = sorted({i * (n - 1) // (SAMPLES - 1) for i in range(SAMPLES)})
    ulps: dict[str, float | None] = dict.fromkeys(results, 0.0)
    wrong = 0
    for i in samples:
        value = exact_value.exact_sum(x if case.dim is None else x.select(1 - case.dim, i))
        nearest = exact_value.nearest(value, dtype)
        wrong += outputs[EXACT][i] != nearest or math.copysign(1, outputs[EXACT][i]) != math.copysign(1, nearest)
        for name, worst in ulps.items():
            error = exact_value.error_in_ulps(outputs[name][i], value, dtype)
            ulps[name] = None if worst is None or error is None else max(worst, error)
    return {"ulps": ulps, "checked": len(samples), "wrong": wrong}


def _host_contenders(x: Tensor) -> dict[str, measure.Function]:
    state = torch.ops.reduce.exact_state(x)
    return {
        "torch.sum": torch.sum,
        "torch.ops.reduce.sum": torch.ops.reduce.sum,
        "torch.ops.reduce.sum_exact": torch.ops.reduce.sum_exact,
        "reduce_ops.sum_exact": exact.sum_exact,
        "reduce_ops.exact_state": exact.exact_state,
        "reduce_ops.exact_round": lambda _: exact.exact_round(state, dtype=torch.float32),
    }


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts and lists, with the ratios of every row."""
    figures = asdict(report)
    for figure, row in zip(figures["rows"], report.rows, strict=True):
        figure |= {"of_read": row.of_read, "of_sum": row.of_sum, "beyond_sum": row.beyond_sum}
    return figures


def from_json(figures: dict[str, Any]) -> Report:
    """Return the report that `as_json` made these of; raises a KeyError, TypeError... where something is missing."""
    fields = [field.name for field in dataclasses.fields(Row)]
    lists: list[dict[str, Any]] = [{name: row[name] for name in fields} for row in figures["rows"]]
    rows = [
        Row(**row | {"ulps": {name: None if error is None else float(error) for name, error in row["ulps"].items()}})
        for row in lists
    ]
    return Report(figures["benchmark"], figures["environment"], rows, figures["host_seconds"])


def label(row: Row) -> str:
    """Name the input of a row: float32 2^28, outliers, or float32 (2^18, 1024) along 1."""
    sizes = [f"2^{n.bit_length() - 1}" if n > 4096 and n & (n - 1) == 0 else str(n) for n in row.shape]
    name = f"{row.dtype} {sizes[0] if len(sizes) == 1 else '(' + ', '.join(sizes) + ')'}"
    name += "" if row.dim is None else f" along {row.dim}"
    return name + (f", {row.data}" if row.group == "data" else "")


def table(report: Report) -> Table:
    """Lay a report out for a terminal."""
    checked, wrong = sum(row.checked for row in report.rows), sum(row.wrong for row in report.rows)
    notes = [
        f"{checked} results of {EXACT} compared with sums of Python integers, rounded once: {wrong} of other bits",
        "errors are in units in the last place of the real sum, of results rounded to the dtype of the exact one",
        f"cost of a call to the host, {measure.HOST_N} elements, us: {race.host_costs(report.host_seconds)}",
    ]
    table = Table(
        title=race.title(report.environment), caption="\n".join(notes), title_justify="left", caption_justify="left"
    )
    names = race.names_of(report.rows)
    table.add_column("input", no_wrap=True)
    for heading in (*names, "of read", f"of {OURS}", "us beyond it"):
        table.add_column(heading, justify="right")
    for number, row in enumerate(report.rows, 1):
        table.add_row(
            label(row),
            *race.microseconds(row, names),
            f"{row.of_read:.1%}",
            f"{row.of_sum:.1%}",
            f"{row.beyond_sum * 1e6:+.2f}",
        )
        next_group = report.rows[number].group if number < len(report.rows) else row.group
        errors = (_error(row.ulps[name]) if name in row.ulps else "" for name in names)
        right = f"{row.wrong} WRONG" if row.wrong else ""
        table.add_row("  error", *errors, right, "", "", style="dim", end_section=next_group != row.group)
    return table


def _error(ulps: float | None) -> str:
    return "not finite" if ulps is None else f"{ulps:.2g}"


def drawn_rows(report: Report) -> list[Row]:
    """Return the rows that the plot of speed shows."""
    return [row for row in report.rows if row.group == "sizes"]


def plot(report: Report, path: Path) -> None:
    """Draw time against n, and the share of the read rate; beside it, in `errors_path`, the errors."""
    race.plot_over_n(drawn_rows(report), lambda row: row.shape[0], report.environment["device"], path)
    plot_errors(report, errors_path(path))


def errors_path(path: Path) -> Path:
    """Return where the picture of the errors goes: next to that of the speed."""
    return path.with_stem(f"{path.stem}_errors")


def plot_errors(report: Report, path: Path) -> None:
    """Draw the error of every contender in units in the last place: a line for each kind of data and dtype."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in report.rows if row.group in ("data", "dtypes")] or drawn_rows(report)
    names = [name for name in race.names_of(rows) if name != READ]
    figure, axes = pyplot.subplots(figsize=(9, 2 + 0.35 * len(rows)))
    axes.set_xscale("symlog", linthresh=1)  # linear up to a unit, or an error of 0 had no place
    for place, name in enumerate(names):
        points = [(error, i) for i, row in enumerate(rows) if (error := row.ulps.get(name)) is not None]
        style: dict[str, Any] = {"marker": "oDs^vP*"[place % 7], "s": 60 if name == EXACT else 26, "label": name}
        lower = 0.12 * (place - len(names) / 2)  # so that equal errors stand below each other
        axes.scatter([error for error, _ in points], [i + lower for _, i in points], zorder=3, **style)
    axes.axvline(0.5, color="black", linewidth=1, linestyle="--", label="correctly rounded, at most")
    axes.set_yticks(range(len(rows)), [label(row) for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left=-0.1)
    axes.set_xlabel("error in units in the last place")
    axes.set_title(f"Errors of sums, {report.environment['device']}", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    race.save(figure, path)
