"""Mixed precision: the dtypes that torch.sum has under autocast, and training with a GradScaler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import reduce_ops
from reduce_ops import Rung
from support import DTYPES, assert_same_bits, each_rung, ladder_block_sums, ladder_sum, random_values

Function = Callable[..., torch.Tensor]

SUMMED_BY_TORCH = tuple(d for d in DTYPES if d not in (torch.uint16, torch.uint32, torch.uint64, torch.complex32))


@contextlib.contextmanager
def autocast_to_cuda() -> Iterator[None]:
    """As torch.autocast("cuda"), which without a GPU switches itself off."""
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize("dtype", SUMMED_BY_TORCH, ids=str)
def test_dtypes_on_cuda(dtype: torch.dtype) -> None:
    """With fake tensors, so that it runs without a GPU."""
    with FakeTensorMode(), autocast_to_cuda():
        x = torch.empty(3, 4, dtype=dtype, device="cuda")
        for arguments in ((), (0,), ((0, 1), True)):
            assert torch.ops.reduce.sum(x, *arguments).dtype == torch.sum(x, *arguments).dtype
        assert torch.ops.reduce.sum.default(x).dtype == torch.sum(x).dtype
        assert torch.ops.reduce.sum(x, dtype=torch.complex128).dtype == torch.complex128


@each_rung
def test_dtypes_of_rungs_on_cuda(rung: Rung) -> None:
    with FakeTensorMode(), autocast_to_cuda():
        for dtype in SUMMED_BY_TORCH:
            x = torch.empty(3, 4, dtype=dtype, device="cuda")
            assert ladder_sum(rung, x).dtype == torch.sum(x).dtype
        half = torch.empty(300, dtype=torch.float16, device="cuda")
        assert ladder_block_sums(rung, half).dtype == torch.float32
        assert ladder_sum(rung, half, torch.float64).dtype == torch.float64


@pytest.mark.parametrize("dtype", SUMMED_BY_TORCH, ids=str)
def test_dtypes_on_the_cpu(dtype: torch.dtype) -> None:
    x = random_values(12, dtype).view(3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if not (dtype.is_floating_point and dtype.itemsize == 1):  # which torch.sum does not add on a CPU
            assert torch.ops.reduce.sum(x).dtype == torch.sum(x).dtype
            assert torch.ops.reduce.sum(x, 0).dtype == torch.sum(x, 0).dtype
            assert torch.ops.reduce.sum_v7(x).dtype == torch.sum(x).dtype
        assert_same_bits(torch.ops.reduce.sum(x), reduce_ops.sum_v0(x))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_elements_are_added_in_float32_on_cuda(dtype: torch.dtype) -> None:
    x = random_values(100_003, dtype).cuda().requires_grad_()
    with torch.autocast("cuda", dtype=dtype):
        for function in (torch.ops.reduce.sum, torch.ops.reduce.sum_v7):
            y = function(x)
            assert_same_bits(y.detach(), function(x.detach(), dtype=torch.float32))
            (grad,) = torch.autograd.grad(y, x)
            assert grad.dtype == dtype and grad.stride() == (0,)


def test_training_with_a_grad_scaler(device: torch.device) -> None:
    """Steps are those of the same training with torch.sum; a step whose gradient overflows is left out."""
    amp_dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    weights = []
    for total in (torch.sum, torch.ops.reduce.sum, torch.ops.reduce.sum_v7):
        torch.manual_seed(0)
        model = torch.nn.Linear(32, 8).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler(device.type, init_scale=8.0, growth_interval=2)
        x, target = torch.randn(64, 32, device=device), torch.randn(64, 8, device=device)
        scales = []
        for step in range(6):
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=amp_dtype):
                loss = total((model(x * (torch.inf if step == 3 else 1)) - target) ** 2)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        assert scales[2] > scales[3] < scales[5]
        assert all(parameter.isfinite().all() for parameter in model.parameters())
        weights.append(model.weight.detach())
    for weight in weights[1:]:
        torch.testing.assert_close(weight, weights[0], rtol=1e-3, atol=1e-4)


def test_autocast_compiles(device: torch.device) -> None:
    x = random_values(1000, torch.bfloat16).to(device)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return torch.ops.reduce.sum(x), torch.ops.reduce.sum_v7(x), reduce_ops.sum(x, 0)

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for actual, expected in zip(compiled(x), function(x), strict=True):
        assert_same_bits(actual, expected)
