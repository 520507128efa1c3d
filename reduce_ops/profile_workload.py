"""What ``python -m reduce_ops profile`` runs under Nsight Compute: one pass of each rung, for each dtype."""

import sys

import torch

from reduce_ops.bench_ladder import random_input
from reduce_ops.ladder import block_sums


def main(n: int, versions: list[int], dtypes: list[str]) -> None:
    """Launch the first pass of each rung once on n elements."""
    for dtype in dtypes:
        x = random_input(n, getattr(torch, dtype), torch.device("cuda"))
        for version in versions:
            block_sums(x, version)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(version) for version in sys.argv[2].split(",")], sys.argv[3].split(","))
