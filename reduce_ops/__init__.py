"""Reductions for PyTorch on CUDA, with the same bits everywhere, and the ladder ``sum_v0 .. sum_v8`` to learn from.

Importing the package loads the operators as ``torch.ops.reduce.*`` and offers them as typed functions:

>>> import torch, reduce_ops
>>> reduce_ops.sum_v7(torch.ones(1000))
tensor(1000.)
>>> torch.ops.reduce.sum_v7(torch.ones(1000))
tensor(1000.)
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING


def _is_imported_by_runpy() -> bool:
    """Whether Python imports the package only to run a module of it, as ``python -m reduce_ops`` does.

    Such a module imports what it needs: ``explain`` answers ten times sooner without PyTorch. Everybody else finds the
    operators as ``torch.ops.reduce.*`` after the import, and loading them cannot wait until they are used.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if not frame.f_code.co_filename.startswith("<frozen importlib"):
            break
    return frame.f_globals.get("__name__") == "runpy"


if TYPE_CHECKING or not _is_imported_by_runpy():
    from reduce_ops.canonical import mean, nansum, sum
    from reduce_ops.exact import exact_round, exact_state, mean_exact, sum_exact, vector_norm_exact
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
    from reduce_ops.norms import amax, amin, vector_norm
    from reduce_ops.override import override_aten, set_override_aten
    from reduce_ops.transforms import std, std_mean, transform_sum, var, var_mean, vecdot
else:

    def __getattr__(name: str) -> object:
        """Import the module of a name of ``__all__`` when somebody asks for it."""
        if name in __all__:
            for home in (
                "explanation",
                "ladder",
                "canonical",
                "norms",
                "transforms",
                "exact",
                "override",
            ):  # the one without PyTorch first
                module = import_module(f"reduce_ops.{home}")
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "LADDER",
    "Access",
    "Explanation",
    "Pass",
    "Phase",
    "Rung",
    "Totals",
    "amax",
    "amin",
    "block_sums",
    "exact_round",
    "exact_state",
    "explain",
    "mean",
    "mean_exact",
    "nansum",
    "override_aten",
    "set_override_aten",
    "std",
    "std_mean",
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
    "transform_sum",
    "var",
    "var_mean",
    "vecdot",
    "vector_norm",
    "vector_norm_exact",
]
