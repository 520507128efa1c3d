"""Sums over processes: importing this module tells PyTorch how each operator may be sharded in a ``DTensor``.

A dimension that is kept stays sharded and a replicated tensor replicated, both without communication. Where a reduced
dimension is sharded, each process sums its part and the result is ``Partial``: added up across processes when it is
used, in an order that is not the canonical one. Block sums need the whole tensor; a sharded one is gathered first.

``reduce.sum_exact`` has no order. Where a reduced dimension is sharded, each process sums its part to a state, an
all-reduce adds the states and each process rounds the total: the result is replicated there, with the bits of one
process's sum. `sum_exact` does the same for shards that are plain tensors, over a process group.

It is not part of ``import reduce_ops``, because ``torch.distributed.tensor`` takes half a second to import. DDP and
FSDP need none of it: there the operators see plain tensors.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from reduce_ops.ladder import LADDER
from reduce_ops.process_group import parts_of, rounded, state_of
from reduce_ops.process_group import sum_exact as sum_exact

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


def _exact_state(x: Any, dim: Sequence[int] | None = None, keepdim: bool = False) -> list[Sharding]:
    kept_or_partial = _sum_dims(x, dim, keepdim)
    # A sum of states is a state, but the values of a Partial are not elements: they have to be added up first.
    return [(results, arguments) for results, arguments in kept_or_partial if arguments[0] != Partial()]


def _exact_round(state: Any, dtype: torch.dtype) -> list[Sharding]:
    result: list[Sharding] = [([Replicate()], [Replicate()])]
    for d in range(state.ndim - (2 if dtype.is_complex else 1)):
        result.append(([Shard(d)], [Shard(d)]))
    return result


def _sum_exact(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator on a DTensor, below autograd: a state, replicated where it is partial, and its rounding.

    Conversions are those of each process's own tensor: PyTorch 2.11 gives a DTensor that was converted the dtype of
    another conversion that it remembers.
    """
    given = dict(zip((argument.name for argument in op._schema.arguments), args, strict=False)) | kwargs
    dim, keepdim = given.get("dim"), given.get("keepdim", False)
    x = _whole(given["self"])
    result = op(torch.empty(x.shape, dtype=x.dtype, device="meta"), *args[1:], **kwargs)  # or its errors
    parts = [_like(x, part, x.shape, x.stride()) for part in parts_of(x.to_local(), result.dtype)]
    state = _whole(state_of(parts, dim, keepdim))
    return _like(state, rounded(state.to_local(), result.dtype, x.is_complex()), result.shape, result.stride())


def _whole(x: Any) -> Any:
    return x.redistribute(placements=[Replicate() if p.is_partial() else p for p in x.placements])


def _like(x: Any, local: torch.Tensor, shape: torch.Size, stride: tuple[int, ...]) -> DTensor:
    """Return the DTensor placed like x of which this process has ``local``."""
    return DTensor.from_local(local, x.device_mesh, x.placements, run_check=False, shape=shape, stride=stride)


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
_register(torch.ops.reduce.exact_state.default, _exact_state)
_register(torch.ops.reduce.exact_state.dim_IntList, _exact_state)
_register(torch.ops.reduce.exact_round.default, _exact_round)
_handlers: dict[Any, Any] = DTensor._op_dispatcher._custom_op_handlers
_handlers |= dict.fromkeys((torch.ops.reduce.sum_exact.default, torch.ops.reduce.sum_exact.dim_IntList), _sum_exact)
for _rung in LADDER:
    _register(getattr(torch.ops.reduce, f"sum_v{_rung.number}").default, _sum)
    _register(getattr(torch.ops.reduce, f"block_sums_v{_rung.number}").default, _block_sums)
