#!/usr/bin/env bash
# Package: torch 2.15.0 (2.11.0 does the same), DTensor over two processes with gloo, on a CPU.
#
# A good guess: the mean of equal numbers is that number, however a tensor is sharded: a mean lies between the smallest
# and the largest element, so where these are finite it is, too.
#
# What happens: the mean of eight float16 elements of 40000, four in each process, is inf. Each process takes the mean of
# its part, and the "average" of the two partial means adds them up in float16, whose largest number is 65504, before it
# divides. With seven elements, which two processes cannot share evenly, the tensor is gathered first, and the mean is
# 40000.
#
# Why it matters: a loss or a statistic of activations is finite on one GPU and inf on two, for no element that is out of
# range, and whether it is depends on whether the size divides evenly.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy
cat >"$folder/means.py" <<'PYTHON'
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def run(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    means = {}
    for n in (8, 7):
        x = torch.full((n,), 40000.0, dtype=torch.float16)
        sharded = distribute_tensor(x, mesh, [Shard(0)]).mean()
        means[n] = sharded.full_tensor().item()
        if rank == 0:
            print(f"torch {torch.__version__}, {n} elements: {x.mean().item()}, sharded {means[n]} {sharded.placements}")
    assert means == {8: float("inf"), 7: 40000.0}, "this has changed"
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=2)
PYTHON
"$folder/venv/bin/python" -P "$folder/means.py" "$folder/store" 2>&1 | grep -v -i warning
