"""torch.func: vmap with the bits of one call a sample, and every derivative through it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import reduce_ops
from reduce_ops import Rung
from support import (
    DTYPES,
    assert_same_bits,
    each_rung,
    each_sized_rung,
    ladder_block_sums,
    ladder_sum,
    random_values,
)

SIZES = (1, 2, 255, 256, 257, 3001, 2**18 + 3)


@pytest.fixture(autouse=True)
def no_fallback_warnings() -> Iterator[None]:
    """Vmap warns where it has no rule and loops over the batch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*batching rule.*")
        yield


def batch_of(batch: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.empty(batch, *shape)
    return random_values(x.numel(), dtype, seed=x.numel()).view(x.shape)


@pytest.mark.parametrize("n", SIZES)
@each_sized_rung
def test_rungs(rung: Rung, block_size: int, n: int, device: torch.device) -> None:
    x = batch_of(3, n).to(device)
    for op in (ladder_sum, ladder_block_sums):
        actual = vmap(partial(op, rung, block_size=block_size))(x)
        assert_same_bits(actual, torch.stack([op(rung, sample, None, block_size) for sample in x]))


@each_rung
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rungs_of_every_dtype(rung: Rung, dtype: torch.dtype, device: torch.device) -> None:
    x = batch_of(3, 7, 43, dtype=dtype).to(device)
    for op in (ladder_sum, ladder_block_sums):
        for target in (None, torch.complex128, torch.complex32, dtype):
            actual = vmap(partial(op, rung, dtype=target), in_dims=1)(x)
            assert_same_bits(actual, torch.stack([op(rung, sample, target) for sample in x.unbind(1)]))


@each_rung
def test_rungs_of_minus_zero_and_of_nothing(rung: Rung, device: torch.device) -> None:
    for dtype in (torch.float16, torch.float32, torch.complex64):
        for n in (0, 1, 300, 1000):
            x = torch.full((3, n), -0.0, device=device).to(dtype)
            for op in (ladder_sum, ladder_block_sums):
                expected = torch.stack([op(rung, sample) for sample in x])
                assert_same_bits(vmap(partial(op, rung))(x), expected)


def test_a_batched_rung_runs_its_kernel_once() -> None:
    x = batch_of(100, 3001)
    with torch.profiler.profile() as profile:
        vmap(torch.ops.reduce.sum_v7)(x)
    calls = {event.key: event.count for event in profile.key_averages()}
    assert calls["reduce::_sums_of_rows"] <= 2  # autograd's kernel and the one below
    assert max(calls.values()) < 20


@pytest.mark.parametrize("in_dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dim", [None, (), 0, 1, -1, (0, 1), (1, 0)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum(dim: int | None, keepdim: bool, in_dim: int, device: torch.device) -> None:
    x = batch_of(5, 6, 700).to(device)

    def function(sample: torch.Tensor) -> torch.Tensor:
        return torch.ops.reduce.sum(sample, dim, keepdim)

    expected = torch.stack([function(sample) for sample in x.unbind(in_dim)])
    assert_same_bits(vmap(function, in_dims=in_dim)(x), expected)
    assert_same_bits(vmap(function, in_dims=in_dim, out_dims=-1)(x), expected.movedim(0, -1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sum_of_every_dtype(dtype: torch.dtype, device: torch.device) -> None:
    x = batch_of(4, 1025, dtype=dtype).to(device)
    for function in (torch.ops.reduce.sum.default, lambda sample: reduce_ops.sum(sample, dtype=torch.complex128)):
        assert_same_bits(vmap(function)(x), torch.stack([function(sample) for sample in x]))


def test_samples_of_no_dimensions(device: torch.device) -> None:
    x = batch_of(6).to(device)
    assert_same_bits(vmap(torch.ops.reduce.sum.default)(x), x)
    for dim in (None, (), 0, -1):
        for keepdim in (False, True):
            assert_same_bits(vmap(partial(torch.ops.reduce.sum, dim=dim, keepdim=keepdim))(x), x)
    assert vmap(lambda sample: torch.ops.reduce.sum(sample, dtype=torch.int64))(x.round()).dtype == torch.int64
    assert_same_bits(vmap(torch.ops.reduce.sum_v7)(x), x)


@pytest.mark.parametrize("dims", [(1, 0, None), (0, 1, 0), (2, 0, None)])
def test_vmap_inside_vmap(dims: tuple[int, int, int | None], device: torch.device) -> None:
    x = batch_of(3, 4, 500).to(device)
    outer, inner, _ = dims
    for op in (torch.ops.reduce.sum.default, torch.ops.reduce.sum_v7, torch.ops.reduce.block_sums_v2):
        expected = torch.stack([torch.stack([op(b) for b in a.unbind(inner)]) for a in x.unbind(outer)])
        assert_same_bits(vmap(vmap(op, in_dims=inner), in_dims=outer)(x), expected)


def test_what_only_the_outer_vmap_batches(device: torch.device) -> None:
    x, y = batch_of(3, 500).to(device), batch_of(4).to(device)
    for op in (torch.ops.reduce.sum.default, torch.ops.reduce.sum_v7):
        actual = vmap(lambda a, op=op: vmap(lambda b: op(a) * b)(y))(x)
        assert_same_bits(actual, torch.stack([op(a) * y for a in x]))
        actual = vmap(lambda a, op=op: grad(lambda b: op(a) * b)(y[0]))(x)
        assert_same_bits(actual, torch.stack([op(a) for a in x]))


@pytest.mark.parametrize("shape, dim", [((), (0, -1)), ((4,), (0, 0)), ((4, 5), (1, -1)), ((), 1), ((4,), 1)], ids=str)
def test_bad_dims_of_a_sample(shape: tuple[int, ...], dim: int | tuple[int, ...], device: torch.device) -> None:
    """The error of a call on one sample, which counts its own dimensions."""
    x = torch.ones(3, *shape, device=device)
    for function in (reduce_ops.sum, reduce_ops.sum_exact):
        with pytest.raises((IndexError, RuntimeError)) as of_one:
            function(x[0], dim)
        with pytest.raises(type(of_one.value)) as of_all:
            torch.func.vmap(lambda sample, function=function: function(sample, dim))(x)
        assert str(of_all.value).splitlines()[0] == str(of_one.value).splitlines()[0]


def test_missing_dims(device: torch.device) -> None:
    x = torch.ones(3, 4, device=device)
    for op in (torch.sum, torch.ops.reduce.sum):
        for dim in (1, -2, (0, 3)):
            with pytest.raises(IndexError, match="Dimension out of range"):
                vmap(partial(op, dim=dim))(x)
        with pytest.raises(RuntimeError, match="appears multiple times"):
            vmap(partial(op, dim=(0, 0)))(x)
        with pytest.raises(RuntimeError, match="appears multiple times"):
            vmap(partial(op, dim=(0, -1)))(x)
        with pytest.raises(ValueError, match="in_dim"):
            vmap(op, in_dims=2)(x)
    with pytest.raises(ValueError, match="block_size"):
        vmap(lambda sample: torch.ops.reduce.sum_v7(sample, block_size=3))(x)


def test_out_has_no_batching_rule(device: torch.device) -> None:
    x = torch.ones(3, 4, device=device)
    for op in (torch.sum, torch.ops.reduce.sum):
        with pytest.raises(RuntimeError, match="[Bb]atching rule not implemented"):
            vmap(partial(op, dim=0, out=torch.zeros((), device=device)))(x)


OPS = (
    lambda x: torch.ops.reduce.sum(x),
    lambda x: torch.ops.reduce.sum(x, 0),
    lambda x: torch.ops.reduce.sum_v7(x),
    lambda x: torch.ops.reduce.block_sums_v3(x),
)


@pytest.mark.parametrize("op", OPS, ids=["sum", "sum dim", "sum_v7", "block_sums_v3"])
def test_transforms_agree_with_torch_sum(op, device: torch.device) -> None:  # type: ignore[no-untyped-def]
    x = torch.rand(5, 4, dtype=torch.float64, device=device)
    tangent = torch.rand_like(x)
    reference = {1: lambda t: t.sum(0), 0: torch.sum}[0 if op(x).numel() == 1 else 1]

    def as_reference(t: torch.Tensor) -> torch.Tensor:
        return reference(t).view(op(x).shape)

    for transform in (
        lambda f: grad(lambda t: (f(t) ** 2).sum())(x),
        lambda f: jacrev(lambda t: f(t**2))(x),
        lambda f: jacfwd(lambda t: f(t**2))(x),
        lambda f: hessian(lambda t: (f(t**2) ** 2).sum())(x),
        lambda f: jacrev(jacfwd(lambda t: f(t**3)))(x),
        lambda f: jvp(lambda t: f(t**2), (x,), (tangent,))[1],
        lambda f: vjp(lambda t: f(t**2), x)[1](torch.ones_like(op(x)))[0],
        lambda f: vmap(grad(lambda t: (f(t.sin()) ** 2).sum()))(torch.stack([x, tangent])),
        lambda f: grad(lambda t: vmap(lambda s: (f(s.sin()) ** 2).sum())(t).sum())(torch.stack([x, tangent])),
        lambda f: vmap(lambda s: jvp(lambda t: f(t**2), (s,), (s,))[1])(torch.stack([x, tangent])),
    ):
        torch.testing.assert_close(transform(op), transform(as_reference), rtol=1e-12, atol=1e-12)


def test_per_sample_gradients(device: torch.device) -> None:
    """Of a model whose loss is a rung: the bits of one backward a sample."""
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 3).to(device)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x, y = torch.randn(6, 20, device=device), torch.randint(3, (6,), device=device)

    def loss(parameters: dict[str, torch.Tensor], sample: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        output = functional_call(model, parameters, (sample,))
        picked = (torch.arange(3, device=device) == label) * output.log_softmax(0)
        return reduce_ops.sum_v7(picked) + reduce_ops.sum(output * output, 0)

    actual = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for i in range(6):
        expected = grad(loss)(parameters, x[i], y[i])
        for name in parameters:
            torch.testing.assert_close(actual[name][i], expected[name])
