"""What the races of ``reduce.sum`` share: the times of a row, the peers, the progress bar."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from torch import Tensor

from reduce_ops import measure
from reduce_ops.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "reduce.sum"
READ = "read only"
"""The contender that only reads: no sum is faster."""

TORCH = "torch.sum"
COMPILED = "torch.compile"

Dims = tuple[int, ...] | None
Case = TypeVar("Case")
AnyRow = TypeVar("AnyRow", bound="Row")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One input. Times are seconds of one call."""

    ours: ClassVar[str] = OURS
    """The contender that the others are peers of."""

    dtype: str
    layout: str
    """How the input lies in memory: "contiguous", or the view that it is."""
    bytes: int
    seconds: dict[str, float]
    iqr: dict[str, float]

    @property
    def fastest_peer(self) -> str:
        """The best of the others that also sum."""
        peers = {name: time for name, time in self.seconds.items() if name not in (self.ours, READ)}
        return min(peers, key=peers.__getitem__)

    @property
    def over_fastest_peer(self) -> float:
        """Speed over that of the fastest peer."""
        return self.seconds[self.fastest_peer] / self.seconds[self.ours]

    @property
    def over_torch_sum(self) -> float:
        """Speed over that of ``torch.sum``."""
        return self.seconds[TORCH] / self.seconds[self.ours]


@dataclass(frozen=True)
class Report(Generic[AnyRow]):
    """One run: what ``--json`` writes."""

    benchmark: str
    environment: dict[str, Any]
    rows: list[AnyRow]
    host_seconds: dict[str, float]
    """What a call costs the host."""


def measured(functions: dict[str, measure.Function], x: Tensor) -> dict[str, Any]:
    """Time all contenders on ``x``, in one run on the same buffers, and return the fields of a `Row` but for layout."""
    times = measure.call_times(functions, x)
    return {
        "dtype": str(x.dtype).removeprefix("torch."),
        "bytes": x.nbytes,
        "seconds": {name: time.median for name, time in times.items()},
        "iqr": {name: time.iqr for name, time in times.items()},
    }


def torch_sum(dtype: torch.dtype, dims: Dims = None) -> measure.Function:
    """Return ``torch.sum``, told to do what ``reduce.sum`` does by itself: float8 it can only sum as another dtype."""
    if dtype.is_floating_point and dtype.itemsize == 1:
        return (lambda t: torch.sum(t.float())) if dims is None else (lambda t: torch.sum(t.float(), dims))
    return torch.sum if dims is None else (lambda t: torch.sum(t, dims))


def compiled_sum(x: Tensor, dims: Dims = None) -> dict[str, measure.Function]:
    """Return a fresh compilation of ``torch.sum`` for this very input, as Inductor does best: see `compiled`."""
    return compiled(torch_sum(x.dtype, dims), x)


def compiled(function: measure.Function, x: Tensor) -> dict[str, measure.Function]:
    """Return a fresh compilation of a function for this very input.

    There is none on a CPU, nor where Inductor makes no kernel and hands the function back to PyTorch.
    """
    if not x.is_cuda or x.dtype.is_complex:  # which it never has a kernel for
        return {}
    from torch._inductor import metrics

    torch.compiler.reset()
    metrics.reset()
    made: measure.Function = torch.compile(lambda t: function(t), fullgraph=True, dynamic=False)
    made(x)
    return {COMPILED: made} if metrics.generated_kernel_count else {}


def run(cases: Sequence[Case], time: Callable[[Case], AnyRow], *, show_progress: bool) -> list[AnyRow]:
    """Time each case, with a progress bar on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not show_progress) as progress:
        return [time(case) for case in progress.track(cases, description="timing")]


def names_of(rows: Iterable[Row]) -> list[str]:
    """Return the contenders, each once."""
    return list(dict.fromkeys(name for row in rows for name in row.seconds))


def microseconds(row: Row, names: Sequence[str]) -> list[str]:
    """Return the times of a row of a table, empty where a contender did not run."""
    return [f"{row.seconds[name] * 1e6:.2f}" if name in row.seconds else "" for name in names]


def title(environment: dict[str, Any]) -> str:
    """Return the title of a table of times."""
    return f"{environment['device']}, us of one call" + ("" if "driver" in environment else " - CPU figures")


def host_costs(seconds: Mapping[str, float]) -> str:
    """Return what a call costs the host, in microseconds, as a line below a table."""
    return ", ".join(f"{name} {time * 1e6:.2f}" for name, time in seconds.items())


def plot_over_n(rows: Sequence[AnyRow], size: Callable[[AnyRow], int], device: str, path: Path) -> None:
    """Draw time against n, and the share of the read rate, of rows that all have `READ`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (times, shares) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 8), height_ratios=(2, 1))
    for name in names_of(rows):
        points = [(size(row), row.seconds[name], row.seconds[READ]) for row in rows if name in row.seconds]
        n = [point[0] for point in points]
        style: dict[str, Any] = {"linewidth": 2.5 if name == rows[0].ours else 1.2, "label": name}
        if name == READ:
            style |= {"color": "0.5", "linestyle": "--"}
        times.loglog(n, [point[1] * 1e6 for point in points], **style)
        shares.semilogx(n, [point[2] / point[1] for point in points], **style)
    times.set_ylabel("time of one call, us")
    times.set_title(f"Sum of {rows[0].dtype}, {device}")
    times.legend()
    shares.set_ylabel("share of the read rate")
    shares.set_xlabel("elements")
    for axes in (times, shares):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    save(figure, path)


def save(figure: "Figure", path: Path) -> None:
    """Write a picture, whole or not at all, and be done with it."""
    from matplotlib import pyplot

    figure.tight_layout()
    with replacing(path) as new:
        figure.savefig(new)
    pyplot.close(figure)
