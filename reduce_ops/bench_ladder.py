"""Races the rungs against ``torch.sum`` and against a kernel that only reads."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from torch import Tensor

from reduce_ops import _library, measure
from reduce_ops.explanation import REFERENCE_N as REFERENCE_N
from reduce_ops.ladder import LADDER, Rung
from reduce_ops.race import READ


@dataclass(frozen=True)
class Row:
    """One contender. Times are seconds of one call."""

    name: str
    title: str
    seconds: float
    iqr: float
    bytes_per_second: float
    read_share: float
    """Speed as a share of the read-only kernel's in the same run."""
    step: float | None
    """Speed over that of the rung before; None where that rung did not run."""
    over_torch_sum: float
    """Speed over that of ``torch.sum``."""
    host_seconds: float
    """What a call costs the host, on a small input."""
    relative_error: float | None
    """Of the value, against a float64 sum; None where that is 0 or not finite."""


@dataclass(frozen=True)
class Size:
    """All contenders on the first n elements of the input."""

    n: int
    bytes: int
    seconds: dict[str, float]
    """Of one call, by contender."""


@dataclass(frozen=True)
class Report:
    """One run: what ``--json`` writes."""

    benchmark: str
    environment: dict[str, Any]
    n: int
    dtype: str
    bytes: int
    read_seconds: float
    read_bytes_per_second: float
    rows: list[Row]
    sizes: list[Size]
    """What is drawn against n; empty where nobody asked for it."""


def random_input(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return n values that make rounding visible: uniform in [0, 1), or small integers."""
    generator = torch.Generator(device).manual_seed(0)
    if dtype == torch.bool:
        return torch.randint(0, 2, (n,), generator=generator, device=device, dtype=torch.uint8).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 100, (n,), generator=generator, device=device, dtype=torch.uint8).to(dtype)
    if dtype.is_complex:
        return torch.rand(n, generator=generator, device=device, dtype=torch.complex64).to(dtype)
    return torch.rand(n, generator=generator, device=device, dtype=torch.float32).to(dtype)


SMALLEST = 2**10
"""Elements from which on times are drawn against n: there, a launch is all that takes time."""


def run(x: Tensor, rungs: Sequence[Rung] = LADDER, *, over_sizes: bool = False, show_progress: bool = False) -> Report:
    """Time the rungs, ``torch.sum`` and the read-only kernel on ``x``, in one run on the same buffers.

    Args:
        x: The input, of one dimension.
        rungs: The rungs to time.
        over_sizes: Whether they, and ``reduce.sum``, are also timed on the first 2**10, 2**12, ... elements.
        show_progress: Whether to show a bar on standard error.
    """
    _library.load("reduce_ops")
    functions: dict[str, measure.Function] = {READ: torch.ops.reduce._read}
    functions |= {rung.name: getattr(torch.ops.reduce, rung.name) for rung in rungs}
    functions["torch.sum"] = _torch_sum(x)

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not show_progress) as progress:
        counts = [SMALLEST * 4**i for i in range(32) if SMALLEST * 4**i < x.numel()] + [x.numel()] if over_sizes else []
        task = progress.add_task("timing", total=2 * len(functions) - 1 + len(counts))
        contenders = functions | {"reduce.sum": torch.ops.reduce.sum}
        sizes = []
        for n in counts:
            times = measure.call_times(contenders, x[:n].clone())  # a view of x would be copied with all of x
            sizes.append(Size(n, n * x.element_size(), {name: time.median for name, time in times.items()}))
            progress.advance(task)
        call = measure.call_times(functions, x, tick=lambda: progress.advance(task))
        del functions[READ]
        progress.update(task, description="host cost")
        host = measure.host_times(functions, x, tick=lambda: progress.advance(task))

    reference = _float64_sum(x)
    rows = []
    for name, function in functions.items():
        seconds = call[name].median
        before = _rung_before(name)
        rows.append(
            Row(
                name=name,
                title=next((rung.title for rung in rungs if rung.name == name), ""),
                seconds=seconds,
                iqr=call[name].iqr,
                bytes_per_second=x.nbytes / seconds,
                read_share=call[READ].median / seconds,
                step=call[before].median / seconds if before in call else None,
                over_torch_sum=call["torch.sum"].median / seconds,
                host_seconds=host[name].median,
                relative_error=_relative_error(function(x), reference),
            )
        )
    read_seconds = call[READ].median
    return Report(
        benchmark="ladder",
        environment=measure.environment(x.device),
        n=x.numel(),
        dtype=str(x.dtype).removeprefix("torch."),
        bytes=x.nbytes,
        read_seconds=read_seconds,
        read_bytes_per_second=x.nbytes / read_seconds,
        rows=rows,
        sizes=sizes,
    )


def _torch_sum(x: Tensor) -> measure.Function:
    """``torch.sum``, told to do what the rungs do by themselves: float8 it can only sum as another dtype."""
    if x.dtype.itemsize == 1 and x.dtype.is_floating_point:
        return lambda t: torch.sum(t.float())
    return torch.sum


def _rung_before(name: str) -> str | None:
    numbers = {rung.name: rung.number for rung in LADDER}
    number = numbers.get(name, 0)
    return LADDER[number - 1].name if number > 0 else None


def _float64_sum(x: Tensor) -> complex | float | int:
    if x.dtype.is_complex:
        return complex(x.to(torch.complex128).sum().item())
    if x.dtype.is_floating_point:
        return float(x.to(torch.float64).sum().item())
    return int(x.to(torch.int64).sum().item())


def _relative_error(value: Tensor, reference: complex | float | int) -> float | None:
    error = abs(value.item() - reference) / abs(reference) if reference else float("nan")
    return error if error < float("inf") else None


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain dicts and lists."""
    return asdict(report)


def table(report: Report) -> Table:
    """Lay a report out for a terminal, 100 columns wide."""
    on_gpu = "driver" in report.environment
    note = "" if on_gpu else " - CPU figures: the rungs' CPU twins, not the kernels"
    table = Table(
        title=f"{report.n:,} x {report.dtype} ({report.bytes / 2**20:.4g} MiB) on {report.environment['device']}{note}",
        caption=f"read only: {report.read_seconds * 1e6:.1f} us, {report.read_bytes_per_second / 1e9:.0f} GB/s",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("operator", no_wrap=True)
    table.add_column("title", no_wrap=True)
    for heading in (
        "device us" if on_gpu else "us",
        "GB/s",
        "of read",
        "step",
        "vs torch.sum",
        "rel. error",
        "host us",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.rows:
        table.add_row(
            row.name,
            row.title,
            f"{row.seconds * 1e6:.1f}",
            f"{row.bytes_per_second / 1e9:.0f}" if on_gpu else f"{row.bytes_per_second / 1e9:.2f}",
            f"{row.read_share:.1%}",
            f"{row.step:.2f}x" if row.step is not None else "",
            f"{row.over_torch_sum:.2f}x",
            f"{row.relative_error:.1e}" if row.relative_error is not None else "",
            f"{row.host_seconds * 1e6:.1f}",
            end_section=row.name == report.rows[-2].name if len(report.rows) > 1 else False,
        )
    return table
