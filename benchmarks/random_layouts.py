"""Times ``reduce.sum`` beside ``torch.sum`` on layouts that nobody chose: ``benchmarks/random_layouts.py --json FILE``.

Shapes of two to five dimensions, summed over some of them, lie in memory in any order of these, every fifth with gaps.
What is told is how the ratios spread, and which kernels sum the layouts on which they are lowest.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

from reduce_ops import canonical, measure
from reduce_ops.bench_ladder import random_input

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.complex64)
CONVERSIONS = (
    *((torch.float16, torch.float32), (torch.bfloat16, torch.float32)),  # as autocast asks for them
    *((torch.float32, torch.float64), (torch.complex64, torch.complex128)),
    *((torch.int8, torch.float32), (torch.uint8, torch.float32), (torch.int32, torch.float32)),
)
"""What elements are, and are converted to as they are read."""
LEAST, MOST = 2**20, 2**28  # bytes of an input
REPEATS = 3
AT_ONCE = 24  # layouts that are timed together: some hundred MB, and fewer launches than a GPU can be given ahead
AHEAD = 10_000_000  # clocks for which the GPU waits, so that the host's calls are all there when it begins
MOST_AT_ONCE = 16  # layouts of MOST bytes that there is memory for
ALIGNMENT = 512  # of a tensor, as PyTorch has it

Call = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Row:
    """One layout."""

    shape: list[int]
    strides: list[int]
    dim: list[int]
    dtype: str
    kernels: str
    """The family of the plan, and of rows their layout: other plans have none."""
    seconds: float
    over_torch_sum: float


@dataclass(frozen=True)
class Draw:
    """A tensor's place in memory, and the sum that is asked for."""

    shape: list[int]
    strides: list[int]
    dim: list[int]
    dtype: torch.dtype
    to: torch.dtype | None = None
    """``dtype=`` of the sum."""


def draw(random: Random, *, converting: bool = False) -> Draw:
    """Return the next layout, of LEAST to MOST bytes."""
    while True:
        dims = random.randint(2, 5)
        dtype, to = random.choice(CONVERSIONS) if converting else (random.choice(DTYPES), None)
        shape = [int(2 ** random.uniform(1, 17)) for _ in range(dims)]
        order = random.sample(range(dims), dims)  # innermost first
        gaps = random.randrange(5) == 0
        dim = sorted(random.sample(range(dims), random.randint(1, dims)))
        if not LEAST <= math.prod(shape) * dtype.itemsize * (2 if gaps else 1) <= MOST:
            continue
        strides = [0] * dims
        step = 2 if gaps else 1
        for d in order:
            strides[d] = step
            step *= shape[d]
        return Draw(shape, strides, dim, dtype, to)


def race(draws: list[Draw], memory: torch.Tensor, *, warm: bool) -> list[Row]:
    """Time both contenders on each layout, in turns; the fastest of REPEATS counts.

    Neighbouring calls are of neighbouring layouts, which lie behind each other in memory, so that what a call reads has
    left the caches since the last one read it. If ``warm``, they are of the same layout.
    """
    tensors = list(place(draws, memory))
    contenders = [both(x, drawn) for x, drawn in zip(tensors, draws, strict=True)]
    turns = itertools.product(range(2 * REPEATS), range(len(draws)))
    order = [(layout, (turn + layout) % 2) for turn, layout in turns]  # and contender
    if warm:
        order.sort(key=lambda call: call[0])
    for contender in itertools.chain(*contenders):
        contender()  # loads the kernels
    timed = times_on_gpu if memory.is_cuda else times_on_cpu
    times = timed([contenders[layout][contender] for layout, contender in order])
    seconds: dict[tuple[int, int], list[float]] = {}
    for call, elapsed in zip(order, times, strict=True):
        seconds.setdefault(call, []).append(elapsed)

    gpu = measure.gpu_of(memory.device) if memory.is_cuda else {"multiprocessors": 1}
    rows = []
    for i, (x, drawn) in enumerate(zip(tensors, draws, strict=True)):
        ours, theirs = min(seconds[i, 0]), min(seconds[i, 1])
        plan = json.loads(torch.ops.reduce._plan(x, drawn.dim, dtype=drawn.to, **gpu))
        dtype = " to ".join(str(t).removeprefix("torch.") for t in (drawn.dtype, drawn.to) if t is not None)
        kernels = f"rows, {plan['layout']}" if plan["family"] == "rows" else plan["family"]
        rows.append(Row(drawn.shape, drawn.strides, drawn.dim, dtype, kernels, ours, theirs / ours))
    return rows


def place(draws: list[Draw], memory: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensors, each behind the one before, or at the beginning where the memory ends. Every other one that is
    converted begins an element further."""
    begin = 0
    for number, drawn in enumerate(draws):
        reach = 1 + sum((size - 1) * stride for size, stride in zip(drawn.shape, drawn.strides, strict=True))
        offset = number % 2 if drawn.to is not None else 0
        size = math.ceil((reach + offset) * drawn.dtype.itemsize / ALIGNMENT) * ALIGNMENT // memory.itemsize
        if begin + size > memory.numel():
            begin = 0
        yield memory[begin : begin + size].view(drawn.dtype)[offset:].as_strided(drawn.shape, drawn.strides)
        begin += size


def both(x: torch.Tensor, drawn: Draw) -> tuple[Call, Call]:
    dim, to = drawn.dim, drawn.to
    return lambda: canonical.sum(x, dim, dtype=to), lambda: torch.sum(x, dim, dtype=to)


def times_on_gpu(calls: list[Call]) -> list[float]:
    """Return the seconds of each call, one after the other."""
    for ahead in (AHEAD, 4 * AHEAD, 16 * AHEAD):
        torch.cuda._sleep(ahead)
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(calls) + 1)]
        marks[0].record()
        for call, mark in zip(calls, marks[1:], strict=True):
            call()
            mark.record()
        late = marks[0].query()  # then the GPU may have waited for the host between two calls
        torch.cuda.synchronize()
        if not late:
            return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]
    raise RuntimeError(f"{len(calls)} calls took the host longer than the GPU waited, {16 * AHEAD} clocks")


def times_on_cpu(calls: list[Call]) -> list[float]:
    marks = [time.perf_counter()]
    for call in calls:
        call()
        marks.append(time.perf_counter())
    return [b - a for a, b in itertools.pairwise(marks)]


def by_name(rows: list[Row], name_of: Callable[[Row], str]) -> list[dict[str, Any]]:
    """Return what the rows of each name are together."""
    named: dict[str, list[Row]] = {}
    for row in rows:
        named.setdefault(name_of(row), []).append(row)
    return [{"name": name} | together(named[name]) for name in sorted(named)]


def together(rows: list[Row]) -> dict[str, Any]:
    return {
        "layouts": len(rows),
        "geometric_mean": statistics.geometric_mean(row.over_torch_sum for row in rows),
        "under_half": sum(row.over_torch_sum < 0.5 for row in rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--seconds", type=float, default=60, help="to draw layouts for, some at least (default 60)")
    until.add_argument("--layouts", type=int, metavar="N", help="to draw instead, the same for two builds")
    parser.add_argument("--worst", type=int, default=40, metavar="N", help="to tell all of, or more if under half (40)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    parser.add_argument("--converting", action="store_true", help="sums with dtype= instead, half of them misaligned")
    parser.add_argument("--warm", action="store_true", help="leave in the caches what these hold of a layout")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    memory = random_input(MOST_AT_ONCE * MOST // 4, torch.float32, device)
    random = Random(options.seed)
    rows: list[Row] = []
    end = time.monotonic() + options.seconds

    def wants_more() -> bool:
        return time.monotonic() < end if options.layouts is None else len(rows) < options.layouts

    while not rows or wants_more():
        draws = [draw(random, converting=options.converting) for _ in range(AT_ONCE)]
        rows += race(draws, memory, warm=options.warm)
    rows.sort(key=lambda row: row.over_torch_sum)
    all_layouts = together(rows)
    report = {
        "benchmark": "random",
        "environment": measure.environment(device),
        "seed": options.seed,
        "converting": options.converting,
        "warm": options.warm,
        **all_layouts,
        "kernels": by_name(rows, lambda row: row.kernels),
        "dtypes": by_name(rows, lambda row: row.dtype),
        "worst": [asdict(row) for row in rows[: max(options.worst, all_layouts["under_half"])]],
    }
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
