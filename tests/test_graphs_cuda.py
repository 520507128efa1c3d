"""Training on a busy GPU: CUDA graphs with gradients, streams, allocator reuse, mixed precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import reduce_ops
from support import Model, assert_same_bits, random_values

pytestmark = pytest.mark.gpu

Function = Callable[[torch.Tensor], torch.Tensor]
N = 1_000_003
LONG = 200_000_000  # cycles that a stream stands still: about 0.1 s

each_function = pytest.mark.parametrize(
    "function",
    [
        torch.ops.reduce.sum,
        torch.ops.reduce.sum_v7,
        lambda x: reduce_ops.sum(x.view(-1, 1), 0),
        lambda x: reduce_ops.block_sums(x, 6).square().sum(),
    ],
    ids=["sum", "sum_v7", "sum dim", "block_sums_v6"],
)


def forward_and_backward(function: Function, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = function(x).sum()
    return y.detach(), torch.autograd.grad(y, x)[0]


@each_function
def test_capture_of_forward_and_backward(function: Function) -> None:
    x = random_values(N, torch.float32).cuda().requires_grad_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        forward_and_backward(function, x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, grad = forward_and_backward(function, x)
    for seed in (1, 2):
        with torch.no_grad():
            x.copy_(random_values(N, torch.float32, seed=seed))
        graph.replay()
        expected = forward_and_backward(function, x.detach().clone().requires_grad_())
        assert_same_bits(y, expected[0])
        assert_same_bits(grad, expected[1])


def test_make_graphed_callables() -> None:
    model, reference = Model().cuda(), Model().cuda()
    sample = torch.randn(8, 1000, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    for seed in (1, 2, 3):
        values = random_values(8000, torch.float32, seed=seed).view(8, 1000).cuda()
        results = []
        for function in (graphed, reference):
            x = values.clone().requires_grad_()
            reference.weight.grad = model.weight.grad = None
            y = function(x)
            y.square().sum().backward()
            weight = model.weight if function is graphed else reference.weight
            results.append((y.detach().clone(), x.grad.clone(), weight.grad.clone()))
        for a, e in zip(*results, strict=True):
            assert_same_bits(a, e)


def test_reduce_overhead() -> None:
    model = Model().cuda()
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, mode="reduce-overhead")
    for seed in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        x = random_values(8000, torch.float32, seed=seed).view(8, 1000).cuda()
        results = []
        for function in (compiled, model):
            model.weight.grad = None
            y = function(x)
            y.square().sum().backward()
            results.append((y.detach().clone(), model.weight.grad.clone()))
        for a, e in zip(*results, strict=True):
            # Inductor adds the batch up in another order, and terms may cancel.
            torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-6 * float(e.abs().max()))


@each_function
def test_backward_on_the_stream_of_the_forward(function: Function) -> None:
    values = random_values(N, torch.float32).cuda()
    expected = forward_and_backward(function, values.clone().requires_grad_())
    x = torch.zeros_like(values)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
        x.copy_(values)
        y, grad = forward_and_backward(function, x.requires_grad_())
    torch.cuda.current_stream().wait_stream(side)
    assert_same_bits(y, expected[0])
    assert_same_bits(grad, expected[1])


def test_memory_is_reused_only_when_the_stream_is_done() -> None:
    """record_stream holds the input of a sum that waits on another stream; a new tensor must not get its memory."""
    values = random_values(N, torch.float32).cuda()
    expected = torch.ops.reduce.sum(values)
    side = torch.cuda.Stream()
    x = values.clone()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
        y = torch.ops.reduce.sum(x)
    x.record_stream(side)
    del x
    for _ in range(10):
        torch.zeros_like(values)
    torch.cuda.current_stream().wait_stream(side)
    assert_same_bits(y, expected)


def test_backward_allocates_nothing() -> None:
    x = torch.ones(2**24, device="cuda", requires_grad=True)
    for function in (torch.ops.reduce.sum, torch.ops.reduce.sum_v7):
        y, cotangent = function(x), torch.ones((), device="cuda")
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        (grad,) = torch.autograd.grad(y, x, cotangent)
        assert torch.cuda.max_memory_allocated() == before
        assert grad.stride() == (0,)
