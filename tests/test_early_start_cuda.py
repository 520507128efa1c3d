"""Kernels that may start while the kernel ahead of them on the stream still ends wait for what that one writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import reduce_ops
from support import assert_same_bits

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
grid_control = pytest.importorskip("triton.language.extra.cuda")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_capability()[0] != 9,
        reason="kernels start early on Hopper alone",
    ),
]


@triton.jit
def fill_late(x, n, value, turns, block: tl.constexpr):
    """Let the next kernel start at once, and store long after that."""
    grid_control.gdc_launch_dependents()
    late = value * 0.5
    for _ in range(turns):
        late = late * 0.5 + value * 0.5
    for first in range(tl.program_id(0) * block, n, tl.num_programs(0) * block):
        i = first + tl.arange(0, block)
        tl.store(x + i, late, mask=i < n)


Dims = int | tuple[int, ...] | None

SUMS: dict[str, tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor], Dims]] = {
    "rows, one block": ((1000,), lambda x: x, None),
    "rows, many blocks": ((2**20,), lambda x: x, None),
    "rows, misaligned": ((2**20,), lambda x: x[1:], None),
    "rows, a warp each": ((2000, 1000), lambda x: x, 1),
    "rows, planes": ((32, 3, 56, 56), lambda x: x, (0, 2, 3)),
    "tiny_rows": ((20_000, 3), lambda x: x, 1),
    "small_rows": ((20_000, 32), lambda x: x, 1),
    "staged_rows": ((9000, 257), lambda x: x, 1),
    "staged_rows, permuted": ((30, 300, 257), lambda x: x.transpose(0, 1), 2),
    "columns": ((1000, 300), lambda x: x, 0),
    "columns, chunks": ((9, 5, 40_000), lambda x: x.permute(2, 1, 0), 2),
    "few_rows": ((8, 30_000), lambda x: x, 0),
    "few_rows, chunks": ((2, 50, 3000), lambda x: x.permute(2, 1, 0), 2),
    "narrow_columns": ((30_000, 8), lambda x: x, 0),
    "lines": ((1001, 900), lambda x: x.t(), None),
    "staged_tiles": ((15, 9000), lambda x: x.t(), None),
    "tiles": ((15, 9000), lambda x: x[:, ::2].t(), None),
}
EXACT = {"run": ((2**20,), None), "rows": ((200, 5000), 1), "columns": ((5000, 200), 0)}
VALUES = (1.0, 4.0, 3.0)


def check(shape: tuple[int, ...], total: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Each total is of what fill_late stored just before, not of what was there earlier."""
    x = torch.zeros(shape, device="cuda")
    expected = [total(torch.full(shape, value, device="cuda")) for value in VALUES]
    for value, of_value in zip(VALUES, expected, strict=True):
        fill_late[(64,)](x, x.numel(), value, 100_000, block=1024)
        assert_same_bits(total(x), of_value, value)


@pytest.mark.parametrize("kind", SUMS)
def test_sums_wait_for_the_kernel_ahead(kind: str) -> None:
    shape, view, dim = SUMS[kind]
    plan = torch.ops.reduce._plan(view(torch.empty(shape, device="cuda")), dim, multiprocessors=132)
    assert plan[0] == kind.partition(",")[0]
    check(shape, lambda x: reduce_ops.sum(view(x), dim))


@pytest.mark.parametrize("kind", EXACT)
def test_exact_sums_wait_for_the_kernel_ahead(kind: str) -> None:
    shape, dim = EXACT[kind]
    check(shape, lambda x: reduce_ops.sum_exact(x, dim))


@pytest.mark.parametrize("kind", SUMS)
def test_none_is_overtaken(kind: str) -> None:
    """A sum of something else starts early, and the sum behind it too: it may rely on what is ahead of both."""
    shape, view, dim = SUMS[kind]
    other = view(torch.ones(shape, device="cuda"))

    def total(x: torch.Tensor) -> torch.Tensor:
        reduce_ops.sum(other, dim)
        return reduce_ops.sum(x)

    check((2**16,), total)


@pytest.mark.parametrize("between", ["event", "copy", "copy on the default stream"])
def test_waits_for_what_is_no_kernel_ahead(between: str) -> None:
    """A kernel that lets the next one start is ahead, but an event or a copy comes between."""
    busy, y = torch.zeros(2**16, device="cuda"), torch.zeros(2**16, device="cuda")
    sources = [torch.full_like(y, value) for value in VALUES]
    side, done = torch.cuda.Stream(), torch.cuda.Event()
    stream = torch.cuda.default_stream() if "default" in between else torch.cuda.Stream()
    expected = [reduce_ops.sum(source) for source in sources]
    torch.cuda.synchronize()
    for source, of_value in zip(sources, expected, strict=True):
        if between == "event":
            with torch.cuda.stream(side):
                fill_late[(64,)](y, y.numel(), source[0].item(), 100_000, block=1024)
                done.record()
        with torch.cuda.stream(stream):
            fill_late[(64,)](busy, busy.numel(), 1.0, 100_000, block=1024)
            if between == "event":
                stream.wait_event(done)
            else:
                y.copy_(source)
            total = reduce_ops.sum(y)
        stream.synchronize()
        assert_same_bits(total, of_value)
