"""torch.compile, opcheck and export: the bits of eager mode, one graph for all sizes, no graph breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import reduce_ops
from reduce_ops import LADDER
from support import assert_same_bits, needs_a_compiler, random_values

OPS = torch.ops.reduce
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
"""All that opcheck has."""
Function = Callable[..., torch.Tensor]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def every_operator() -> list[tuple[torch._ops.OpOverload, tuple[object, ...]]]:
    """All operators, with what they take after self."""
    rungs = [getattr(OPS, f"{kind}_v{rung.number}").default for rung in LADDER for kind in ("sum", "block_sums")]
    result = [(op, ()) for op in [OPS.sum.default, *rungs]]
    result += [(OPS.sum.dim_IntList, arguments) for arguments in ((), (1,), ((0, 1), True))]
    result += [(op, (7,)) for op in (OPS._sums_of_rows.default, OPS._block_sums_of_rows.default)]
    return result


@pytest.mark.parametrize("op, arguments", every_operator(), ids=str)
def test_opcheck_on_every_kind_of_dtype(
    op: torch._ops.OpOverload, arguments: tuple[object, ...], device: torch.device
) -> None:
    """Schema, autograd registration, fake kernel, and forward and backward as torch.compile traces them."""
    for dtype in (torch.bool, torch.int32, torch.float8_e5m2, torch.float16, torch.float32, torch.complex64):
        x = random_values(35, dtype).view(5, 7).to(device)
        float8 = dtype.is_floating_point and dtype.itemsize == 1
        # The check of the schema compares tensors with allclose, which PyTorch does not have for float8.
        checks = CHECKS[1:] if float8 else CHECKS
        torch.library.opcheck(op, (x, *arguments), test_utils=checks)
        if dtype.is_floating_point or dtype.is_complex:
            torch.library.opcheck(op, (x.clone().requires_grad_(), *arguments), test_utils=checks)
    x = torch.ones(5, 7, device=device, requires_grad=True)
    torch.library.opcheck(op, (x.t(), *arguments), {"dtype": torch.complex128})


@pytest.mark.parametrize("op, arguments, shape", [(OPS.sum.out, {}, ()), (OPS.sum.IntList_out, {"dim": 0}, (7,))])
def test_opcheck_of_out(
    op: torch._ops.OpOverload, arguments: dict[str, object], shape: tuple[int, ...], device: torch.device
) -> None:
    for dtype in (torch.float32, torch.int64, torch.complex64):
        x = random_values(35, dtype).view(5, 7).to(device)
        out = torch.zeros(shape, dtype=dtype, device=device)
        torch.library.opcheck(op, (x,), {"out": out, **arguments})


def compiled_and_counted(function: Function, **options: object) -> tuple[Function, CompileCounterWithBackend]:
    counter = CompileCounterWithBackend("inductor")
    return torch.compile(function, fullgraph=True, backend=counter, **options), counter


def every_sum(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of x itself: what Inductor computes around a sum need not have eager mode's bits."""
    return (
        OPS.sum(x),
        reduce_ops.sum(x, 0, dtype=torch.float64),
        OPS.sum_v3(x),
        reduce_ops.sum_v7(x, block_size=128),
        OPS.block_sums_v2(x),
        OPS.block_sums_v8(x),
    )


@needs_a_compiler
def test_inductor_forward_and_backward_at_all_sizes(device: torch.device) -> None:
    """One graph, without a break, for all sizes."""
    compiled, counter = compiled_and_counted(every_sum, dynamic=True)
    for n in (3000, 40_000, 700_001):
        x = random_values(n, torch.float32, seed=n).to(device).requires_grad_()
        actual, expected = compiled(x), every_sum(x)
        for a, e in zip(actual, expected, strict=True):
            assert_same_bits(a.detach(), e.detach(), n)
        cotangents = [torch.linspace(1, 2, e.numel(), dtype=e.dtype, device=device).view(e.shape) for e in expected]
        grads = [torch.autograd.grad(results, x, cotangents)[0] for results in (actual, expected)]
        torch.testing.assert_close(*grads)
    assert counter.frame_count == 1


@needs_a_compiler
def test_dims_and_layouts_through_inductor(device: torch.device) -> None:
    """Nothing is said about dynamic shapes: the first new size makes the only new graph."""
    compiled, counter = compiled_and_counted(lambda x: (reduce_ops.sum(x, -1), OPS.sum(x.t(), 0, True), OPS.sum(x)))
    for rows in (3, 40, 7, 500):
        x = random_values(rows * 300, torch.bfloat16, seed=rows).view(300, rows).t().to(device)
        for actual, expected in zip(
            compiled(x), (reduce_ops.sum(x, -1), OPS.sum(x.t(), 0, True), OPS.sum(x)), strict=True
        ):
            assert_same_bits(actual, expected)
    assert counter.frame_count == 2


def test_vmap_grad_and_out_compile(device: torch.device) -> None:
    def function(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        OPS.sum(x, 0, out=out)
        per_sample = torch.func.vmap(torch.func.grad(lambda s: OPS.sum_v7(s * s) + OPS.sum(s * 3)))(x)
        return per_sample, torch.func.vmap(OPS.block_sums_v6)(x), out + 1

    x = random_values(3000, torch.float32).view(3, 1000).to(device)
    out, expected_out = torch.zeros(1000, device=device), torch.zeros(1000, device=device)
    actual = torch.compile(function, fullgraph=True, backend="aot_eager")(x, out)
    for a, e in zip((*actual, out), (*function(x, expected_out), expected_out), strict=True):
        assert_same_bits(a, e)


@pytest.mark.parametrize(
    "op", [torch.sum, OPS.sum, OPS.sum_v7, OPS.sum_exact], ids=["torch.sum", "sum", "sum_v7", "sum_exact"]
)
def test_export_of_a_dtype_without_sums(op: Function, device: torch.device) -> None:
    """What has no sum has one in a graph of shapes and dtypes, and is the error of eager mode when that runs."""

    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return op(x)

    x = torch.empty(8, dtype=torch.float8_e8m0fnu, device=device)
    words = None if op is torch.sum else "self has dtype Float8_e8m0fnu, which has no sum; accepted are bool"
    for strict in (False, True):
        exported = torch.export.export(Sum(), (x,), strict=strict).module()
        for sum_ in (op, exported):
            with pytest.raises(NotImplementedError, match=words):
                sum_(x)
