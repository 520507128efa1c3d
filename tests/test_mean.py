"""``reduce::mean``: the sum of the canonical order, divided in the accumulate dtype, in every place where a mean goes.

``python -m reduce_ops verify`` compares more layouts with NumPy (tests/test_verify.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import reduce_ops
from oracle import accumulate_dtype, canonical_sum, result_dtype
from reduce_ops import override_aten
from support import COMPLEX, FLOATS, INTEGERS, assert_same_bits, needs_a_compiler, not_dense, random_values

MEAN = torch.ops.reduce.mean
OTHERS = (*FLOATS, *COMPLEX)


def divided(total: torch.Tensor, n: int, dtype: torch.dtype) -> torch.Tensor:
    """The quotient, in the dtype of the total, rounded to another one: on a CPU, each component on its own."""
    parts = torch.view_as_real(total) if total.is_complex() else total
    quotient = parts / torch.tensor(n, dtype=parts.dtype)
    return (torch.view_as_complex(quotient) if total.is_complex() else quotient).to(dtype)


def expected(
    x: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    x = x.cpu()
    element = dtype or x.dtype
    total = reduce_ops.sum(x.to(element), dim, keepdim, dtype=accumulate_dtype(element))
    return divided(total, x.numel() // total.numel(), dtype or result_dtype(x.dtype))


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_full_means(dtype: torch.dtype, device: torch.device) -> None:
    for n in (1, 2, 3, 33, 257, 1025, 4097, 65_537, 2**20 + 3):
        x = random_values(n, dtype, seed=n)
        total = canonical_sum(x, dtype=accumulate_dtype(dtype))
        assert_same_bits(reduce_ops.mean(x.to(device)), divided(total, n, result_dtype(dtype)), n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.float64], ids=str)
def test_dimensions_and_layouts(dtype: torch.dtype, device: torch.device) -> None:
    for shape in ((300, 129), (5, 4000), (3000, 8), (4, 70_001), (40, 3, 257), (2, 600, 64), (6, 7, 30, 11), (9, 1)):
        x = random_values(torch.Size(shape).numel(), dtype).view(shape).to(device)
        views = [x, x.movedim(0, -1), x[..., ::2], x[:, :, None], x.expand(3, *shape), x.conj()]
        for view in views:
            for dim in (None, 0, -1, (0, -1), list(range(1, view.dim()))):
                for keepdim in (False, True):
                    mean = reduce_ops.mean(view, dim, keepdim)
                    assert_same_bits(mean.resolve_conj(), expected(view, dim, keepdim), (view.shape, dim, keepdim))


def test_the_number_of_elements_is_rounded_first(device: torch.device) -> None:
    """To float32, which does not have 2^24 + 1; the quotient by the number itself has other bits."""
    x = torch.full((1,), 0.8994032280161555, device=device).expand(2**24 + 1)
    total = reduce_ops.sum(x).cpu()
    assert (total.double() / (2**24 + 1)).float() != divided(total, 2**24 + 1, torch.float32)
    assert_same_bits(reduce_ops.mean(x), divided(total, 2**24 + 1, torch.float32))


def test_many_dimensions(device: torch.device) -> None:
    x = random_values(1000, torch.float32).view(*[1] * 69, 1000).to(device)
    assert_same_bits(reduce_ops.mean(x), expected(x.flatten()))


def test_two_launches_count_all_elements(device: torch.device) -> None:
    """Orders across memory leave nodes, which a second launch reads. Its elements are not what is counted."""
    for x in (random_values(2**22, torch.float32).view(1024, 4096).t(), random_values(1 << 20, torch.float16)[::3]):
        assert_same_bits(reduce_ops.mean(x.to(device)), expected(x))
    x = random_values(400_000, torch.float32).view(4, 100, 1000).permute(0, 2, 1)
    assert_same_bits(reduce_ops.mean(x.to(device), (1, 2)), expected(x, (1, 2)))


@pytest.mark.parametrize("target", OTHERS, ids=str)
def test_dtype(target: torch.dtype, device: torch.device) -> None:
    for dtype in (*INTEGERS, *FLOATS, *(COMPLEX if target.is_complex else ())):
        if torch.float8_e4m3fn in (target, dtype) and target != dtype:
            continue  # order 1 has no conversion to it
        x = random_values(1025, dtype).to(device)
        assert_same_bits(reduce_ops.mean(x, dtype=target), expected(x, dtype=target), dtype)


def test_a_mean_does_not_overflow_where_its_sum_would(device: torch.device) -> None:
    x = torch.full((5000,), 65504.0, dtype=torch.float16, device=device)
    assert reduce_ops.mean(x) == 65504
    assert reduce_ops.mean(x.to(torch.complex32)).real == 65504


def test_of_nothing_and_of_special_values(device: torch.device) -> None:
    for dtype in (torch.float16, torch.float32, torch.complex64):
        for mean in (MEAN(torch.empty(0, dtype=dtype, device=device)), MEAN(torch.ones(3, 0, device=device), 1)):
            parts = torch.view_as_real(mean) if mean.is_complex() else mean
            assert parts.isnan().all()
    assert MEAN(torch.ones(0, 3, device=device), 1).shape == (0,)
    inf = float("inf")
    assert MEAN(torch.tensor([inf, 1.0], device=device)) == inf
    assert MEAN(torch.tensor([inf, -inf], device=device)).isnan()
    assert MEAN(torch.full((7,), -0.0, device=device)).signbit()
    smallest = torch.tensor([2.0**-149, 0.0, 0.0], device=device)  # a third of it rounds to 0, three quarters to 1
    assert MEAN(smallest) == 0
    assert MEAN(torch.tensor([3 * 2.0**-149, 0.0, 0.0, 0.0], device=device)) == 2.0**-149


def test_as_torch_mean(device: torch.device) -> None:
    x = random_values(6 * 70 * 8, torch.float64).view(6, 70, 8).to(device)
    for dim in (0, 1, -1, (0, 2), [1], None, ()):
        for keepdim in (False, True):
            torch.testing.assert_close(reduce_ops.mean(x, dim, keepdim), torch.mean(x, dim, keepdim))
    torch.testing.assert_close(MEAN(x.int(), dtype=torch.float32), torch.mean(x.int(), dtype=torch.float32))


def test_out(device: torch.device) -> None:
    x = random_values(600, torch.float32).view(20, 30).to(device)
    out = torch.empty(0, device=device)
    assert reduce_ops.mean(x, 1, out=out) is out
    assert_same_bits(out, expected(x, 1))
    wide = torch.empty((), dtype=torch.float64, device=device)
    assert_same_bits(reduce_ops.mean(x, out=wide), expected(x, dtype=torch.float64))
    apart = torch.empty(30, 2, device=device)[:, 0]
    assert_same_bits(reduce_ops.mean(x, 0, out=apart), expected(x, 0))
    itself = x.clone()
    assert_same_bits(reduce_ops.mean(itself, 0, True, out=itself), expected(x, 0, True))
    with pytest.raises(RuntimeError, match=r"mean\(\).*out="):
        reduce_ops.mean(x.clone().requires_grad_(), out=out)


def test_errors(device: torch.device) -> None:
    x = torch.ones(3, 4, device=device)
    for dtype in INTEGERS:
        with pytest.raises(RuntimeError, match="mean: self is .*; accepted are floating point and complex dtypes, or"):
            MEAN(x.to(dtype))
        with pytest.raises(RuntimeError, match="mean: dtype is .*; accepted are floating point and complex dtypes"):
            MEAN(x, dtype=dtype)
    with pytest.raises(
        RuntimeError, match="mean: out is Long, but self is Float; accepted are floating point and complex"
    ):
        MEAN(x, out=torch.empty(3, dtype=torch.int64, device=device))
    with pytest.raises(RuntimeError, match="mean: expected out to have dtype"):
        MEAN(x, dtype=torch.float64, out=torch.empty((), device=device))
    with pytest.raises(IndexError):
        MEAN(x, 2)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        MEAN(x, (0, -2))
    with pytest.raises(
        RuntimeError, match="mean: dtype is Float, which cannot hold the result of a ComplexFloat tensor"
    ):
        MEAN(x + 1j, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="mean: out is Float, which cannot hold the result of a ComplexFloat tensor"):
        MEAN(x + 1j, out=torch.empty((), device=device))
    with pytest.raises(NotImplementedError, match="mean: out has dtype Float8_e4m3fnuz, which has no sum"):
        MEAN(x, out=torch.empty((), dtype=torch.float8_e4m3fnuz, device=device))
    for tensor in not_dense(device).values():
        with pytest.raises((NotImplementedError, RuntimeError), match="mean: self is"):
            MEAN(tensor)


@pytest.mark.parametrize("dim, keepdim", [(None, False), (0, True), ((0, 2), False), (-1, False)])
def test_derivatives(dim: int | tuple[int, ...] | None, keepdim: bool, device: torch.device) -> None:
    mean = partial(MEAN, dim=dim, keepdim=keepdim)
    for dtype in (torch.float64, torch.complex128):
        x = random_values(60, dtype).view(3, 4, 5).to(device).requires_grad_()
        assert gradcheck(mean, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
        assert gradgradcheck(lambda t: mean(t).square(), x)


def test_gradients_convert(device: torch.device) -> None:
    """The gradient is multiplied in its own dtype, and then converted to that of the input."""
    x = random_values(300, torch.float16).to(device).requires_grad_()
    MEAN(x, dtype=torch.float32).backward()
    assert x.grad is not None and x.grad.dtype == torch.float16
    assert_same_bits(x.grad, (torch.ones(()) / 300).half().expand(300))
    cotangent = random_values(50, torch.float32)
    rows = torch.zeros(50, 300, device=device, requires_grad=True)
    MEAN(rows, 1).backward(cotangent.to(device))
    assert rows.grad is not None
    assert_same_bits(rows.grad, (cotangent * torch.tensor(1 / 300)).unsqueeze(1).expand(50, 300))
    nothing = torch.empty(0, device=device, requires_grad=True)
    MEAN(nothing).backward()
    assert nothing.grad is not None and nothing.grad.shape == (0,)
    real = torch.ones(4, device=device, requires_grad=True)
    MEAN(real, dtype=torch.complex64).real.backward()
    assert real.grad is not None and real.grad.tolist() == [0.25] * 4


def test_tangent(device: torch.device) -> None:
    x, tangent = (random_values(300, torch.float32, seed=seed).to(device) for seed in (1, 2))
    with forward_ad.dual_level():
        mean = forward_ad.unpack_dual(MEAN(forward_ad.make_dual(x, tangent)))
        assert_same_bits(mean.primal, MEAN(x))
        assert mean.tangent is not None
        assert_same_bits(mean.tangent, MEAN(tangent))


def test_vmap(device: torch.device) -> None:
    x = random_values(5 * 6 * 700, torch.float32).view(5, 6, 700).to(device)
    for in_dim in (0, 1, 2):
        for dim in (None, 0, (0, 1)):
            function = partial(reduce_ops.mean, dim=dim)
            samples = torch.stack([function(sample) for sample in x.unbind(in_dim)])
            assert_same_bits(torch.func.vmap(function, in_dims=in_dim)(x), samples)


def test_meta_and_autocast(device: torch.device) -> None:
    x = torch.empty(2, 3, 2**40, device="meta", dtype=torch.bfloat16)
    mean = MEAN(x, (0, 2), True)
    assert mean.shape == (1, 3, 1) and mean.dtype == torch.bfloat16
    assert MEAN(x, dtype=torch.float32).dtype == torch.float32
    with pytest.raises(RuntimeError, match="accepted are floating point"):
        MEAN(x.long())
    halves = torch.ones(4, dtype=torch.float16, device=device)
    with torch.autocast(device.type):
        assert MEAN(halves).dtype == torch.mean(halves).dtype == torch.float16


@pytest.mark.parametrize("arguments", [(), (1,), ((0, 1), True)], ids=str)
def test_opcheck(arguments: tuple[object, ...], device: torch.device) -> None:
    for dtype in (torch.float16, torch.float32, torch.complex64):
        x = random_values(35, dtype).view(5, 7).to(device)
        for leaf in (x, x.clone().requires_grad_()):
            torch.library.opcheck(MEAN.dim_IntList, (leaf, *arguments))
    torch.library.opcheck(MEAN.IntList_out, (x, 0), {"out": torch.zeros(7, dtype=x.dtype, device=device)})


@needs_a_compiler
def test_compile(device: torch.device) -> None:
    torch.compiler.reset()

    @torch.compile(fullgraph=True, dynamic=True)
    def function(x: torch.Tensor) -> torch.Tensor:
        return reduce_ops.mean(x * 2, 1) + reduce_ops.mean(x)

    for shape in ((3, 50), (7, 1000)):
        x = random_values(shape[0] * shape[1], torch.float32).view(shape).to(device).requires_grad_()
        compiled = function(x)
        assert_same_bits(compiled.detach(), (reduce_ops.mean(x * 2, 1) + reduce_ops.mean(x)).detach())
        (grad,) = torch.autograd.grad(compiled.sum(), x)
        torch.testing.assert_close(grad, torch.full_like(grad, 2 / shape[1] + 1 / shape[1]))
    torch.compiler.reset()


def test_export(device: torch.device) -> None:
    class Mean(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return reduce_ops.mean(x, 0)

    x = random_values(300, torch.float32).view(30, 10).to(device)
    program = torch.export.export(Mean(), (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    assert_same_bits(program.module()(x[:7]), reduce_ops.mean(x[:7], 0))


@pytest.mark.gpu
def test_capture() -> None:
    """A graph replays the mean of what its input holds then, also where the kernel is loaded while it is captured."""
    x = random_values(2**18 + 5, torch.bfloat16).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        mean, means = MEAN(x), MEAN(x[: 2**18].view(2**9, 2**9), 0)
    for seed in (3, 4):
        x.copy_(random_values(x.numel(), torch.bfloat16, seed=seed))
        graph.replay()
        assert_same_bits(mean, expected(x))
        assert_same_bits(means, expected(x[: 2**18].view(2**9, 2**9), 0))


def test_override(device: torch.device) -> None:
    x = random_values(512 * 300, torch.float32).view(512, 300).to(device)
    before = torch.mean(x, 1)
    calls = [
        (lambda: torch.mean(x), MEAN(x)),
        (lambda: x.mean(0), MEAN(x, 0)),
        (lambda: x.mean((0, 1), keepdim=True), MEAN(x, (0, 1), True)),
        (lambda: torch.mean(x, 0, out=torch.empty(300, device=device)), MEAN(x, 0)),
        (lambda: torch.mean(x.int(), 0, dtype=torch.float64), MEAN(x.int(), 0, dtype=torch.float64)),
        (lambda: torch.nn.functional.l1_loss(x, torch.zeros_like(x)), MEAN(x.abs())),
    ]
    for operators in ((), ("mean",), ("sum", "mean")):
        with override_aten(*operators):
            for call, wanted in calls:
                assert_same_bits(call(), wanted)
    sums = torch.sum(x, 1)
    with override_aten("sum"):
        assert_same_bits(torch.sum(x, 1), reduce_ops.sum(x, 1))
    with override_aten("mean"):
        assert_same_bits(torch.sum(x, 1), sums)
    assert not torch.equal(sums, reduce_ops.sum(x, 1)), "both are the same, so nothing was tested"
    assert not torch.equal(before, MEAN(x, 1))
    with override_aten("mean"), pytest.raises(RuntimeError):
        torch.mean(x.int())
    assert_same_bits(torch.mean(x, 1), before)
    with pytest.raises(
        ValueError, match="override_aten: operators has 'median'; accepted are 'sum', 'mean', 'nansum',"
    ):
        override_aten("median")


@needs_a_compiler
def test_override_of_compiled_functions(device: torch.device) -> None:
    x = random_values(100_000, torch.float32).view(10, 10_000).to(device)

    @torch.compile
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.mean(x, 1) + x.mean()

    with override_aten("mean"):
        assert_same_bits(function(x), MEAN(x, 1) + MEAN(x))
