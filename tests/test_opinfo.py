"""PyTorch's own sample inputs for ``sum``, as its test suite has them: values, gradients and batches."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch.autograd import gradcheck, gradgradcheck

from oracle import canonical_sum
from support import COMPLEX, DTYPES, FLOATS, assert_same_bits

# PyTorch has no samples of these.
NOT_SAMPLED = (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32)
SAMPLED = tuple(dtype for dtype in DTYPES if dtype not in NOT_SAMPLED)
each_dtype = pytest.mark.parametrize("dtype", SAMPLED, ids=str)


@functools.cache
def op_info() -> Any:
    """PyTorch's of sum. It takes seconds to import, and so is not before a test needs it."""
    methods = pytest.importorskip(
        "torch.testing._internal.common_methods_invocations", reason="PyTorch's own test inputs need more packages"
    )
    settings.load_profile("reduce_ops")  # PyTorch's module has put its own in its place
    return next(info for info in methods.op_db if info.name == "sum" and not info.variant_test_name)


def samples(dtype: torch.dtype, device: torch.device, requires_grad: bool = False) -> Iterator[Any]:
    yield from op_info().sample_inputs(device, dtype, requires_grad=requires_grad)


def operator(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    result: torch.Tensor = torch.ops.reduce.sum(x, *args, **kwargs)
    return result


def test_there_are_samples(device: torch.device) -> None:
    assert len(list(samples(torch.float32, device))) > 5
    assert op_info().dtypes <= set(SAMPLED), op_info().dtypes - set(SAMPLED)


@each_dtype
def test_values(dtype: torch.dtype, device: torch.device) -> None:
    """Those of torch.sum within rounding, and the bits of the canonical order."""
    for sample in samples(dtype, device):
        actual = operator(sample.input, *sample.args, **sample.kwargs)
        expected = torch.sum(sample.input, *sample.args, **sample.kwargs)
        torch.testing.assert_close(actual, expected, equal_nan=True)
        if not sample.args and set(sample.kwargs) <= {"dtype"}:
            assert_same_bits(actual, canonical_sum(sample.input.cpu(), **sample.kwargs).to(device))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradients(dtype: torch.dtype, device: torch.device) -> None:
    assert dtype in (*FLOATS, *COMPLEX)
    for sample in samples(dtype, device, requires_grad=True):

        def function(x: torch.Tensor, sample: Any = sample) -> torch.Tensor:
            return operator(x, *sample.args, **sample.kwargs)

        assert gradcheck(function, (sample.input,), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(function, (sample.input,), check_fwd_over_rev=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64], ids=str)
def test_gradients_have_the_bits_of_torch_sum(dtype: torch.dtype, device: torch.device) -> None:
    for sample in samples(dtype, device, requires_grad=True):
        grads = []
        for function in (torch.sum, operator):
            y = function(sample.input, *sample.args, **sample.kwargs)
            cotangent = torch.linspace(-2, 2, y.numel(), device=device).to(y.dtype).view(y.shape)
            grads.append(torch.autograd.grad(y, sample.input, cotangent)[0])
        assert_same_bits(grads[1], grads[0])


@each_dtype
def test_batches(dtype: torch.dtype, device: torch.device) -> None:
    for sample in samples(dtype, device):
        batch = torch.stack([sample.input, sample.input * 1])

        def function(x: torch.Tensor, sample: Any = sample) -> torch.Tensor:
            return operator(x, *sample.args, **sample.kwargs)

        assert_same_bits(torch.func.vmap(function)(batch), torch.stack([function(x) for x in batch]))


@each_dtype
def test_out(dtype: torch.dtype, device: torch.device) -> None:
    for sample in samples(dtype, device):
        expected = operator(sample.input, *sample.args, **sample.kwargs)
        out = torch.empty_like(expected)
        assert operator(sample.input, *sample.args, **sample.kwargs, out=out) is out
        assert_same_bits(out, expected)
