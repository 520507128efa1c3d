"""Sums for PyTorch on CUDA: the ladder ``sum_v0 .. sum_v8``, ``sum``, the same bits everywhere, and exact sums.

Importing the package loads the operators as ``torch.ops.reduce.*`` and offers them as typed functions:

>>> import torch, reduce_ops
>>> reduce_ops.sum_v7(torch.ones(1000))
tensor(1000.)
>>> torch.ops.reduce.sum_v7(torch.ones(1000))
tensor(1000.)
"""

import sys


def _is_command_line() -> bool:
    """Whether this is ``python -m reduce_ops``, which imports what it needs: ``explain`` answers without PyTorch."""
    words = sys.orig_argv
    return "-m" in words and words[words.index("-m") + 1 :][:1] == ["reduce_ops"]


if not _is_command_line():
    from reduce_ops.canonical import sum
    from reduce_ops.exact import exact_round, exact_state, sum_exact
    from reduce_ops.explanation import Access, Explanation, Pass, Phase, Totals, explain
    from reduce_ops.ladder import (
        LADDER,
        Rung,
        block_sums,
        sum_v0,
        sum_v1,
        sum_v2,
        sum_v3,
        sum_v4,
        sum_v5,
        sum_v6,
        sum_v7,
        sum_v8,
    )
    from reduce_ops.override import override_aten, set_override_aten

__all__ = [
    "LADDER",
    "Access",
    "Explanation",
    "Pass",
    "Phase",
    "Rung",
    "Totals",
    "block_sums",
    "exact_round",
    "exact_state",
    "explain",
    "override_aten",
    "set_override_aten",
    "sum",
    "sum_exact",
    "sum_v0",
    "sum_v1",
    "sum_v2",
    "sum_v3",
    "sum_v4",
    "sum_v5",
    "sum_v6",
    "sum_v7",
    "sum_v8",
]
