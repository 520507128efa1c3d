"""Measures errors of means, variances, norms and dot products: ``python benchmarks/operator_errors.py --json FILE``.

Of each kind of data and number of elements the largest error of some draws, in units in the last place of the result's
dtype, of this package's operator and of PyTorch's on the same device. The reference is computed in float64, in two
passes for a variance.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reduce_ops import canonical, measure, norms, transforms

EXPONENTS = (8, 12, 16, 20, 24, 28)
DRAWS = {8: 64, 12: 32, 16: 16, 20: 8, 24: 4, 28: 2}

DATA: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "normal": lambda n, g: torch.randn(n, generator=g, device=g.device),
    "uniform in [0, 1)": lambda n, g: torch.rand(n, generator=g, device=g.device),
    "normal + 1000": lambda n, g: torch.randn(n, generator=g, device=g.device) + 1000,
    "x, then -x, all off by 2^-20": lambda n, g: _cancelling(n, g),
}

Call = Callable[[Tensor, Tensor], Tensor]

OPERATORS: dict[str, tuple[Call, Call]] = {
    "mean": (lambda x, _: canonical.mean(x), lambda x, _: torch.mean(x)),
    "var": (lambda x, _: transforms.var(x), lambda x, _: torch.var(x)),
    "vector_norm": (lambda x, _: norms.vector_norm(x), lambda x, _: torch.linalg.vector_norm(x)),
    "vecdot": (lambda x, y: transforms.vecdot(x, y), lambda x, y: torch.dot(x, y)),
}
"""By the name of an operator: ours and PyTorch's."""


def _cancelling(n: int, generator: torch.Generator) -> Tensor:
    half = torch.randn(n // 2, generator=generator, device=generator.device)
    return torch.cat([half, -half]) + 2.0**-20


def reference(operator: str, x: Tensor, y: Tensor) -> float:
    """Return the value in float64."""
    wide = x.double()
    if operator == "mean":
        return wide.mean().item()
    if operator == "var":
        return (wide - wide.mean()).square_().sum().item() / (len(x) - 1)
    if operator == "vector_norm":
        return math.sqrt(wide.square_().sum().item())
    return (wide * y.double()).sum().item()


def error(value: Tensor, true: float) -> float:
    """Return how far a result is off, in units in the last place of the true value in its dtype."""
    info = torch.finfo(value.dtype)
    exponent = math.floor(math.log2(max(abs(true), info.tiny)))
    return abs(value.double().item() - true) / (info.eps * 2.0**exponent)


def row(data: str, exponent: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Return the largest errors of every operator."""
    errors: dict[str, list[float]] = {name: [0.0, 0.0] for name in OPERATORS}
    for draw in range(DRAWS[exponent]):
        generator = torch.Generator(device).manual_seed(draw)
        x, y = (DATA[data](2**exponent, generator).to(dtype) for _ in range(2))
        for name, calls in OPERATORS.items():
            true = reference(name, x, y)
            for i, call in enumerate(calls):
                errors[name][i] = max(errors[name][i], error(call(x, y), true))
    return {"data": data, "n": 2**exponent, "dtype": str(dtype).removeprefix("torch."), "errors": errors}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the errors go")
    path = parser.parse_args().json
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    most = 28 if device.type == "cuda" else 20
    rows = [
        row(data, exponent, dtype, device)
        for dtype in (torch.float32, torch.bfloat16)
        for data in DATA
        for exponent in EXPONENTS
        if exponent <= most
    ]
    report = {"benchmark": "operator_errors", "environment": measure.environment(device), "rows": rows}
    path.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
