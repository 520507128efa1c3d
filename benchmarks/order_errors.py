"""Measures the errors of several orders of addition: ``python benchmarks/order_errors.py --json FILE``.

An error is given in units of u * sum(|x|), u being half the distance from 1 to the next number. On that scale
the bounds are n - 1 for one after the other and ceil(log2(n)) for a balanced tree. On a GPU its peers take part.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch

from reduce_ops import _cub, measure
from reduce_ops import sum as canonical_sum

N = 2**20


def inputs() -> dict[str, np.ndarray]:
    """Return the usual nasty ones, as float32: by operations that give the same bits on every machine."""
    random = np.random.default_rng(0)
    ones = np.ones(N)
    big_then_small = np.full(N, 0.5)
    big_then_small[0] = 2.0**24
    ramp = np.arange(1, N + 1, dtype=np.float64)
    cases = {
        "uniform in [0, 1)": random.random(N),
        "uniform in [-1, 1)": 2 * random.random(N) - 1,
        "0.1, over and over": 0.1 * ones,
        "2^24, then 0.5, over and over": big_then_small,
        "1, 1/2, 1/3, ...": 1 / ramp,
        "..., 1/3, 1/2, 1": 1 / ramp[::-1],
        "exponents from -50 to 49": np.ldexp(random.random(N), random.integers(-50, 50, N)),
        "x, then -x: the sum is 0": np.concatenate([half := random.random(N // 2), -half]),
        "1e8, 1, -1e8, 1, ...": np.tile([1e8, 1, -1e8, 1], N // 4),
        "uniform, one element short of 2^20": random.random(N - 1),
    }
    return {name: x.astype(np.float32) for name, x in cases.items()}


def error(x: np.ndarray, value: float) -> float:
    """Return how far a sum of x is off, in units of u * sum(|x|)."""
    wide = x.astype(np.float64)
    return abs(value - math.fsum(wide)) / (2.0**-24 * math.fsum(np.abs(wide)))


def errors_of(x: np.ndarray, device: torch.device) -> dict[str, float]:
    """Return the error of every order."""
    t = torch.from_numpy(x).to(device)
    sums = {
        "one after the other": np.add.accumulate(x)[-1],
        "NumPy's pairwise": x.sum(),
        f"torch.sum, {device.type.upper()}": t.sum(),
    }
    if device.type == "cuda":
        if cub := _cub.functions().sum:
            sums["CUB"] = cub(t)
        sums["torch.sum, CPU"] = torch.from_numpy(x).sum()
    sums["canonical order"] = canonical_sum(t)
    return {name: error(x, float(value)) for name, value in sums.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the errors go")
    path = parser.parse_args().json
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = [
        {"input": name, "n": len(x), "errors": errors_of(x, device), "bound": math.ceil(math.log2(len(x)))}
        for name, x in inputs().items()
    ]
    environment = measure.environment(device) | {"numpy": np.__version__}
    report = {"benchmark": "order", "environment": environment, "dtype": "float32", "rows": rows}
    path.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
