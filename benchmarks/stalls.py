"""Counts what the warps of a full sum wait for, with Nsight Compute: ``python benchmarks/stalls.py --json FILE``.

Needs a GPU, ncu on the PATH and the right to read counters, as ``python -m reduce_ops profile`` does.
"""

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from reduce_ops import canonical, measure
from reduce_ops.bench_ladder import random_input

EXPONENTS = (6, 10, 12, 16, 18, 20, 22, 24, 28)
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COUNTERS = {
    "instructions of all warps": "smsp__inst_executed.sum",
    "for memory": STALL.format("long_scoreboard"),
    "at a barrier": STALL.format("barrier"),
    "for the instruction itself": STALL.format("no_instruction"),
}
"""The waits are in cycles of a warp for each instruction that is issued."""


def workload() -> None:
    """One sum of each size."""
    for exponent in EXPONENTS:
        canonical.sum(random_input(2**exponent, torch.float32, torch.device("cuda")))
    torch.cuda.synchronize()


def rows_of(page: str) -> list[dict[str, float]]:
    """Return what ``ncu --page raw --csv --print-units base`` says of the workload; ValueError if it is another."""
    lines = [line for line in page.splitlines() if line.startswith('"')]
    kernels = list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]  # a line of units comes first
    if len(kernels) != len(EXPONENTS):
        raise ValueError(f"{len(kernels)} kernels instead of {len(EXPONENTS)}")
    return [
        {"n": 2**exponent} | {name: float(kernel[metric].replace(",", "")) for name, metric in COUNTERS.items()}
        for exponent, kernel in zip(EXPONENTS, kernels, strict=True)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    action.add_argument("--workload", action="store_true", help=argparse.SUPPRESS)  # what ncu runs
    options = parser.parse_args()
    if options.workload:
        workload()
        return 0
    ncu = shutil.which("ncu")
    if ncu is None or not torch.cuda.is_available():
        parser.error("needs ncu on the PATH, and a CUDA device")
    # ncu flushes the caches by itself; the clocks are left alone: locking them needs rights that the counters do not.
    kernels = "regex:^sum_(warp|block|small_grid|grid)"
    how = [ncu, "--clock-control", "none", "--kernel-name", kernels, "--csv", "--page", "raw"]
    how += ["--print-units", "base", "--metrics", ",".join(COUNTERS.values())]
    run = subprocess.run([*how, sys.executable, __file__, "--workload"], capture_output=True, text=True, check=False)
    try:
        rows = rows_of(run.stdout)
    except ValueError as error:
        print(f"ncu: {error}\n{run.stdout[-2000:]}{run.stderr[-2000:]}", file=sys.stderr)
        return 1
    environment = measure.environment(torch.device("cuda"))
    report = {"benchmark": "stalls", "environment": environment, "dtype": "float32", "rows": rows}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
