"""Two processes: sums of DTensors, and training steps of DDP and FSDP2. With gloo on CPUs, with NCCL on two GPUs."""

from __future__ import annotations

import importlib
import math
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from processes import spawn
from reduce_ops import LADDER
from support import assert_same_bits, in_a_process, random_values

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement

WORLD = 2
OPS = torch.ops.reduce

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch is without torch.distributed")


# What runs in each process


def values(*shape: int, device: str) -> torch.Tensor:
    return random_values(torch.Size(shape).numel(), torch.float32).view(shape).to(device)


def placement_of_result(placement: Placement, dim: int | tuple[int, ...] | None, keepdim: bool) -> Placement:
    """Of a reduction of three dimensions."""
    from torch.distributed.tensor import Partial, Shard

    reduced = {k % 3 for k in ((dim,) if isinstance(dim, int) else dim or range(3))}
    if not isinstance(placement, Shard):
        return placement
    if placement.dim in reduced:
        return Partial()
    return Shard(placement.dim if keepdim else placement.dim - sum(k < placement.dim for k in reduced))


def placements_and_values_of_sums(device: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    import reduce_ops.distributed  # noqa: F401

    mesh = init_device_mesh(device, (WORLD,))
    x = values(6, 4, 10, device=device)
    for placement in (Replicate(), Shard(0), Shard(1), Shard(2)):
        d = distribute_tensor(x, mesh, [placement])
        for dim in (0, 1, (0, 2), -1, None, ()):  # one after another: what was found for one is not taken for the next
            for keepdim in (False, True):
                actual, expected = OPS.sum(d, dim, keepdim), OPS.sum(x, dim, keepdim)
                wanted = placement_of_result(placement, dim, keepdim)
                assert actual.placements == (wanted,), (placement, dim, keepdim, actual.placements)
                if isinstance(wanted, Partial):
                    torch.testing.assert_close(actual.full_tensor(), expected)
                else:
                    assert_same_bits(actual.full_tensor(), expected)
        assert OPS.sum.default(d).placements == (Replicate() if isinstance(placement, Replicate) else Partial(),)
        torch.testing.assert_close(
            OPS.sum.default(d, dtype=torch.float64).full_tensor(), OPS.sum(x, dtype=torch.float64)
        )
        for rung in LADDER:
            total = getattr(OPS, rung.name)(d)
            assert total.placements == OPS.sum.default(d).placements
            torch.testing.assert_close(total.full_tensor(), OPS.sum(x))
            sums = getattr(OPS, f"block_sums_v{rung.number}")
            assert sums(d).placements == (Replicate(),)
            assert_same_bits(sums(d).full_tensor(), sums(x))
    partial = OPS.sum(distribute_tensor(x, mesh, [Shard(0)]), 0)
    assert OPS.sum(partial, 0).placements == (Partial(),)
    # Partial values may not be rounded before they are added up.
    whole = OPS.sum(partial, dtype=torch.int64).full_tensor()
    assert_same_bits(whole, OPS.sum(partial.full_tensor(), dtype=torch.int64))


def norms_and_extremes(device: str) -> None:
    """Uneven shards, one without elements, two mesh dimensions; gradients; what is partial is added up first."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    import reduce_ops.distributed  # noqa: F401

    operators = [partial(OPS.vector_norm.default, ord=ord) for ord in (2, 1, 0, math.inf, -math.inf)]
    operators += [OPS.amax.default, OPS.amin.default, OPS.nansum.default]
    flat, square = init_device_mesh(device, (WORLD,)), init_device_mesh(device, (WORLD, 1))
    x = values(5, 4, 9, device=device)
    x[0, 0, 0] = 0
    for mesh, placements in (
        *((flat, [p]) for p in (Replicate(), Shard(0), Shard(1), Shard(2))),
        *((square, p) for p in ([Shard(0), Shard(1)], [Shard(2), Shard(2)], [Replicate(), Shard(0)])),
    ):
        d = distribute_tensor(x, mesh, placements)
        for operator in operators:
            for dim in ([], 0, 2, (0, 2), (0, 1, 2)):
                for keepdim in (False, True):
                    torch.testing.assert_close(
                        operator(d, dim=dim, keepdim=keepdim).full_tensor(), operator(x, dim=dim, keepdim=keepdim)
                    )
            leaf, whole = d.detach().requires_grad_(), x.clone().requires_grad_()
            operator(leaf, dim=0).square().sum().backward()
            operator(whole, dim=0).square().sum().backward()
            assert leaf.grad is not None
            torch.testing.assert_close(leaf.grad.full_tensor(), whole.grad)
    one = distribute_tensor(values(1, 300, device=device) - 1e3, flat, [Shard(0)])  # the other process has nothing
    for operator in operators:
        assert_same_bits(operator(one).full_tensor(), operator(one.full_tensor()))
        assert_same_bits(operator(one, dim=0).full_tensor(), operator(one.full_tensor(), dim=0))
    for dtype in (torch.int8, torch.bool):
        y = distribute_tensor(torch.ones(1, 3, dtype=dtype, device=device), flat, [Shard(0)])
        assert OPS.amax(y).full_tensor() == OPS.amin(y).full_tensor() == 1
    parts = DTensor.from_local(torch.tensor([3.0, -4.0], device=device), flat, [Partial()], run_check=False)
    assert OPS.vector_norm(parts).full_tensor() == 10 and OPS.amin(parts).full_tensor() == -8
    halves = distribute_tensor(torch.full((6, 50), 3.0, device=device, dtype=torch.float16), flat, [Shard(0)])
    assert_same_bits(OPS.vector_norm(halves).full_tensor(), OPS.vector_norm(halves.full_tensor()))
    with pytest.raises(RuntimeError, match="vector_norm: ord is 3"):
        OPS.vector_norm(halves, 3)


def means(device: str) -> None:
    """Shards of different sizes; the bits of one process's mean where no reduced dimension is sharded."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    import reduce_ops.distributed  # noqa: F401

    mesh = init_device_mesh(device, (WORLD,))
    x = values(7, 3, 5, device=device)
    for placement in (Replicate(), Shard(0), Shard(1), Shard(2)):
        d = distribute_tensor(x, mesh, [placement])
        for dim in (0, 1, (0, 2), -1, None, ()):
            for keepdim in (False, True):
                actual, expected = OPS.mean(d, dim, keepdim), OPS.mean(x, dim, keepdim)
                assert actual.shape == expected.shape
                wanted = placement_of_result(placement, dim, keepdim)
                assert actual.placements == (wanted,), (placement, dim, keepdim, actual.placements)
                if isinstance(wanted, Partial):
                    torch.testing.assert_close(actual.full_tensor(), expected)
                else:
                    assert_same_bits(actual.full_tensor(), expected)
                exact = OPS.mean_exact(d, dim, keepdim).full_tensor()
                assert_same_bits(exact, OPS.mean_exact(x, dim, keepdim))
                for ord in (1, 2):
                    exact = OPS.vector_norm_exact(d, ord, dim, keepdim).full_tensor()
                    assert_same_bits(exact, OPS.vector_norm_exact(x, ord, dim, keepdim))
        torch.testing.assert_close(OPS.mean.default(d).full_tensor(), OPS.mean(x))
        wide = OPS.mean(d, dtype=torch.float64)
        assert wide.dtype == torch.float64
        torch.testing.assert_close(wide.full_tensor(), OPS.mean(x, dtype=torch.float64))
        for function in (OPS.mean, lambda t: OPS.mean(t, 0).square(), lambda t: OPS.mean(t * t, 1, True).sin()):
            reference = (x / x.abs().max()).requires_grad_()
            leaf = distribute_tensor(reference.detach(), mesh, [placement]).requires_grad_()
            function(leaf).sum().backward()
            function(reference).sum().backward()
            assert leaf.grad is not None and reference.grad is not None
            torch.testing.assert_close(leaf.grad.full_tensor(), reference.grad)
    partial = OPS.sum(distribute_tensor(x, mesh, [Shard(0)]), 0)
    torch.testing.assert_close(OPS.mean(partial, 0).full_tensor(), OPS.mean(OPS.sum(x, 0), 0))
    # The local sums of these halves are infinite in float16.
    large = distribute_tensor(torch.full((101,), 60000.0, dtype=torch.float16, device=device), mesh, [Shard(0)])
    torch.testing.assert_close(OPS.mean(large).full_tensor().float().cpu(), torch.tensor(60000.0), rtol=1e-3, atol=0)
    x = torch.tensor([complex(float("inf"), 1), 1 + 1j], device=device)  # one component leaves the other alone
    mean = OPS.mean(distribute_tensor(x, mesh, [Shard(0)])).full_tensor()
    assert mean.real == float("inf") and mean.imag == 1
    with_ints = distribute_tensor(torch.ones(4, dtype=torch.int64, device=device), mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match="mean: self is Long"):
        OPS.mean(with_ints)


def transforms(device: str) -> None:
    """Dot products and variances: as sharded as sums, with their values, and gradients as sharded as inputs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    import reduce_ops.distributed  # noqa: F401
    from reduce_ops import std, transform_sum, var_mean, vecdot

    mesh = init_device_mesh(device, (WORLD,))
    x, y = values(7, 5, device=device), values(5, 7, device=device).T.contiguous()
    for px in (Replicate(), Shard(0), Shard(1), Partial()):
        for py in (Replicate(), Shard(0), Shard(1)):
            part = x if not isinstance(px, Partial) else x / WORLD  # exact
            a = DTensor.from_local(part, mesh, [px]) if isinstance(px, Partial) else distribute_tensor(x, mesh, [px])
            b = distribute_tensor(y, mesh, [py])
            for dim in (0, 1, None):
                dot = vecdot(a, b, dim)
                sharded = px if isinstance(px, Shard) else py if isinstance(py, Shard) else Replicate()
                over = isinstance(sharded, Shard) and dim in (None, sharded.dim)
                expected = Partial() if over else Shard(0) if isinstance(sharded, Shard) else Replicate()
                assert dot.placements == (expected,), (px, py, dim)
                reference = vecdot(x, y, dim)
                torch.testing.assert_close(dot.full_tensor(), reference)
                if not over:
                    assert_same_bits(dot.full_tensor(), reference, (px, py, dim))
            row = transform_sum("x * y + 0.5", x=a, y=b[0] if isinstance(py, Replicate) else b, dim=1, keepdim=True)
            whole = transform_sum("x * y + 0.5", x=x, y=y[0] if isinstance(py, Replicate) else y, dim=1, keepdim=True)
            torch.testing.assert_close(row.full_tensor(), whole)
        for dim in (0, 1, None):
            for keepdim in (False, True):
                mine, reference = var_mean(a, dim, keepdim=keepdim), var_mean(x, dim, keepdim=keepdim)
                for one, other in zip(mine, reference, strict=True):
                    assert_same_bits(one.full_tensor(), other, (px, dim, keepdim))
    parameter = nn.Parameter(distribute_tensor(x, mesh, [Shard(0)]))
    with torch.no_grad():  # of views of a parameter PyTorch's own redistribute fails
        for call in (OPS.mean, OPS.vector_norm, OPS.amax, OPS.sum_exact, OPS.mean_exact, OPS.std):
            reference = call(x.T)
            torch.testing.assert_close(call(parameter.T).full_tensor(), reference)
    for placement in (Shard(0), Shard(1), Replicate()):
        a, b = (distribute_tensor(t, mesh, [placement]).requires_grad_() for t in (x, y))
        c, d = (t.clone().requires_grad_() for t in (x, y))
        for function in (
            lambda p, q: vecdot(p, q).full_tensor() if isinstance(p, DTensor) else vecdot(p, q),
            lambda p, q: transform_sum("square(x - 2) * y", x=p, y=q, dim=0),
            lambda p, q: std(p * q, 0),
        ):
            for p, q in ((a, b), (c, d)):
                p.grad = q.grad = None
                function(p, q).sum().backward()
            for one, other in ((a, c), (b, d)):
                torch.testing.assert_close(one.grad.full_tensor(), other.grad)


def gradients_of_sums(device: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    import reduce_ops.distributed  # noqa: F401

    mesh = init_device_mesh(device, (WORLD,))
    x = values(6, 4, device=device)
    for placement in (Replicate(), Shard(0), Shard(1)):
        for function in (
            OPS.sum,
            OPS.sum_v7,
            lambda t: OPS.sum(t, 0).square(),
            lambda t: OPS.sum(t * t, 1, True).sin(),
        ):
            d = distribute_tensor(x, mesh, [placement]).requires_grad_()
            reference = x.clone().requires_grad_()
            for leaf in (d, reference):
                function(leaf).sum().backward()
            assert d.grad is not None and reference.grad is not None
            torch.testing.assert_close(d.grad.full_tensor(), reference.grad, rtol=1e-4, atol=1e-4)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y / (1 + OPS.sum(y * y, 1, True)).sqrt()


def steps_of(
    wrap: Callable[[nn.Module], nn.Module], total: Callable[[torch.Tensor], torch.Tensor], device: str
) -> nn.Module:
    """Three steps, each process on its half of the batch; gradients are averaged over processes."""
    torch.manual_seed(0)
    model = wrap(Model().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rank, world = (dist.get_rank(), WORLD) if wrap is not alone else (0, 1)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        x = torch.randn(16, 20, generator=generator).to(device).chunk(world)[rank]
        label = torch.randint(10, (16,), generator=generator).to(device).chunk(world)[rank]
        optimizer.zero_grad()
        loss = total(functional.cross_entropy(model(x), label, reduction="none")) / len(x)
        loss.backward()
        optimizer.step()
    return model


def alone(model: nn.Module) -> nn.Module:
    return model


def data_parallel(model: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def fully_sharded(model: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=init_device_mesh(next(model.parameters()).device.type, (WORLD,)))
    return model


def steps_of_data_parallel(device: str) -> None:
    for total in (OPS.sum, OPS.sum_v7):
        expected = steps_of(alone, total, device).state_dict()
        for wrap in (data_parallel, fully_sharded):
            state = {
                name.removeprefix("module."): value
                for name, value in steps_of(wrap, total, device).state_dict().items()
            }
            assert state.keys() == expected.keys()
            for name, value in state.items():
                full = value.full_tensor() if hasattr(value, "full_tensor") else value
                torch.testing.assert_close(full, expected[name], rtol=1e-4, atol=1e-5)


class Without:
    """An object of which one part, or a part of a part, is missing."""

    def __init__(self, whole: object, missing: str) -> None:
        self.whole, self.missing = whole, missing

    def __getattr__(self, name: str) -> object:
        first, _, rest = self.missing.partition(".")
        if name != first:
            return getattr(self.whole, name)
        if not rest:
            raise AttributeError(f"no {name}")
        return Without(getattr(self.whole, name), rest)


PARTS_OF_DTENSOR = (
    "dispatcher._custom_op_handlers",
    "dispatcher.sharding_propagator.op_to_schema_info",
    "experimental.register_sharding",
)


def sums_where_dtensor_lacks_a_part() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor, experimental

    dispatcher, name = DTensor._op_dispatcher, "reduce_ops.distributed"
    for part in PARTS_OF_DTENSOR:
        where, _, missing = part.partition(".")
        sys.modules.pop(name, None)
        changed = {
            "dispatcher": patch.object(DTensor, "_op_dispatcher", Without(dispatcher, missing)),
            "experimental": patch.dict(sys.modules, {experimental.__name__: Without(experimental, missing)}),
        }
        with changed[where], warnings.catch_warnings(record=True) as warned:
            module = importlib.import_module(name)
        (warning,) = warned
        for words in (f"PyTorch {torch.__version__} ", missing.rpartition(".")[2], "takes a DTensor", "sum_exact"):
            assert words in str(warning.message)
        assert warning.category is RuntimeWarning

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(3)
    d = distribute_tensor(x, init_device_mesh("cpu", (1,)), [Shard(0)])
    for op in (OPS.sum, OPS.sum_v7, OPS.block_sums_v7, OPS.sum_exact):
        assert op(x).sum() == 3
        with pytest.raises(NotImplementedError, match=r"reduce\."):
            op(d)
    with pytest.raises(NotImplementedError, match=r"reduce\.mean"):
        OPS.mean(d)
    assert module.sum_exact(x) == 3


def test_parts_of_dtensor_that_another_pytorch_lacks() -> None:
    in_a_process(sums_where_dtensor_lacks_a_part)


def test_a_description_of_shards_that_another_pytorch_has() -> None:
    from reduce_ops.distributed import _sum

    with pytest.raises(NotImplementedError, match=f"PyTorch {re.escape(torch.__version__)}.*no tensor_meta"):
        _sum(Without(torch.ones(3), "tensor_meta"))


def test_dtensor(device: torch.device) -> None:
    spawn([placements_and_values_of_sums, gradients_of_sums, means, norms_and_extremes, transforms], device)


def test_ddp_and_fsdp2(device: torch.device) -> None:
    spawn([steps_of_data_parallel], device)
