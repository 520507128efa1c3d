"""Time every legal plan of a list of sums on the GPU at hand: ``python -m reduce_ops tune``.

A plan says which kernel family sums a problem, by how many blocks and threads. None shows in the bits of the result, so
which one is chosen is a matter of time alone. This tells what the choice costs on a GPU, and keeps every figure.
"""

import gzip
import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from reduce_ops import bench_dims, files, measure
from reduce_ops.bench_ladder import random_input

NOISE = 1.02
"""What a plan must gain over another one to count as faster."""
REPLAYS = 16
"""Of each plan's graph, two of them to warm up."""
NUMBERS = ("threads", "width", "vector", "loads", "tiles", "segments", "window")
"""Of a plan, those that the table tells."""
FIELDS = ("shape", "dim", "dtype", "strides")
DTYPES = (
    *("float32", "float16", "bfloat16", "float64", "complex64", "complex128"),
    *("bool", "int8", "int16", "int32", "int64", "uint8", "float8_e4m3fn", "float8_e5m2"),
)
"""Of which there are random values."""


class TuneError(Exception):
    """What the command line says, and ends with."""


@dataclass(frozen=True)
class Sum:
    """One line of a file of shapes. ``strides`` are in elements; None is contiguous."""

    shape: list[int]
    dim: list[int]
    dtype: str = "float32"
    strides: list[int] | None = None


@dataclass(frozen=True)
class Timed:
    """One sum and its plans, of which the first is the one that is chosen."""

    sum: Sum
    plans: list[dict[str, Any]]
    """As ``torch.ops.reduce._plans`` has them."""
    seconds: list[list[float]]
    """Of each plan, of each of its REPLAYS but for two."""

    def medians(self) -> list[float]:
        """Return the median seconds of each plan."""
        return [statistics.median(repeats) for repeats in self.seconds]

    def chosen_over_best(self) -> float:
        """Return the chosen plan's time divided by that of the fastest one: 1 if that is the chosen one."""
        medians = self.medians()
        return medians[0] / min(medians)

    def best(self) -> dict[str, Any]:
        """Return the fastest plan."""
        medians = self.medians()
        return self.plans[medians.index(min(medians))]


def default_sums() -> list[Sum]:
    """Return the contiguous sums that ``bench dims`` races."""
    cases = [case for case in bench_dims.cases(torch.device("cuda")) if case.layout == "contiguous"]
    dtypes = [str(case.dtype).removeprefix("torch.") for case in cases]
    return [Sum(list(case.shape), list(case.dim), dtype) for case, dtype in zip(cases, dtypes, strict=True)]


def read_sums(path: Path) -> list[Sum]:
    """Read a file of shapes: a JSON object a line, such as ``{"shape": [64, 1000], "dim": [1], "dtype": "bfloat16"}``.

    Raises TuneError with the number of the first line that is something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TuneError(f"{path} cannot be read: {error}") from None
    sums = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            sums.append(_checked(json.loads(line)))
        except (ValueError, RuntimeError, IndexError) as error:
            raise TuneError(f"{path}, line {number}: {str(error).splitlines()[0]}") from None
    if not sums:
        raise TuneError(f"{path} has no line such as {json.dumps({'shape': [64, 1000], 'dim': [1]})}")
    return sums


def _checked(fields: object) -> Sum:
    """Return the sum that a line says. Raises ValueError, RuntimeError or IndexError where it says none."""
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    if unknown := set(fields) - set(FIELDS):
        raise ValueError(f"{min(unknown)!r} is none of {', '.join(FIELDS)}")
    for name in ("shape", "dim", "strides"):
        value = fields.get(name)
        is_list = isinstance(value, list) and all(type(x) is int for x in value)
        if not is_list and not (name == "strides" and value is None):
            raise ValueError(f"{name} is {json.dumps(value)}; accepted are lists of integers")
    dtype = fields.get("dtype", "float32")
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {json.dumps(dtype)}; accepted are {', '.join(DTYPES)}")
    one = Sum(fields["shape"], fields["dim"], dtype, fields.get("strides"))
    if torch.ops.reduce._plans(_empty(one, torch.device("meta")), one.dim, multiprocessors=1) == "[]":
        raise ValueError("it has more elements than one launch covers")
    return one


def run(sums: Sequence[Sum]) -> Iterator[Timed]:
    """Time all plans of each sum, in turns on the same buffers, on the current GPU; yield each sum when it is done.

    Raises TuneError if there is no GPU, or with the sum that does not fit its memory.
    """
    if not torch.cuda.is_available():
        raise TuneError("there is no GPU")
    for one in sums:
        try:
            yield _timed(one)
        except torch.cuda.OutOfMemoryError:
            raise TuneError(f"{one.shape} of {one.dtype} does not fit the GPU's memory") from None


def _timed(one: Sum) -> Timed:
    device = torch.device("cuda", torch.cuda.current_device())
    gpu = measure.gpu_of(device)
    x = _empty(one, device)
    whole = x.as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,))
    whole.copy_(random_input(whole.numel(), x.dtype, device))
    plans = json.loads(torch.ops.reduce._plans(x, one.dim, **gpu))
    chosen = json.loads(torch.ops.reduce._plan(x, one.dim, **gpu))

    def by(plan: dict[str, Any]) -> Callable[[Tensor], Tensor]:
        text = json.dumps(plan)
        return lambda x: torch.ops.reduce._sum_with_plan(x, one.dim, plan=text, **gpu)

    contenders = [by(plan) for plan in plans]
    if not plans or plans[0] != chosen:  # a copy, or two sums in a row, which no single plan is
        plans.insert(0, chosen)
        contenders.insert(0, lambda x: torch.ops.reduce.sum(x, one.dim))
    seconds = measure.device_seconds({str(i): call for i, call in enumerate(contenders)}, x, REPLAYS)
    return Timed(one, plans, list(seconds.values()))


def _empty(one: Sum, device: torch.device) -> Tensor:
    dtype: torch.dtype = getattr(torch, one.dtype)
    if one.strides is None:
        return torch.empty(one.shape, dtype=dtype, device=device)
    return torch.empty_strided(one.shape, one.strides, dtype=dtype, device=device)


def write(path: Path, timed: Sequence[Timed]) -> None:
    """Write every figure, gzipped if the name says so."""
    environment = measure.environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    text = json.dumps({"benchmark": "tune", "environment": environment, "sums": [asdict(one) for one in timed]})
    data = (text + "\n").encode()
    with files.replacing(path) as new:
        new.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def _slower(timed: Sequence[Timed]) -> list[Timed]:
    """Return those with a faster plan than the chosen one."""
    return [t for t in timed if t.chosen_over_best() > NOISE]


def table(timed: Sequence[Timed]) -> Table:
    """Return where another plan is faster, the largest gain first."""
    result = Table("shape", "dim", "dtype", "plans", "chosen", "us", "fastest", "us", "gain")
    for t in sorted(_slower(timed), key=Timed.chosen_over_best, reverse=True):
        chosen, best = t.medians()[0], min(t.medians())
        shape = " x ".join(str(size) for size in t.sum.shape)
        dim = ", ".join(str(d) for d in t.sum.dim)
        row = [shape, dim, t.sum.dtype, str(len(t.plans)), _name(t.plans[0]), f"{chosen * 1e6:.2f}"]
        result.add_row(*row, _name(t.best(), t.plans[0]), f"{best * 1e6:.2f}", f"{chosen / best:.3f}")
    return result


def summary(timed: Sequence[Timed]) -> Iterator[str]:
    """Yield what the choice costs in all, and from which family to which one another choice would gain."""
    mean = statistics.geometric_mean(t.chosen_over_best() for t in timed)
    slower = _slower(timed)
    yield (
        f"{len(timed)} sums, {sum(len(t.plans) for t in timed)} plans: the chosen ones take "
        f"{mean:.4f} of the fastest ones' time (geometric mean); "
        f"of {len(slower)} sums another one is more than {round(100 * (NOISE - 1))} % faster"
    )
    changes = Counter((t.plans[0]["family"], t.best()["family"]) for t in slower)
    for (chosen, best), count in changes.most_common():
        yield f"{count:5} {chosen} -> {best if best != chosen else 'other numbers'}"


def _name(plan: dict[str, Any], other: dict[str, Any] | None = None) -> str:
    """Return the family, or, beside another plan of the same one, what differs."""
    family = str(plan["family"])
    layout = f", {plan['layout']}" if family == "rows" else ""
    differing = [f"{key} {plan[key]}" for key in NUMBERS if other is not None and plan[key] != other[key]]
    if other is None or family != other["family"]:
        return family + layout
    return f"{family}{layout}: {', '.join(differing)}"
