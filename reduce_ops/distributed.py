"""Sums of a ``DTensor``: importing this module tells PyTorch how each operator may be sharded.

A dimension that is kept stays sharded and a replicated tensor replicated, both without communication. Where a reduced
dimension is sharded, each process sums its part and the result is ``Partial``: added up across processes when it is
used, in an order that is not the canonical one. Block sums need the whole tensor; a sharded one is gathered first.

It is not part of ``import reduce_ops``, because ``torch.distributed.tensor`` takes half a second to import. DDP and
FSDP need none of it: there the operators see plain tensors.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from reduce_ops.ladder import LADDER

Sharding = tuple[list[Placement | None], list[Placement | None]]
"""Placements of the result and of the arguments, None for those that are no tensors."""


def _shardings(x: Any, reduced: set[int], keepdim: bool, dtype: torch.dtype | None, others: int) -> list[Sharding]:
    """Return the ways to sum ``x``, a tensor or its spec, over dimensions; ``others``: how many more arguments."""
    rest: list[Placement | None] = [None] * others
    result: list[Sharding] = [([Replicate()], [Replicate(), *rest])]
    for d in range(x.ndim):
        if d in reduced:
            result.append(([Partial()], [Shard(d), *rest]))
        else:
            kept = d if keepdim else d - sum(other < d for other in reduced)
            result.append(([Shard(kept)], [Shard(d), *rest]))
    # A sum of partial values is a partial sum, unless they are rounded or wrapped before they are added.
    input_dtype = x.tensor_meta.dtype
    if dtype in (None, input_dtype) and (input_dtype.is_floating_point or input_dtype.is_complex):
        result.append(([Partial()], [Partial(), *rest]))
    return result


def _sum(x: Any, dtype: torch.dtype | None = None, block_size: int = 256) -> list[Sharding]:
    return _shardings(x, set(range(x.ndim)), False, dtype, 0)


def _sum_dims(
    x: Any, dim: Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> list[Sharding]:
    dims = [d % max(1, x.ndim) for d in dim] if dim else range(x.ndim)
    return _shardings(x, set(dims), keepdim, dtype, 2)


def _sums_of_rows(x: Any, version: int, dtype: torch.dtype | None = None, block_size: int = 256) -> list[Sharding]:
    return _shardings(x, set(range(1, x.ndim)), False, dtype, 1)


def _block_sums(x: Any, dtype: torch.dtype | None = None, block_size: int = 256) -> list[Sharding]:
    return [([Replicate()], [Replicate()])]


def _block_sums_of_rows(
    x: Any, version: int, dtype: torch.dtype | None = None, block_size: int = 256
) -> list[Sharding]:
    return [([Replicate()], [Replicate(), None]), ([Shard(0)], [Shard(0), None])]


def _register(op: torch._ops.OpOverload, rule: Callable[..., list[Sharding]]) -> None:
    register_sharding(op)(rule)
    # What a rule said is remembered by the arguments from the first integer on. A list of them, such as dim, PyTorch
    # does not count, and would give a sum along one dimension the answer for another.
    info = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info[op]
    info.static_argnum = 1


_register(torch.ops.reduce.sum.default, _sum)
_register(torch.ops.reduce.sum.dim_IntList, _sum_dims)
_register(torch.ops.reduce._sums_of_rows.default, _sums_of_rows)
_register(torch.ops.reduce._block_sums_of_rows.default, _block_sums_of_rows)
for _rung in LADDER:
    _register(getattr(torch.ops.reduce, f"sum_v{_rung.number}").default, _sum)
    _register(getattr(torch.ops.reduce, f"block_sums_v{_rung.number}").default, _block_sums)
