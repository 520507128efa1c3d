"""Times sums by what stands before them: ``python benchmarks/in_context.py --json FILE``.

A captured ``reduce.sum`` starts early behind another one, which the races, whose calls stand in a row, therefore show.
Behind any other kernel it starts as every kernel does. That is told, of ``torch.sum`` and of what ``torch.compile``
makes of it too, by a graph of sums that each have an ``add_`` of one element before them, less a graph of these alone.
Compiled code calls the same operators. Nothing of this is so on a CPU.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from reduce_ops import canonical, measure
from reduce_ops.bench_ladder import random_input

SUMS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    *(((2**exponent,), (0,)) for exponent in (6, 10, 12, 14, 16, 18, 20, 22, 24, 25, 28)),
    *(((4096, 4096), (0,)), ((4096, 4096), (1,)), ((2**20, 32), (1,)), ((32, 2**20), (1,)), ((2**22, 8), (0,))),
    ((64, 3, 224, 224), (0, 2, 3)),
]

BEHIND = "behind another kernel"


def times(shape: tuple[int, ...], dim: tuple[int, ...], device: torch.device) -> dict[str, float]:
    """Return the seconds of one call of each contender in a row and behind another kernel, and of ours compiled."""
    x = random_input(torch.Size(shape).numel(), torch.float32, device).view(shape)
    element = torch.zeros(1, device=device)

    def ours(t: torch.Tensor) -> torch.Tensor:
        return canonical.sum(t, dim)

    def theirs(t: torch.Tensor) -> torch.Tensor:
        return torch.sum(t, dim)

    contenders = {"reduce.sum": ours, "torch.sum": theirs}
    compiled: dict[str, measure.Function] = {}
    if x.is_cuda:
        torch.compiler.reset()
        contenders["torch.compile"] = torch.compile(theirs, dynamic=False)
        compiled["reduce.sum, compiled"] = torch.compile(ours, fullgraph=True, dynamic=False)
        for function in (contenders["torch.compile"], *compiled.values()):
            function(x)

    def behind_add(function: measure.Function) -> measure.Function:
        def both(t: torch.Tensor) -> object:
            element.add_(1)
            return function(t)

        return both

    behind = {f"{name}, {BEHIND}": behind_add(function) for name, function in contenders.items()}
    add = {"add_": lambda _: element.add_(1)}
    measured = measure.call_times({**contenders, **compiled, **behind, **add}, x)
    seconds = {name: time.median for name, time in measured.items()}
    before = seconds.pop("add_")
    return {name: time - before if name in behind else time for name, time in seconds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    path = parser.parse_args().json
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = [{"shape": shape, "dim": dim, "seconds": times(shape, dim, device)} for shape, dim in SUMS]
    report = {"benchmark": "context", "environment": measure.environment(device), "dtype": "float32", "rows": rows}
    path.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
