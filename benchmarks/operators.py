"""Races one operator against ``reduce.sum`` and PyTorch's own: ``benchmarks/operators.py mean --json FILE``.

Operators other than the sum are the sum's kernels with another leaf, combination or end. So they are to take its time.
On a GPU full reductions of powers of two are raced against PyTorch's operator compiled by Inductor, too.
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

from reduce_ops import canonical, measure, norms, race, transforms
from reduce_ops.bench_dims import LIST
from reduce_ops.bench_ladder import random_input

Reduce = Callable[[Tensor, Any], Tensor]

OPERATORS: dict[str, tuple[Reduce, Reduce]] = {
    "mean": (canonical.mean, torch.mean),
    "nansum": (canonical.nansum, torch.nansum),
    "norm": (lambda x, dim: norms.vector_norm(x, 2, dim), lambda x, dim: torch.linalg.vector_norm(x, 2, dim)),
    "norm_1": (lambda x, dim: norms.vector_norm(x, 1, dim), lambda x, dim: torch.linalg.vector_norm(x, 1, dim)),
    "norm_inf": (
        lambda x, dim: norms.vector_norm(x, math.inf, dim),
        lambda x, dim: torch.linalg.vector_norm(x, math.inf, dim),
    ),
    "amax": (norms.amax, torch.amax),
    "var": (transforms.var, torch.var),
    "vecdot": (
        lambda x, dim: transforms.vecdot(x[0], x[1], None if dim is None else dim[0]),
        lambda x, dim: torch.linalg.vecdot(x[0], x[1], dim=dim[0]),
    ),
    "transform_sum": (
        lambda x, dim: transforms.transform_sum("x * y + x", x=x[0], y=x[1], dim=dim),
        lambda x, dim: (x[0] * x[1] + x[0]).sum(dim),
    ),
}
"""By the name of an operator: ours, and PyTorch's."""

OF_TWO = ("vecdot", "transform_sum")
"""Operators of two tensors, which are x[0] and x[1]; what they are compared with is the sum of as many bytes."""

HOST: dict[str, tuple[measure.Function, measure.Function]] = {
    "mean": (canonical.mean, torch.mean),
    "nansum": (canonical.nansum, torch.nansum),
    "norm": (norms.vector_norm, torch.linalg.vector_norm),
    "norm_1": (lambda x: norms.vector_norm(x, 1), lambda x: torch.linalg.vector_norm(x, 1)),
    "norm_inf": (lambda x: norms.vector_norm(x, math.inf), lambda x: torch.linalg.vector_norm(x, math.inf)),
    "amax": (norms.amax, torch.amax),
    "var": (transforms.var, torch.var),
    "vecdot": (lambda x: transforms.vecdot(x, x), lambda x: torch.linalg.vecdot(x, x)),
    "transform_sum": (lambda x: transforms.transform_sum("x * y + x", x=x, y=x), lambda x: (x * x + x).sum()),
}
"""The same as calls of which the host's time is measured."""

FULL = [((n,), (0,)) for exponent in range(10, 29, 2) for n in (2**exponent, 2**exponent + 1)]
LARGE = [((65536, 4096), (1,)), ((4096, 8192), (1,))]  # rows of activations
CASES = [(shape, dim, dtype) for dtype in (torch.float32, torch.bfloat16) for shape, dim in (*FULL, *LIST, *LARGE)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operator", choices=OPERATORS)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ours, theirs = OPERATORS[options.operator]

    def timed(case: tuple[Any, Any, torch.dtype]) -> dict[str, Any]:
        shape, dim, dtype = case
        of_two = options.operator in OF_TWO
        held = (2, *shape) if of_two else shape
        of_sum = tuple(d + 1 for d in dim) if of_two else dim
        x = random_input(torch.Size(held).numel(), dtype, device).view(held)
        functions = {
            f"reduce.{options.operator}": lambda t: ours(t, dim),
            "reduce.sum": lambda t: canonical.sum(t, of_sum),
            f"torch.{options.operator}": lambda t: theirs(t, dim),
        }
        if len(shape) == 1 and shape[0].bit_count() == 1:
            functions |= race.compiled(functions[f"torch.{options.operator}"], x)
        return {"shape": shape, "dim": dim, **race.measured(functions, x)}

    # PyTorch's vecdot takes one dimension.
    cases = [case for case in CASES if options.operator != "vecdot" or len(case[1]) == 1]
    rows = race.run(cases, timed, show_progress=True)
    x = random_input(measure.HOST_N, torch.float32, device)
    mine, peer = HOST[options.operator]
    host = measure.host_times({f"torch.{options.operator}": peer, f"reduce_ops.{options.operator}": mine}, x)
    report = {
        "benchmark": "operators",
        "operator": options.operator,
        "environment": measure.environment(device),
        "rows": rows,
        "host_seconds": {name: time.median for name, time in host.items()},
    }
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
