"""Clipping by an exact norm of all gradients: the same bits however they are sharded, ordered or grouped."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate
from torch.nn.utils import clip_grads_with_norm_

from reduce_ops import exact

_TERMS: dict[float, exact.Terms] = {1.0: "magnitudes", 2.0: "squares"}
"""What the norm of an order is the sum, or the root of the sum, of."""


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Compute the norm of the elements of all tensors, like ``torch.nn.utils.get_total_norm``, exactly: rounded once.

    The result is that of `reduce_ops.vector_norm_exact` for all elements in one tensor. So it has the same bits for any
    order and grouping of the tensors, any sharding and number of processes, on GPUs and CPUs. Each tensor, or this
    process's shard of it, is added up to a state (`reduce_ops.exact_state`), and the states are added. Those of shards
    go through one all-reduce of 200 bytes, 1112 with float64, for each dimension of a mesh that shards and each way in
    which tensors are sharded. No device is waited for, unless ``error_if_nonfinite`` is set.

    Args:
        tensors: A tensor or an iterable of them: float8, float16, bfloat16, float32, float64 or complex, on any
            devices, plain or ``DTensor``. Of a process's plain tensors it sees these alone, as PyTorch does.
        norm_type: 2 or 1; for complex tensors 2.
        error_if_nonfinite: Whether a norm that is infinite or NaN is an error. To see it, the host waits for it.
        foreach: Is there for PyTorch's signature, and makes no difference.

    Returns:
        A plain tensor without dimensions on the device of the first tensor, the same in every process: float64 if one
        of the tensors is float64 or complex128, else float32. Of no tensors it is 0.

    Raises:
        RuntimeError: The norm is not finite, and that is to be an error.
        ValueError: ``norm_type`` is another number, or a tensor has integers, or complex numbers where that is 1.
    """
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    of = _TERMS.get(float(norm_type))
    if of is None:
        raise ValueError(f"get_total_norm: norm_type is {norm_type}; accepted are 1 and 2, of which norms are exact")
    if not listed:
        return torch.tensor(0.0)
    wide = any(tensor.dtype in (torch.float64, torch.complex128) for tensor in listed)
    with torch.no_grad():
        states: dict[tuple[DeviceMesh, tuple[Placement, ...]] | None, list[Tensor]] = {}
        for tensor in listed:
            local, where = _shard_of(tensor)
            state = exact.exact_state(_double(local) if wide else local, of=of)
            states.setdefault(where, []).append(state.to(listed[0].device, non_blocking=True))
        totals = [_reduced(torch.stack(some).sum(0), where) for where, some in states.items()]
        dtype = torch.float64 if wide else torch.float32
        norm = exact.exact_round(torch.stack(totals).sum(0), dtype=dtype, root=of == "squares")
    if error_if_nonfinite and not norm.isfinite():
        raise RuntimeError(
            f"get_total_norm: the norm of order {norm_type} is {norm.item()}; accepted is a finite one, or any with "
            "error_if_nonfinite=False"
        )
    return norm


@torch.no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of parameters to a norm of ``max_norm`` at most, like ``torch.nn.utils.clip_grad_norm_``.

    The norm is that of `get_total_norm`. Gradients are multiplied in place, by PyTorch, by ``max_norm / (norm + 1e-6)``
    or by 1, whichever is less. So they, too, have the same bits for any sharding and number of processes.

    Args:
        parameters: A tensor or an iterable of them, plain or ``DTensor``. Those without a gradient are left out.
        max_norm: The largest norm.
        norm_type: As for `get_total_norm`.
        error_if_nonfinite: As for `get_total_norm`. Without it a norm that is not finite makes gradients 0 or NaN.
        foreach: Whether the gradients are multiplied by PyTorch's foreach kernels; where these exist if None.

    Returns:
        The norm before, as `get_total_norm` returns it.

    Raises:
        RuntimeError: The norm is not finite, and that is to be an error.
        ValueError: What is one of `get_total_norm`.
    """
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    clipped: dict[DeviceMesh | None, list[Tensor]] = {}  # PyTorch's kernels take DTensors of one mesh at a time
    gradients = []
    for parameter in listed:
        gradient = parameter.grad
        if gradient is not None:
            gradients.append(gradient)
            mesh = gradient.device_mesh if isinstance(gradient, DTensor) else None
            clipped.setdefault(mesh, []).append(parameter)
    norm = get_total_norm(gradients, norm_type, error_if_nonfinite, foreach)
    for some in clipped.values():
        clip_grads_with_norm_(some, max_norm, norm, foreach)
    return norm


def _shard_of(tensor: Tensor) -> tuple[Tensor, tuple[DeviceMesh, tuple[Placement, ...]] | None]:
    """Return what this process has of a tensor, and how its state is spread over a mesh, if it is."""
    if not isinstance(tensor, DTensor):
        return tensor, None
    whole = tensor.redistribute(placements=[Replicate() if p.is_partial() else p for p in tensor.placements])
    placements = tuple(p if isinstance(p, Replicate) else Partial() for p in whole.placements)
    return whole.to_local(), (whole.device_mesh, placements)


def _double(x: Tensor) -> Tensor:
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def _reduced(state: Tensor, where: tuple[DeviceMesh, tuple[Placement, ...]] | None) -> Tensor:
    """Add up the states of the processes that have parts of the same tensors."""
    if where is None:
        return state
    mesh, placements = where
    spread = DTensor.from_local(state, mesh, placements, run_check=False)
    return spread.redistribute(placements=[Replicate()] * mesh.ndim).to_local()
