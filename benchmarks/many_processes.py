"""Times the exact sum over several GPUs against each one's own share: ``benchmarks/many_processes.py --json FILE``.

Every process has n elements of its own. Times are of calls in a row, which is how long a call keeps a GPU, and of
single calls between barriers, in which the hosts' comparison shows as far as no sum hides it; of the slowest process.
Without a GPU two processes with gloo take part, which says little about speed.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from reduce_ops import exact_value, measure

REPEATS = 15
IN_A_ROW = 8


def in_a_row(call: Callable[[], object], device: torch.device) -> float:
    """Return what each of several calls takes on the device, or, on a CPU, on the clock."""
    dist.barrier()
    if device.type == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(IN_A_ROW):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / IN_A_ROW
    before = time.perf_counter()
    for _ in range(IN_A_ROW):
        call()
    return (time.perf_counter() - before) / IN_A_ROW


def alone(call: Callable[[], object], device: torch.device) -> float:
    """Return the time on the clock from a barrier until the result is there."""
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()
    before = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - before


def slowest(seconds: float) -> float:
    everyone: list[float] = [0.0] * dist.get_world_size()
    dist.all_gather_object(everyone, seconds)
    return max(everyone)


def figures(n: int, device: torch.device) -> dict[str, Any]:
    """Return what this group of processes measures; raises an AssertionError if it has a bit wrong."""
    from reduce_ops.distributed import sum_exact

    generator = torch.Generator(device).manual_seed(dist.get_rank())
    x = torch.randn(n, generator=generator, device=device)
    shares: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(shares, exact_value.exact_sum(x))
    expected = exact_value.nearest(sum(shares, Fraction(0)), torch.float32)
    assert sum_exact(x).item() == expected, "the sum has other bits than that of Python integers"

    ways: dict[str, Callable[[], object]] = {
        "share": lambda: torch.ops.reduce.sum_exact(x),
        "total": lambda: sum_exact(x),
    }
    times: dict[str, list[float]] = {f"{name}{kind}_seconds": [] for kind in ("", "_alone") for name in ways}
    for _ in range(REPEATS):  # taking turns, so that a drifting clock meets both
        for name, call in ways.items():
            times[f"{name}_seconds"].append(slowest(in_a_row(call, device)))
            times[f"{name}_alone_seconds"].append(slowest(alone(call, device)))
    medians = {name: statistics.median(seconds[2:]) for name, seconds in times.items()}  # 2 to warm up
    return {"processes": dist.get_world_size(), **medians}


def in_process(rank: int, world: int, port: int, n: int, path: str) -> None:
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(rank)
    store = dist.TCPStore("localhost", port, world, is_master=False)
    dist.init_process_group("nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=world)
    row = figures(n, device)
    if rank == 0:
        Path(path).write_text(json.dumps(row))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # one of gloo's threads may yet release a tensor, and then aborts a process that ends by itself


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    parser.add_argument("--n", type=int, help="elements of each process (default 2**30 on GPUs, 2**20 on a CPU)")
    options = parser.parse_args()
    gpus = torch.cuda.device_count()
    n = options.n or (2**30 if gpus else 2**20)
    rows = []
    for world in [w for w in (2, 4, 8) if w <= gpus] if gpus else [2]:
        store = dist.TCPStore("localhost", 0, world, is_master=True, wait_for_workers=False)  # at a port that is free
        with tempfile.NamedTemporaryFile() as file:
            torch.multiprocessing.spawn(in_process, (world, store.port, n, file.name), nprocs=world)
            rows.append(json.loads(Path(file.name).read_text()))
    environment = measure.environment(torch.device("cuda" if gpus else "cpu"))
    report = {"benchmark": "processes", "environment": environment, "n": n, "dtype": "float32", "rows": rows}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
