"""``override_aten``: what it reaches, that it always ends, and which bits of a training it makes equal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional

import reduce_ops
from reduce_ops import override, override_aten, set_override_aten
from support import assert_same_bits, needs_a_compiler, random_values

ROWS, COLUMNS = 512, 300


PROBE = random_values(1_000_000, torch.float32).view(100, 10_000)
"""A hundred sums, of which another order of addition rounds some differently."""


@pytest.fixture(autouse=True)
def aten_is_restored() -> Iterator[None]:
    before = torch.sum(PROBE, 1)
    assert not overridden()
    yield
    assert_same_bits(torch.sum(PROBE, 1), before)


def overridden() -> bool:
    return torch.equal(torch.sum(PROBE, 1), reduce_ops.sum(PROBE, 1))


def values(seed: int = 0) -> torch.Tensor:
    return random_values(ROWS * COLUMNS, torch.float32, seed=seed).view(ROWS, COLUMNS)


def test_every_way_to_call_a_sum(device: torch.device) -> None:
    x = values().to(device)
    total, columns = reduce_ops.sum(x), reduce_ops.sum(x, 0)
    calls: list[tuple[Callable[[], torch.Tensor], torch.Tensor]] = [
        (lambda: torch.sum(x), total),
        (lambda: x.sum(), total),
        (lambda: x.t().sum((0, 1)), reduce_ops.sum(x.t())),
        (lambda: torch.sum(x, 0), columns),
        (lambda: x.sum((0,), keepdim=True), columns.unsqueeze(0)),
        (lambda: torch.sum(x, dtype=torch.float64), reduce_ops.sum(x, dtype=torch.float64)),
        (lambda: torch.sum(x, 0, out=torch.empty(COLUMNS, device=device)), columns),
        (lambda: x.sum_to_size(1, COLUMNS), columns.unsqueeze(0)),
        (lambda: functional.mse_loss(x, torch.zeros_like(x), reduction="sum"), reduce_ops.sum(x * x)),
        (lambda: functional.l1_loss(x, torch.zeros_like(x), reduction="sum"), reduce_ops.sum(x.abs())),
        (lambda: torch.func.vmap(torch.sum)(x), reduce_ops.sum(x, 1)),
        (lambda: torch.sum((x * (1 + 1j)).conj(), 0), reduce_ops.sum((x * (1 + 1j)).conj(), 0)),
        (lambda: torch.sum(-x.to(torch.complex64).conj().imag, 0), torch.zeros(COLUMNS, device=device)),
        (lambda: (x > 0).sum(1), reduce_ops.sum(x > 0, 1)),
    ]
    with override_aten():
        for call, expected in calls:
            assert_same_bits(call().resolve_conj(), expected.resolve_conj())


def test_an_interrupt_while_entering_restores_aten(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    x = values()
    before = torch.sum(x)
    with monkeypatch.context() as patch:
        patch.setattr(override, "_drop_compiled_functions", interrupt)
        with pytest.raises(KeyboardInterrupt), override_aten():
            pass
    assert_same_bits(torch.sum(x), before)
    with override_aten():
        assert_same_bits(torch.sum(x), reduce_ops.sum(x))
    assert_same_bits(torch.sum(x), before)


@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_errors_and_odd_cases_stay_those_of_torch_sum(device: torch.device) -> None:
    with override_aten():
        with pytest.raises(IndexError):
            torch.sum(torch.ones(3, device=device), 1)
        with pytest.raises(RuntimeError, match="dtype"):
            torch.sum(torch.ones(3, device=device), 0, dtype=torch.float64, out=torch.empty((), device=device))
        with pytest.raises(NotImplementedError):
            torch.sum(torch.empty(8, dtype=torch.bits8, device=device))
        assert torch.sum(torch.full((3,), 2 + 1j, device=device), dtype=torch.float32) == 6
        as_real = torch.empty((), device=device)
        assert torch.sum(torch.full((3,), 2 + 1j, device=device), 0, out=as_real) is as_real and as_real == 6
        assert torch.sum(torch.empty(0, 3, device=device), 0).tolist() == [0, 0, 0]
        assert torch.ones(2, 3).to_sparse().sum() == 6


def test_gradients_of_broadcasts(device: torch.device) -> None:
    x, cotangent = values(1).to(device), values(2).to(device)
    bias = torch.zeros(COLUMNS, device=device, requires_grad=True)
    scale = torch.ones((), device=device, requires_grad=True)
    with override_aten():
        ((x + bias) * scale).backward(cotangent)
    assert bias.grad is not None and scale.grad is not None
    assert_same_bits(bias.grad, reduce_ops.sum(cotangent, 0))
    assert_same_bits(scale.grad, reduce_ops.sum(cotangent * x))


def test_every_thread(device: torch.device) -> None:
    x = values().to(device)
    results = []
    with override_aten():
        thread = threading.Thread(target=lambda: results.append(torch.sum(x)))
        thread.start()
        thread.join()
    assert_same_bits(results[0], reduce_ops.sum(x))


class Affine(torch.nn.Module):
    """A model whose only sums are its loss and the gradients of its broadcasts."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, COLUMNS))
        self.bias = torch.nn.Parameter(torch.zeros(COLUMNS))

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(torch.tanh(x * self.scale + self.bias), target, reduction="sum")


Batches = Callable[[torch.Tensor], list[torch.Tensor]]


def train(batches: Batches, device: torch.device, *, compiled: bool = False) -> dict[str, torch.Tensor]:
    """Four steps, the gradients of a step accumulated over its batches."""
    model = Affine().to(device)
    step = torch.compile(model, fullgraph=True) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(4):
        x, target = (torch.randn(ROWS, COLUMNS, generator=generator).to(device) for _ in range(2))
        optimizer.zero_grad()
        parts = [step(a, b) for a, b in zip(batches(x), batches(target), strict=True)]
        for part in parts:
            part.backward()
        losses.append(torch.stack([part.detach() for part in parts]).sum())
        optimizer.step()
    return {"losses": torch.stack(losses)} | {name: p.detach() for name, p in model.named_parameters()}


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> dict[str, bool]:
    return {name: torch.equal(a[name], b[name]) for name in a}


WHOLE: Batches = lambda x: [x]  # noqa: E731
HALVES: Batches = lambda x: list(x.chunk(2))  # noqa: E731
STRIDED: Batches = lambda x: [torch.empty(COLUMNS, ROWS, device=x.device).t().copy_(x)]  # noqa: E731
MISALIGNED: Batches = lambda x: [torch.empty(ROWS, COLUMNS + 1, device=x.device)[:, 1:].copy_(x)]  # noqa: E731


def test_which_bits_of_a_training_are_equal(device: torch.device) -> None:
    """At other strides: all of them. In two halves: the weights, as a half of 2^k rows is a subtree of every column.

    The losses are sums over rows and columns; half of 512 x 300 elements is no subtree, so theirs may differ.
    """
    plain = train(WHOLE, device)
    with override_aten():
        whole, halves, strided, misaligned = (
            train(batches, device) for batches in (WHOLE, HALVES, STRIDED, MISALIGNED)
        )
    assert equal(whole, strided) == {"losses": True, "scale": True, "bias": True}
    assert equal(whole, misaligned) == {"losses": True, "scale": True, "bias": True}
    assert equal(whole, halves) | {"losses": True} == {"losses": True, "scale": True, "bias": True}
    if device.type == "cpu":  # which aten's sums do not give, there at least
        assert not all(equal(plain, train(HALVES, device)).values())
    for name in whole:
        torch.testing.assert_close(whole[name], plain[name], rtol=1e-4, atol=1e-4)


@needs_a_compiler
def test_compiled_functions_follow(device: torch.device) -> None:
    """Also one that was compiled before, and that is then used again after."""

    def function(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + bias
        return y.sum(), functional.mse_loss(y, torch.zeros_like(y), reduction="sum"), y.sum(0)

    def run(function: Callable[..., tuple[torch.Tensor, ...]]) -> list[torch.Tensor]:
        x, bias = values(1).to(device), values(2)[0].to(device).requires_grad_()
        results = function(x, bias)
        gradients = torch.autograd.grad(results[1] + results[2].sum(), bias)
        return [t.detach() for t in (*results, *gradients)]

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True)
    before = run(compiled)
    with override_aten():
        for actual, expected in zip(run(compiled), run(function), strict=True):
            assert_same_bits(actual, expected)
        y = values(1).to(device) + values(2)[0].to(device)
        assert_same_bits(run(compiled)[0], reduce_ops.sum(y))
    columns = reduce_ops.sum(y, 0)
    for results in (before, run(compiled)):
        torch.testing.assert_close(results[2], columns, rtol=1e-4, atol=1e-2)
        assert not torch.equal(results[2], columns)


def test_an_exception_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), override_aten():
        _ = 1 / (overridden() - 1)
    assert not overridden()


def test_entered_twice() -> None:
    context = override_aten()
    for other in (override_aten(), context):
        with context:
            with pytest.raises(RuntimeError, match="overridden already"), other:
                pass
            with pytest.raises(RuntimeError, match="overridden already"):
                set_override_aten(True)
            assert overridden()
        assert not overridden()


def test_left_out_of_order() -> None:
    first, second = override_aten(), override_aten()
    with pytest.raises(RuntimeError, match="left"):
        first.__exit__(None, None, None)
    with first:
        with pytest.raises(RuntimeError, match="left"):
            second.__exit__(None, None, None)
        with pytest.raises(RuntimeError, match="left"):
            set_override_aten(False)
        assert overridden()
    assert not overridden()
    with pytest.raises(RuntimeError, match="left"):
        first.__exit__(None, None, None)
    assert not overridden()


def test_switch() -> None:
    set_override_aten(True)
    try:
        assert overridden()
        with pytest.raises(RuntimeError, match="overridden already"):
            set_override_aten(True)
        with pytest.raises(RuntimeError, match="overridden already"), override_aten():
            pass
        assert overridden()
    finally:
        set_override_aten(False)
    assert not overridden()
    with pytest.raises(RuntimeError, match="left"):
        set_override_aten(False)


def test_a_pass_of_the_users_runs_first_and_comes_back() -> None:
    from torch._inductor import config

    def users(graph: torch.fx.Graph) -> None:
        del graph

    config.post_grad_custom_pre_pass = users
    try:
        with override_aten():
            assert config.post_grad_custom_pre_pass is not users
            assert config.post_grad_custom_pre_pass.uuid() is None  # so that nothing is cached that depends on `users`
        assert config.post_grad_custom_pre_pass is users
    finally:
        config.post_grad_custom_pre_pass = None


def test_in_a_compiled_function(device: torch.device) -> None:
    x = values().to(device)

    def in_a_context(t: torch.Tensor) -> torch.Tensor:
        with override_aten():
            return (t * 2).sum(1)

    def by_the_switch(t: torch.Tensor) -> torch.Tensor:
        set_override_aten(True)
        t = (t * 2).sum(1)
        set_override_aten(False)
        return t

    for function in (in_a_context, by_the_switch):
        for backend in ("eager", "inductor"):
            assert_same_bits(torch.compile(function, backend=backend)(x), reduce_ops.sum(x * 2, 1))
            assert not overridden()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(in_a_context, backend="eager", fullgraph=True)(x)
    assert not overridden()
    with override_aten():  # nothing is left of the call that failed
        assert overridden()
