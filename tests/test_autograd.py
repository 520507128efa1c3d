"""Derivatives: backward, double backward, forward mode, and what torch.sum does about all of it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.autograd.forward_ad as fw
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

import oracle
from reduce_ops import Rung
from support import (
    Model,
    assert_same_bits,
    each_rung,
    each_sized_rung,
    in_threads,
    ladder_block_sums,
    ladder_sum,
    random_values,
)

Function = Callable[[torch.Tensor], torch.Tensor]

DIMS: tuple[tuple[int | tuple[int, ...] | None, bool], ...] = (
    *((None, False), (None, True), (0, False), (1, True), (-1, False), ((0, 2), False), ((2, 0), True), ((), False)),
)
each_dims = pytest.mark.parametrize("dim, keepdim", DIMS)
each_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)


def values(*shape: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, dtype=dtype, generator=generator).to(device).requires_grad_()


def check(function: Function, x: torch.Tensor) -> None:
    """First and second derivatives, backward and forward, against differences; vmapped too."""
    options = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(function, (x,), **options)
    assert gradgradcheck(function, (x,), check_fwd_over_rev=True, check_rev_over_rev=True)


@each_dtype
@each_dims
def test_sum(dim: int | None, keepdim: bool, dtype: torch.dtype, device: torch.device) -> None:
    check(lambda x: torch.ops.reduce.sum(x, dim, keepdim) ** 2, values(3, 2, 4, dtype=dtype, device=device))


def test_sum_default(device: torch.device) -> None:
    check(lambda x: torch.ops.reduce.sum.default(x) ** 2, values(3, 4, device=device))
    check(lambda x: torch.ops.reduce.sum.default(x) ** 2, values(device=device))


@each_sized_rung
def test_rungs(rung: Rung, block_size: int, device: torch.device) -> None:
    for n in (0, 1, 5):
        check(lambda x: ladder_sum(rung, x, None, block_size) ** 2, values(n, 2, device=device))
        check(lambda x: ladder_block_sums(rung, x, None, block_size) ** 2, values(n, 2, device=device))
    check(lambda x: ladder_sum(rung, x, None, block_size) ** 2, values(3, dtype=torch.complex128, device=device))
    check(lambda x: ladder_block_sums(rung, x, None, block_size) ** 2, values(3, dtype=torch.complex128, device=device))


@each_sized_rung
@pytest.mark.parametrize("n", [1, 255, 256, 257, 3000, 2**18 + 3, 2**20 + 1])
def test_gradient_of_block_sums_goes_to_the_elements_of_the_block(
    rung: Rung, block_size: int, n: int, device: torch.device
) -> None:
    x = random_values(n, torch.float32, seed=n).to(device).requires_grad_()
    sums = ladder_block_sums(rung, x, None, block_size)
    cotangent = torch.arange(1.0, len(sums) + 1, device=device)
    (grad,) = torch.autograd.grad(sums, x, cotangent)
    block = block_size * oracle.elements_per_thread(rung.number, n, block_size)
    assert_same_bits(grad, cotangent.repeat_interleave(block)[:n])


@each_dims
def test_gradients_have_the_bits_of_torch_sum(dim: int | None, keepdim: bool, device: torch.device) -> None:
    for x in (
        values(3, 2, 4, device=device),
        values(4, 2, 3, device=device).transpose(0, 2),
        values(5, 3, 2, device=device)[::2],
    ):
        grads = []
        for function in (torch.sum, torch.ops.reduce.sum):
            y = function(x, dim, keepdim)
            cotangent = torch.arange(1.0, y.numel() + 1, dtype=y.dtype, device=device).view(y.shape)
            grads.append(torch.autograd.grad(y, x, cotangent)[0])
        assert_same_bits(grads[1], grads[0])
        assert grads[1].stride() == grads[0].stride()


class Allocations(TorchDispatchMode):
    """Names the operators that ran and, of those, the ones whose result is not a view of what they took."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []
        self.allocated: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        self.ran.append(func.name())
        storages = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        if result.untyped_storage().data_ptr() not in storages:
            self.allocated.append(func.name())
        return result


@pytest.mark.parametrize("function", [torch.ops.reduce.sum, torch.ops.reduce.sum_v7], ids=str)
def test_backward_of_a_full_sum_is_one_expanded_view(function: Function, device: torch.device) -> None:
    x = values(1000, 1000, dtype=torch.float32, device=device)
    y = function(x)
    cotangent = torch.ones((), device=device)
    with Allocations() as operators:
        (grad,) = torch.autograd.grad(y, x, cotangent)
    assert operators.ran == ["aten::expand"]
    assert operators.allocated == []
    assert grad.shape == x.shape and grad.stride() == (0, 0)
    assert grad.data_ptr() == cotangent.data_ptr()


@pytest.mark.parametrize("function", [torch.ops.reduce.sum, torch.ops.reduce.sum_v7], ids=str)
def test_gradient_is_converted_before_it_is_expanded(function: Function, device: torch.device) -> None:
    x = values(1000, dtype=torch.float16, device=device)
    (grad,) = torch.autograd.grad(function(x, dtype=torch.float32), x)
    assert grad.dtype == torch.float16
    assert grad.stride() == (0,) and grad.untyped_storage().nbytes() == 2


@pytest.mark.parametrize("function", [torch.ops.reduce.sum, torch.ops.reduce.sum_v0, torch.ops.reduce.block_sums_v7])
def test_dtype_conversions(function: Function, device: torch.device) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.complex64):
        for target in (torch.float64, torch.complex64, torch.complex128):
            if dtype.is_complex and not target.is_complex:
                continue
            x = values(4, dtype=torch.float32, device=device).detach().to(dtype).requires_grad_()
            y = function(x, dtype=target).sum()
            (grad,) = torch.autograd.grad(
                y, x, torch.tensor(2 + (1j if target.is_complex else 0), dtype=target).to(device)
            )
            expected = 2 + 1j if dtype.is_complex else 2
            assert_same_bits(grad, torch.full((4,), expected, dtype=dtype, device=device))


def test_float8_has_a_gradient(device: torch.device) -> None:
    x = torch.ones(5, device=device).to(torch.float8_e5m2).requires_grad_()
    (grad,) = torch.autograd.grad(torch.ops.reduce.sum(x), x)
    assert grad.dtype == x.dtype and (grad.float() == 1).all()


@each_rung
def test_integer_results_have_no_gradient(rung: Rung, device: torch.device) -> None:
    integers = torch.arange(5, device=device)
    for y in (ladder_sum(rung, integers), ladder_block_sums(rung, integers), torch.ops.reduce.sum(integers)):
        assert not y.requires_grad
        with pytest.raises(RuntimeError, match="does not require grad"):
            y.sum().backward()


@each_rung
def test_no_gradient_is_dropped(rung: Rung, device: torch.device) -> None:
    """A sum of integers that would need one is the error of torch.sum."""
    floats = torch.ones(5, device=device, requires_grad=True)
    calls: tuple[Function, ...] = (
        lambda x: ladder_sum(rung, x, torch.int64),
        lambda x: torch.ops.reduce.sum(x, dtype=torch.int64),
        lambda x: torch.ops.reduce.sum(x, 0, dtype=torch.int32),
        lambda x: torch.sum(x, dtype=torch.int64),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match="Autograd not support dtype: "):
            call(floats)
        with torch.no_grad():
            assert call(floats) == 5


def test_integer_results_have_no_tangent(device: torch.device) -> None:
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(3, device=device), torch.ones(3, device=device))
        assert fw.unpack_dual(torch.ops.reduce.sum(dual, dtype=torch.int64)).tangent is None


def test_wrong_shape_of_a_cotangent(device: torch.device) -> None:
    x = values(3, 4, device=device)
    for y in (torch.ops.reduce.sum(x), torch.ops.reduce.sum_v7(x), torch.ops.reduce.block_sums_v7(x)):
        errors = []
        for result in (y, torch.sum(x)):
            with pytest.raises(RuntimeError, match="Mismatch in shape") as error:
                torch.autograd.grad(result, x, torch.ones(7, device=device), retain_graph=True)
            errors.append(error.type)
        assert errors[0] is errors[1]


def test_tangent_is_the_sum_of_the_tangent(device: torch.device) -> None:
    x, tangent = (random_values(3000, torch.float32, seed=seed).to(device) for seed in (1, 2))
    for function in (torch.ops.reduce.sum, torch.ops.reduce.sum_v3, torch.ops.reduce.block_sums_v8):
        with fw.dual_level():
            primal, actual = fw.unpack_dual(function(fw.make_dual(x, tangent)))
            assert_same_bits(primal, function(x))
            assert_same_bits(actual, function(tangent))


def test_out_has_no_gradient(device: torch.device) -> None:
    x = values(3, 4, device=device)
    out = torch.zeros((), dtype=x.dtype, device=device)
    full = torch.ops.reduce.sum.out
    for function in (lambda x, out: torch.sum(x, (), out=out), full, torch.ops.reduce.sum.IntList_out):
        for a, b in ((x, out), (x.detach(), out.clone().requires_grad_())):
            with pytest.raises(RuntimeError, match="out=... arguments don't support automatic differentiation"):
                function(a, out=b)
        with fw.dual_level(), pytest.raises(NotImplementedError, match="out="):
            function(fw.make_dual(x.detach(), x.detach()), out=out)
    with torch.no_grad():
        torch.ops.reduce.sum(x, out=out)
    assert_same_bits(out, torch.ops.reduce.sum(x).detach())


def test_a_write_to_out_is_noticed(device: torch.device) -> None:
    a = values(3, device=device)
    for function in (torch.ops.reduce.sum.out, torch.ops.reduce.sum.IntList_out):
        saved = torch.ones((), dtype=a.dtype, device=device)
        product = (a * saved).sum()
        function(a.detach(), out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_no_grad_and_inference_mode(device: torch.device) -> None:
    x = values(3, 4, device=device)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            for y in (torch.ops.reduce.sum(x, 0), torch.ops.reduce.sum_v7(x), torch.ops.reduce.block_sums_v7(x)):
                assert not y.requires_grad
                assert y.is_inference() == torch.is_inference_mode_enabled()
    with torch.inference_mode():
        y = torch.ops.reduce.sum(x.detach(), out=torch.empty((), dtype=x.dtype, device=device))
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        y.requires_grad_()


def test_undefined_gradients_and_hooks(device: torch.device) -> None:
    x = values(3, device=device)
    y = torch.ops.reduce.sum(x)
    y.register_hook(lambda grad: grad * 3)
    (y + torch.ops.reduce.sum(x.detach())).backward()
    assert x.grad is not None and (x.grad == 3).all()
    assert "ReduceSumBackward" in y.grad_fn.name()


def test_deep_copy(device: torch.device) -> None:
    model = Model().to(device)
    x = torch.rand(2, 1000, device=device)
    model(x).sum().backward()
    twin = copy.deepcopy(model)
    twin(x).sum().backward()
    assert twin.weight.grad is not None and model.weight.grad is not None
    assert_same_bits(twin(x).detach(), model(x).detach())
    assert_same_bits(twin.weight.grad, model.weight.grad)


def test_backward_in_many_threads(device: torch.device) -> None:
    """One graph, four threads, each with its own gradients."""
    x = values(1000, device=device)
    expected = torch.autograd.grad(torch.ops.reduce.sum(x * x), x)[0]
    y = torch.ops.reduce.sum(x * x)
    grads: list[torch.Tensor] = []

    def work(_: int) -> None:
        for _ in range(20):
            grads.append(torch.autograd.grad(y, x, retain_graph=True)[0])

    in_threads(work, 4)
    assert len(grads) == 80
    for grad in grads:
        assert_same_bits(grad, expected)


def test_a_long_graph_is_freed_without_overflowing_the_stack(device: torch.device) -> None:
    x = torch.ones(1, device=device, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = torch.ops.reduce.sum.dim_IntList(y, 0, True)
    del y
    assert x.grad is None
