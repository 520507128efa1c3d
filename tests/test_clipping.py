"""``reduce_ops.distributed.get_total_norm`` and ``clip_grad_norm_``: the bits of one norm of all elements."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist

from processes import spawn
from reduce_ops import vector_norm_exact
from reduce_ops.distributed import clip_grad_norm_, get_total_norm
from support import assert_same_bits, random_values

SHAPES = ((7, 5), (3,), (40, 30), (1,), (2, 3, 4), (0, 5), (16, 16))


def tensors(dtype: torch.dtype, device: torch.device | str) -> list[torch.Tensor]:
    values = random_values(2000, dtype).to(device)
    result, first = [], 0
    for shape in SHAPES:
        n = math.prod(shape)
        result.append(values[first : first + n].view(shape))
        first += n
    return result


def joined(some: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in some])


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64], ids=str
)
def test_total_norm(dtype: torch.dtype, device: torch.device) -> None:
    some = tensors(dtype, device)
    of_result = torch.float64 if dtype == torch.float64 else torch.float32
    for norm_type in (2, 2.0) if dtype.is_complex else (1, 2, 2.0):
        asked = of_result.to_complex() if dtype.is_complex else of_result
        expected = vector_norm_exact(joined(some), norm_type, dtype=asked)
        for order in (
            some,
            some[::-1],
            iter(some),
            [joined(some[:3]), *some[3:]],
            [t.mT if t.dim() == 2 else t for t in some],
        ):
            total = get_total_norm(order, norm_type)
            assert total.device == expected.device
            assert_same_bits(total, expected, norm_type)
        assert_same_bits(get_total_norm(some[2], norm_type), vector_norm_exact(some[2], norm_type, dtype=asked))


def test_total_norm_of_many_dtypes(device: torch.device) -> None:
    dtypes = (torch.bfloat16, torch.float32, torch.float16, torch.float64)
    for count, result in ((3, torch.float32), (4, torch.float64)):
        some = [tensor for dtype in dtypes[:count] for tensor in tensors(dtype, device)]
        everything = joined([tensor.double() for tensor in some])
        for norm_type in (1, 2):
            expected = vector_norm_exact(everything, norm_type, dtype=result)
            assert_same_bits(get_total_norm(some, norm_type), expected)
            assert_same_bits(get_total_norm(some[::-1], norm_type), expected)


def test_total_norm_of_extremes(device: torch.device) -> None:
    large = torch.tensor([3e30, 0.0], device=device), torch.tensor([4e30], device=device)
    assert get_total_norm(large) == torch.tensor(5e30)
    assert get_total_norm([]) == 0 and get_total_norm([torch.empty(0, device=device)]) == 0
    for value in (math.inf, -math.inf, math.nan):
        some = [*large, torch.tensor([value], device=device)]
        assert_same_bits(get_total_norm(some), torch.tensor(abs(value)))
        with pytest.raises(
            RuntimeError, match="get_total_norm: the norm of order 2.0 is (inf|nan); accepted is a finite"
        ):
            get_total_norm(some, error_if_nonfinite=True)


def test_errors(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    for norm_type in (0, 3, math.inf):
        with pytest.raises(ValueError, match=f"get_total_norm: norm_type is {norm_type}; accepted are 1 and 2"):
            get_total_norm(x, norm_type)
    with pytest.raises(ValueError, match="of is 'squares' and self is Int"):
        get_total_norm(x.int())
    with pytest.raises(ValueError, match="of is 'magnitudes' and self is ComplexFloat"):
        get_total_norm(x + 1j, 1)


@pytest.mark.parametrize("foreach", [None, False, True])
def test_clipping(foreach: bool | None, device: torch.device) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        for max_norm in (1e-3, 1.0, 1e30):
            ours = [torch.nn.Parameter(tensor) for tensor in tensors(dtype, device)]
            theirs = [torch.nn.Parameter(tensor) for tensor in tensors(dtype, device)]
            for a, b in zip(ours[1:], theirs[1:], strict=True):  # the first one has no gradient
                a.grad, b.grad = a.detach().clone(), b.detach().clone()
            total = clip_grad_norm_(ours, max_norm, foreach=foreach)
            assert_same_bits(total, get_total_norm(theirs[1:]))
            torch.nn.utils.clip_grads_with_norm_(theirs, max_norm, total, foreach)
            for a, b in zip(ours[1:], theirs[1:], strict=True):
                assert a.grad is not None and b.grad is not None
                assert_same_bits(a.grad, b.grad)
    assert clip_grad_norm_(torch.nn.Parameter(torch.ones(3, device=device)), 1.0) == 0
    assert clip_grad_norm_([], 1.0) == 0


def of_shards(device: str) -> None:
    """Of DTensors in every placement, beside plain tensors: the norm and the gradients of one process."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor

    world = dist.get_world_size()
    meshes = [(init_device_mesh(device, (world,)), 1)]
    if world == 4:
        meshes.append((init_device_mesh(device, (2, 2)), 2))
    for mesh, dims in meshes:
        ways: list[list[Placement]] = [[Replicate()], [Shard(0)], [Shard(-1)]]
        if dims == 2:
            ways = [[a, b] for a in (Replicate(), Shard(0)) for b in (Replicate(), Shard(0), Shard(-1))]
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            some = tensors(dtype, device)
            expected = vector_norm_exact(joined(some), dtype=torch.float64 if dtype == torch.float64 else torch.float32)
            plans: list[list[list[Placement] | None]] = [[way] * len(SHAPES) for way in ways]
            plans.append([ways[i % len(ways)] for i in range(len(SHAPES))])
            plans.append([ways[-1] if i % 2 else None for i in range(len(SHAPES))])
            for plan in plans:
                given = [
                    tensor if way is None else distribute_tensor(tensor, mesh, way)
                    for tensor, way in zip(some, plan, strict=True)
                ]
                assert_same_bits(get_total_norm(given), expected, (dtype, plan))
                parameters = [torch.nn.Parameter(tensor) for tensor in given]
                alone = [torch.nn.Parameter(tensor) for tensor in some]
                for p in (*parameters, *alone):
                    p.grad = p.detach().clone()
                assert_same_bits(clip_grad_norm_(parameters, 0.5), expected)
                clip_grad_norm_(alone, 0.5)
                for p, q in zip(parameters, alone, strict=True):
                    assert p.grad is not None and q.grad is not None
                    full = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
                    assert_same_bits(full, q.grad)
        # What is still to be added up is, before it is squared.
        one = torch.full((3,), float(dist.get_rank() == 0), device=device)
        partial = DTensor.from_local(one, mesh, [Partial(), *[Replicate()] * (dims - 1)], run_check=False)
        if dims == 1:
            assert_same_bits(get_total_norm([partial]), vector_norm_exact(torch.ones(3, device=device)))


def test_two(device: torch.device) -> None:
    spawn([of_shards], device, 2)


def test_three(device: torch.device) -> None:
    spawn([of_shards], device, 3)


def test_four(device: torch.device) -> None:
    spawn([of_shards], device, 4)
