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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

from reduce_ops import canonical, measure
from reduce_ops.bench_ladder import random_input

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.complex64)
LEAST, MOST = 2**20, 2**28  # bytes of an input
REPEATS = 3
AT_ONCE = 32  # layouts that are timed before the host waits for them
AHEAD = 1_000_000  # clocks for which the GPU waits, so that the host's calls are all there when it begins
WORST = 40  # of these all is told

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
    """A tensor's place in memory, and the dimensions to sum over."""

    shape: list[int]
    strides: list[int]
    dim: list[int]
    dtype: torch.dtype


def draw(random: Random) -> Draw:
    """Return the next layout, of LEAST to MOST bytes."""
    while True:
        dims = random.randint(2, 5)
        dtype = random.choice(DTYPES)
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
        return Draw(shape, strides, dim, dtype)


def race(draws: list[Draw], memory: torch.Tensor) -> list[Row]:
    """Time both contenders on each layout, in turns; the fastest of REPEATS counts."""
    tensors = [memory.view(draw.dtype).as_strided(draw.shape, draw.strides) for draw in draws]
    timed = times_on_gpu if memory.is_cuda else times_on_cpu
    times = timed([contenders(x, draw.dim) for x, draw in zip(tensors, draws, strict=True)])
    gpu = torch.cuda.get_device_properties(memory.device) if memory.is_cuda else None
    rows = []
    for x, drawn, seconds in zip(tensors, draws, times, strict=True):
        ours, theirs = min(seconds[::2]), min(seconds[1::2])
        family, layout, *_ = torch.ops.reduce._plan(
            x, drawn.dim, multiprocessors=gpu.multi_processor_count if gpu else 1
        )
        dtype = str(drawn.dtype).removeprefix("torch.")
        kernels = f"{family}, {layout}" if family == "rows" else family
        rows.append(Row(drawn.shape, drawn.strides, drawn.dim, dtype, kernels, ours, theirs / ours))
    return rows


def contenders(x: torch.Tensor, dim: list[int]) -> list[Call]:
    return [lambda: canonical.sum(x, dim), lambda: torch.sum(x, dim)]


def times_on_gpu(of_layouts: list[list[Call]]) -> list[list[float]]:
    """Return the seconds of the calls of each layout, which take turns."""
    marks = []
    for calls in of_layouts:
        for call in calls:
            call()  # loads the kernels
        torch.cuda._sleep(AHEAD)
        marks.append([torch.cuda.Event(enable_timing=True) for _ in range(REPEATS * len(calls) + 1)])
        marks[-1][0].record()
        for turn, mark in enumerate(marks[-1][1:]):
            calls[turn % len(calls)]()
            mark.record()
    torch.cuda.synchronize()
    return [[a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(of_layout)] for of_layout in marks]


def times_on_cpu(of_layouts: list[list[Call]]) -> list[list[float]]:
    times = []
    for calls in of_layouts:
        marks = [time.perf_counter()]
        for turn in range(REPEATS * len(calls)):
            calls[turn % len(calls)]()
            marks.append(time.perf_counter())
        times.append([b - a for a, b in itertools.pairwise(marks)])
    return times


def together(rows: list[Row]) -> dict[str, Any]:
    return {
        "layouts": len(rows),
        "geometric_mean": statistics.geometric_mean(row.over_torch_sum for row in rows),
        "under_half": sum(row.over_torch_sum < 0.5 for row in rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    parser.add_argument("--seconds", type=float, default=60, help="to draw layouts for (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    memory = random_input(MOST // 4, torch.float32, device)
    random = Random(options.seed)
    rows: list[Row] = []
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        rows += race([draw(random) for _ in range(AT_ONCE)], memory)
    rows.sort(key=lambda row: row.over_torch_sum)
    by_kernels: dict[str, list[Row]] = {}
    for row in rows:
        by_kernels.setdefault(row.kernels, []).append(row)
    report = {
        "benchmark": "random",
        "environment": measure.environment(device),
        "seed": options.seed,
        **together(rows),
        "kernels": [{"name": name} | together(by_kernels[name]) for name in sorted(by_kernels)],
        "worst": [asdict(row) for row in rows[:WORST]],
    }
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
