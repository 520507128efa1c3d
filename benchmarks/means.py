"""Races ``reduce.mean`` against ``reduce.sum`` and ``torch.mean``: ``benchmarks/means.py --json FILE``.

A mean is the sum, and one division an output. It is to take the time of the sum. On a GPU full means of powers of two
are raced against a compiled ``torch.mean``, too.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from reduce_ops import canonical, measure, race
from reduce_ops.bench_dims import LIST
from reduce_ops.bench_ladder import random_input

FULL = [((n,), (0,)) for exponent in range(10, 29, 2) for n in (2**exponent, 2**exponent + 1)]
CASES = [(shape, dim, dtype) for dtype in (torch.float32, torch.bfloat16) for shape, dim in (*FULL, *LIST)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def timed(case: tuple[Any, Any, torch.dtype]) -> dict[str, Any]:
        shape, dim, dtype = case
        x = random_input(torch.Size(shape).numel(), dtype, device).view(shape)
        functions = {
            "reduce.mean": lambda t: canonical.mean(t, dim),
            "reduce.sum": lambda t: canonical.sum(t, dim),
            "torch.mean": lambda t: torch.mean(t, dim),
        }
        if len(shape) == 1 and shape[0].bit_count() == 1:
            functions |= race.compiled(functions["torch.mean"], x)
        return {"shape": shape, "dim": dim, **race.measured(functions, x)}

    rows = race.run(CASES, timed, show_progress=True)
    x = random_input(measure.HOST_N, torch.float32, device)
    host = measure.host_times(
        {"torch.mean": torch.mean, "torch.ops.reduce.mean": torch.ops.reduce.mean, "reduce_ops.mean": canonical.mean}, x
    )
    report = {
        "benchmark": "means",
        "environment": measure.environment(device),
        "rows": rows,
        "host_seconds": {name: time.median for name, time in host.items()},
    }
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
