"""Operators over processes: importing this module tells PyTorch how each of them may be sharded in a ``DTensor``.

A dimension that is kept stays sharded and a replicated tensor replicated, both without communication. Where a reduced
dimension is sharded, each process sums its part and the result is ``Partial``: added up across processes when it is
used, in an order that is not the canonical one. Block sums need the whole tensor; a sharded one is gathered first.
Whatever is not linear adds a ``Partial`` up first, the mean too.

Norms and extremes have no ``Partial``. Each process reduces its part, the results are gathered, and each process
reduces these: the result is replicated. An extreme has the bits of one process's; so has a norm of the orders inf and
-inf.

``reduce.sum_exact``, ``mean_exact`` and ``vector_norm_exact`` have no order. Where a reduced dimension is sharded, each
process sums its part to a state, an all-reduce adds the states and each process rounds the total: the result is
replicated there, with the bits of one process's. `sum_exact` does the same for shards that are plain tensors, over a
process group; `clip_grad_norm_` and `get_total_norm` do it for all gradients of a model.

It is not part of ``import reduce_ops``, because ``torch.distributed.tensor`` takes half a second to import. DDP and
FSDP need none of it: there the operators see plain tensors.

PyTorch has no public way to register all of this. In a version that has changed the parts of ``DTensor`` that are used,
importing this module warns, and registers no operator; `sum_exact` of plain tensors works as ever.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from reduce_ops.clipping import clip_grad_norm_ as clip_grad_norm_
from reduce_ops.clipping import get_total_norm as get_total_norm
from reduce_ops.exact import Terms
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
            result.append(([Shard(_kept_dim(d, reduced, keepdim))], [Shard(d), *rest]))
    # A sum of partial values is a partial sum, unless they are rounded or wrapped before they are added.
    input_dtype = _dtype_of(x)
    if dtype in (None, input_dtype) and (input_dtype.is_floating_point or input_dtype.is_complex):
        result.append(([Partial()], [Partial(), *rest]))
    return result


def _kept_dim(d: int, reduced: set[int], keepdim: bool) -> int:
    """Return which dimension of the result a dimension is that is kept."""
    return d if keepdim else d - sum(other < d for other in reduced)


def _place_of_result(p: Placement, reduced: set[int], keepdim: bool) -> Placement:
    """Return how a result is placed whose input is placed so, if each process reduces its part."""
    if not isinstance(p, Shard):
        return p
    return Partial() if p.dim in reduced else Shard(_kept_dim(p.dim, reduced, keepdim))


def _reduced_dims(x: Any, dim: Sequence[int] | None) -> set[int]:
    return {d % max(1, x.ndim) for d in dim} if dim else set(range(x.ndim))


def _dtype_of(x: Any) -> torch.dtype:
    try:
        return x.tensor_meta.dtype  # type: ignore[no-any-return]
    except AttributeError as error:
        raise NotImplementedError(
            f"reduce_ops.distributed: how a DTensor is sharded is described otherwise in PyTorch {torch.__version__} "
            f"({error}); sum its local tensors, or full_tensor()"
        ) from error


def _sum(x: Any, dtype: torch.dtype | None = None, block_size: int = 256) -> list[Sharding]:
    return _shardings(x, set(range(x.ndim)), False, dtype, 0)


def _sum_dims(
    x: Any, dim: Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> list[Sharding]:
    return _shardings(x, _reduced_dims(x, dim), keepdim, dtype, 2)


def _sums_of_rows(x: Any, version: int, dtype: torch.dtype | None = None, block_size: int = 256) -> list[Sharding]:
    return _shardings(x, set(range(1, x.ndim)), False, dtype, 1)


def _exact_state(
    x: Any, dim: Sequence[int] | None = None, keepdim: bool = False, of: str = "elements"
) -> list[Sharding]:
    kept_or_partial = _sum_dims(x, dim, keepdim)
    # A sum of states is a state, but the values of a Partial are not elements: they have to be added up first.
    return [(results, arguments) for results, arguments in kept_or_partial if arguments[0] != Partial()]


def _exact_round(state: Any, dtype: torch.dtype, count: int = 1, root: bool = False) -> list[Sharding]:
    result: list[Sharding] = [([Replicate()], [Replicate()])]
    for d in range(state.ndim - (2 if dtype.is_complex else 1)):
        result.append(([Shard(d)], [Shard(d)]))
    return result


def _by_name(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip((argument.name for argument in op._schema.arguments), args, strict=False)) | kwargs


def _nansum(
    x: Any, dim: Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> list[Sharding]:
    shardings = _sum_dims(x, dim, keepdim, dtype)
    # What is no number in the values of a Partial need not be one in their sum.
    return [(results, arguments) for results, arguments in shardings if arguments[0] != Partial()]


def _on_meta(op: torch._ops.OpOverload, x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Return the shape and dtype of the operator's result of all of x, or raise its errors."""
    return op(torch.empty(x.shape, dtype=x.dtype, device="meta"), *args[1:], **kwargs)  # type: ignore[no-any-return]


def _exact(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator on a DTensor, below autograd: a state, replicated where it is partial, and its rounding.

    Conversions are those of each process's own tensor: PyTorch 2.11 gives a DTensor that was converted the dtype of
    another conversion that it remembers.
    """
    given = _by_name(op, args, kwargs)
    dim, keepdim = given.get("dim"), given.get("keepdim", False)
    x = _whole(given["self"])
    result = _on_meta(op, x, args, kwargs)
    parts = [_like(x, part, x.shape, x.stride()) for part in parts_of(x.to_local(), result.dtype)]
    of: Terms = "elements"
    if op is torch.ops.reduce.vector_norm_exact.default:
        of = "magnitudes" if given.get("ord", 2) == 1 else "squares"
    state = _whole(state_of(parts, dim, keepdim, of))
    is_mean = op._schema.name == "reduce::mean_exact"
    count = math.prod(x.shape[d] for d in _reduced_dims(x, dim)) if is_mean else 1
    if count == 0:
        local = op(x.to_local(), *args[1:], **kwargs)
    else:
        of_complex = x.is_complex() and of == "elements"
        local = rounded(state.to_local(), result.dtype, of_complex, count, root=of == "squares")
    return _like(state, local, result.shape, result.stride())


_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
"""What sums do not overflow in, for the dtypes where means do not."""


def _mean(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator on a DTensor, below autograd.

    Where a reduced dimension is sharded, each process sums its part, divides by the number of elements of the whole and
    rounds: shards may differ in size. Those quotients are a ``Partial``, added up across processes when it is used.
    """
    given = _by_name(op, args, kwargs)
    dim, keepdim, dtype = given.get("dim"), given.get("keepdim", False), given.get("dtype")
    x = given["self"]
    x = _placed(x, [p if type(p) is Shard else Replicate() for p in x.placements])
    result = _on_meta(op, x, args, kwargs)
    reduced = _reduced_dims(x, dim)
    placements = [_place_of_result(p, reduced, keepdim) for p in x.placements]
    local = x.to_local()
    if any(p.is_partial() for p in placements):
        n = math.prod(x.shape[d] for d in reduced)
        wide = _WIDE.get(result.dtype)
        part = local.to(dtype) if dtype is not None and wide is not None else local
        sums = torch.ops.reduce.sum(part, dim, keepdim, dtype=wide or result.dtype)
        parts = torch.view_as_real(sums) if sums.is_complex() else sums  # each component is divided on its own
        quotient = torch.view_as_complex(parts / n) if sums.is_complex() else parts / n
        local_result = quotient.to(result.dtype)
    else:
        local_result = op(local, *args[1:], **kwargs)
    return DTensor.from_local(
        local_result, x.device_mesh, placements, run_check=False, shape=result.shape, stride=result.stride()
    )


def _of_parts(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A norm or an extreme of a DTensor, below autograd: of the shards, and then of what these gave."""
    given = _by_name(op, args, kwargs)
    dim, keepdim = given.get("dim"), given.get("keepdim", False)
    x = _whole(given["self"])
    result = _on_meta(op, x, args, kwargs)
    reduced = _reduced_dims(x, dim)
    local, mesh = x.to_local(), x.device_mesh
    if given.get("dtype") is not None:
        local = local.to(given["dtype"])  # before it is wider than that
    parts = [i for i, p in enumerate(x.placements) if isinstance(p, Shard) and p.dim in reduced]
    placements = [
        Shard(_kept_dim(p.dim, reduced, keepdim)) if isinstance(p, Shard) and i not in parts else Replicate()
        for i, p in enumerate(x.placements)
    ]
    if parts:
        wide = {key: _WIDE[value] for key, value in kwargs.items() if key == "dtype" and value in _WIDE}
        if op is torch.ops.reduce.vector_norm.default and x.dtype in _WIDE and kwargs.get("dtype") is None:
            wide = {"dtype": _WIDE[x.dtype]}
        one = _or_neutral(op, local, args, kwargs | wide)
        count = math.prod(mesh.size(i) for i in parts)
        stacked = DTensor.from_local(
            one.unsqueeze(0),
            mesh,
            [
                Shard(0) if i in parts else Shard(p.dim + 1) if isinstance(p, Shard) else p
                for i, p in enumerate(placements)
            ],
            run_check=False,
            shape=torch.Size((count, *result.shape)),
            stride=(result.numel(), *result.stride()),
        )
        gathered = stacked.redistribute(
            placements=[Replicate() if i in parts else p for i, p in enumerate(stacked.placements)]
        )
        local_result = _of_results(op, gathered.to_local(), given.get("ord", 2)).to(result.dtype)
    else:
        local_result = op(local, *args[1:], **kwargs)
    return DTensor.from_local(
        local_result, mesh, placements, run_check=False, shape=result.shape, stride=result.stride()
    )


def _transform(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The sum of a formula of DTensors, below autograd: all are sharded as the first of them that is, or replicated.

    Where a reduced dimension is sharded, each process sums its part, a ``Partial`` as a sum's.
    """
    mesh = next(x.device_mesh for x in args[0] if isinstance(x, DTensor))
    for x in args[0]:
        if (x.device_mesh != mesh) if isinstance(x, DTensor) else x.ndim > 0:
            raise RuntimeError(
                "transform_sum: tensors are mixed; accepted are DTensors of one mesh, and tensors without dimensions"
            )
    replicated = [Replicate()] * mesh.ndim
    tensors = [
        _whole(x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, replicated, run_check=False))
        for x in args[0]
    ]
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    result = op([torch.empty(x.shape, dtype=x.dtype, device="meta") for x in tensors], *args[1:], **kwargs)
    given = _by_name(op, args, kwargs)
    keepdim, rank = given.get("keepdim", False), len(shape)
    reduced = {d % max(1, rank) for d in given.get("dim") or range(rank)}

    def sharded_dim(i: int) -> int | None:
        """Return the dimension, of all of them together, along which dimension i of the mesh shards."""
        for x in tensors:
            p = x.placements[i]
            if type(p) is Shard and x.shape[p.dim] > 1:
                return int(p.dim + rank - x.ndim)
        return None

    dims = [sharded_dim(i) for i in range(mesh.ndim)]
    local = []
    for x in tensors:
        own = [None if d is None or (at := d - rank + x.ndim) < 0 or x.shape[at] == 1 else at for d in dims]
        local.append(_placed(x, [Replicate() if d is None else Shard(d) for d in own]).to_local())
    return DTensor.from_local(
        op(local, *args[1:], **kwargs),
        mesh,
        [Replicate() if d is None else _place_of_result(Shard(d), reduced, keepdim) for d in dims],
        run_check=False,
        shape=result.shape,
        stride=result.stride(),
    )


def _var_mean(op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Variances of a DTensor, below autograd, with the bits of one process's.

    What is sharded along a reduced dimension is gathered, because elements are read twice.
    """
    given = _by_name(op, args, kwargs)
    x, keepdim = given["self"], given.get("keepdim", False)
    reduced = _reduced_dims(x, given.get("dim"))
    x = _placed(x, [p if type(p) is Shard and p.dim not in reduced else Replicate() for p in x.placements])
    results = _on_meta(op, x, args, kwargs)
    placements = [_place_of_result(p, reduced, keepdim) for p in x.placements]
    local = op(x.to_local(), *args[1:], **kwargs)
    return tuple(
        DTensor.from_local(one, x.device_mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())
        for one, whole in zip(local, results, strict=True)
    )


def _or_neutral(
    op: torch._ops.OpOverload, local: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Return the operator's result of a shard; of one without elements what changes no other shard's result."""
    if local.numel() > 0:
        return op(local, *args[1:], **kwargs)  # type: ignore[no-any-return]
    reduced = _reduced_dims(local, _by_name(op, args, kwargs).get("dim"))
    shape = [n or 1 if d in reduced else n for d, n in enumerate(local.shape)]
    result = op(torch.empty(shape, dtype=local.dtype, device="meta"), *args[1:], **kwargs)
    if op is torch.ops.reduce.vector_norm.default:
        neutral: float = math.inf if _by_name(op, args, kwargs).get("ord") == -math.inf else 0
    elif result.dtype == torch.float8_e4m3fn:  # has no infinity
        largest = torch.finfo(result.dtype).max
        neutral = -largest if op is torch.ops.reduce.amax.default else largest
    elif result.dtype.is_floating_point:
        neutral = -math.inf if op is torch.ops.reduce.amax.default else math.inf
    elif result.dtype == torch.bool:
        neutral = op is torch.ops.reduce.amin.default
    else:
        limits = torch.iinfo(result.dtype)
        neutral = limits.min if op is torch.ops.reduce.amax.default else limits.max
    return torch.full(result.shape, neutral, dtype=result.dtype, device=local.device)


def _of_results(op: torch._ops.OpOverload, results: torch.Tensor, order: float) -> torch.Tensor:
    """Reduce what shards gave, along the first dimension: the norm of norms is the norm, and counts add up."""
    if op is torch.ops.reduce.vector_norm.default:
        return op(results, order or 1, [0])  # type: ignore[no-any-return]
    return op(results, [0])  # type: ignore[no-any-return]


def _placed(x: Any, placements: Sequence[Placement]) -> Any:
    """Return x so placed, without a gradient.

    Of its own tensor anew: of one that is a view and was made without gradients, such as a gradient's in a backward
    pass, PyTorch 2.11's redistribute calls detach_, which DTensor lacks.
    """
    return _like(x, x.to_local(), x.shape, x.stride()).redistribute(placements=placements)


def _whole(x: Any) -> Any:
    return _placed(x, [Replicate() if p.is_partial() else p for p in x.placements])


def _like(x: Any, local: torch.Tensor, shape: torch.Size, stride: tuple[int, ...]) -> DTensor:
    """Return the DTensor placed like x of which this process has ``local``."""
    return DTensor.from_local(local, x.device_mesh, x.placements, run_check=False, shape=shape, stride=stride)


def _block_sums(x: Any, dtype: torch.dtype | None = None, block_size: int = 256) -> list[Sharding]:
    return [([Replicate()], [Replicate()])]


def _block_sums_of_rows(
    x: Any, version: int, dtype: torch.dtype | None = None, block_size: int = 256
) -> list[Sharding]:
    return [([Replicate()], [Replicate(), None]), ([Shard(0)], [Shard(0), None])]


def _parts_of_dtensor() -> tuple[Callable[..., Any], dict[Any, Any], dict[Any, Any]]:
    """Return the function that registers a rule, what DTensor knows of operators' arguments, and its special handlers.

    The first is experimental, the others are private. Whether rules are kept where they are expected shows with one for
    an operator that takes no tensors. So either all operators are registered, or none.
    """
    from torch.distributed.tensor.experimental import register_sharding

    probe = torch.ops.reduce._cpu.default
    register_sharding(probe)(list)
    dispatcher = DTensor._op_dispatcher
    infos, handlers = dispatcher.sharding_propagator.op_to_schema_info, dispatcher._custom_op_handlers
    infos[probe].static_argnum += 1
    return register_sharding, infos, handlers


def _register(rules: dict[torch._ops.OpOverload, Callable[..., list[Sharding]]]) -> None:
    try:
        register_sharding, infos, handlers = _parts_of_dtensor()
    except (AttributeError, ImportError, LookupError, TypeError) as error:
        warnings.warn(
            f"reduce_ops.distributed: PyTorch {torch.__version__} has changed parts of DTensor that are used here "
            f"({type(error).__name__}: {error}). No operator of reduce_ops takes a DTensor: sum its local tensors, or "
            f"full_tensor(). reduce_ops.distributed.sum_exact, of plain tensors, and all else work",
            RuntimeWarning,
            stacklevel=3,
        )
        return
    for op, rule in rules.items():
        register_sharding(op)(rule)
        # What a rule said is remembered by the arguments from the first integer on. A list of them, such as dim,
        # PyTorch does not count, nor a string, and would give a sum along one dimension the answer for another.
        infos[op].static_argnum = 1
        infos[op].static_kwargkey = [argument.name for argument in op._schema.arguments if argument.kwarg_only]
    for packet in (torch.ops.reduce.sum_exact, torch.ops.reduce.mean_exact):
        handlers |= dict.fromkeys((packet.default, packet.dim_IntList), _exact)
    handlers[torch.ops.reduce.vector_norm_exact.default] = _exact
    handlers |= dict.fromkeys((torch.ops.reduce.mean.default, torch.ops.reduce.mean.dim_IntList), _mean)
    handlers |= {getattr(torch.ops.reduce, name).default: _of_parts for name in ("vector_norm", "amax", "amin")}
    handlers |= {torch.ops.reduce.transform_sum.default: _transform, torch.ops.reduce._var_mean.default: _var_mean}


_register(
    {
        torch.ops.reduce.sum.default: _sum,
        torch.ops.reduce.sum.dim_IntList: _sum_dims,
        torch.ops.reduce.nansum.default: _nansum,
        torch.ops.reduce._sums_of_rows.default: _sums_of_rows,
        torch.ops.reduce._block_sums_of_rows.default: _block_sums_of_rows,
        torch.ops.reduce.exact_state.default: _exact_state,
        torch.ops.reduce.exact_state.dim_IntList: _exact_state,
        torch.ops.reduce.exact_round.default: _exact_round,
        **{getattr(torch.ops.reduce, f"sum_v{rung.number}").default: _sum for rung in LADDER},
        **{getattr(torch.ops.reduce, f"block_sums_v{rung.number}").default: _block_sums for rung in LADDER},
    }
)
