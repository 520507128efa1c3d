"""Races ``reduce.sum`` against ``torch.sum`` on the CPU, by threads: ``benchmarks/cpu_threads.py --json FILE``.

A loop that only reads the same bytes runs beside them.

Where memory lies, and which neighbours a virtual machine has, differ from process to process by more than one process
shows. So several run, one after the other, and what is told are the median of their ratios and the extremes.
"""

import argparse
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import torch

from reduce_ops import canonical, measure
from reduce_ops.bench_ladder import random_input

PROCESSES = 6

OF_FLOAT32 = [
    *(((2**exponent,), None) for exponent in range(16, 28)),
    *(((4096, 4096), (0,)), ((4096, 4096), (1,)), ((2**18, 8), (0,)), ((2**18, 8), (1,)), ((100, 1000, 100), (1,))),
]
OF_HALVES = [((2**exponent,), None) for exponent in (16, 20, 24)] + OF_FLOAT32[12:]
CASES = [
    *((shape, dim, torch.float32) for shape, dim in OF_FLOAT32),
    *((shape, dim, dtype) for dtype in (torch.float16, torch.bfloat16) for shape, dim in OF_HALVES),
]


def race(threads: int) -> list[dict[str, float]]:
    """Return the seconds of each contender on each input."""
    torch.set_num_threads(threads)
    times = []
    for shape, dim, dtype in CASES:
        x = random_input(torch.Size(shape).numel(), dtype, torch.device("cpu")).view(shape)
        dims = () if dim is None else (dim,)
        functions = {
            "ours": lambda t, dims=dims: canonical.sum(t, *dims),
            "theirs": lambda t, dims=dims: torch.sum(t, *dims),
            "read": torch.ops.reduce._read,
        }
        times.append({name: time.median for name, time in measure.call_times(functions, x).items()})
    return times


def in_new_process(threads: int) -> list[dict[str, float]]:
    """Return what `race` says there."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(race, (threads,))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    parser.add_argument("--processes", type=int, default=PROCESSES, help=f"for each number of threads ({PROCESSES})")
    options = parser.parse_args()
    threads = sorted({1, torch.get_num_threads()})
    races = {count: [in_new_process(count) for _ in range(options.processes)] for count in threads}
    rows: list[dict[str, Any]] = []
    for count, of_processes in races.items():
        for (shape, dim, dtype), times in zip(CASES, zip(*of_processes, strict=True), strict=True):
            rows.append(
                {
                    "threads": count,
                    "shape": shape,
                    "dim": dim,
                    "dtype": str(dtype).removeprefix("torch."),
                    "bytes": torch.Size(shape).numel() * dtype.itemsize,
                    "seconds": [seconds["ours"] for seconds in times],
                    "over_torch_sum": [seconds["theirs"] / seconds["ours"] for seconds in times],
                    "read_seconds": [seconds["read"] for seconds in times],
                }
            )
    report = {"benchmark": "cpu_threads", "environment": measure.environment(torch.device("cpu")), "rows": rows}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
