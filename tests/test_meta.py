"""Shapes and dtypes without data: meta and fake tensors, and PyTorch's own checks of custom operators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import oracle
import reduce_ops
from reduce_ops import Rung
from support import (
    DTYPES,
    each_rung,
    each_sized_rung,
    ladder_block_sums,
    ladder_sum,
    random_values,
    takes_block_size,
)


@each_sized_rung
def test_meta_says_the_same_as_the_operator(rung: Rung, block_size: int) -> None:
    for n in (0, 1, 255, 257, 1025, 2**18 + 1, 2**20 + 1):
        for op in (ladder_sum, ladder_block_sums):
            actual = op(rung, torch.empty(n, device="meta"), None, block_size)
            expected = op(rung, torch.zeros(n), None, block_size)
            assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
            assert actual.is_meta


@each_rung
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_meta_dtypes(rung: Rung, dtype: torch.dtype) -> None:
    x = torch.empty(5, 700, dtype=dtype, device="meta")
    assert ladder_sum(rung, x).dtype == oracle.result_dtype(dtype)
    assert ladder_block_sums(rung, x).dtype == oracle.accumulate_dtype(dtype)
    assert ladder_sum(rung, x.t(), torch.complex32).dtype == torch.complex32
    assert ladder_block_sums(rung, x.t(), torch.complex32).dtype == torch.complex64


@each_rung
def test_meta_takes_sizes_that_fit_no_memory(rung: Rung) -> None:
    n = 2**38 + 1
    blocks = -(-n // (oracle.elements_per_thread(rung.number, n, 256) * 256))
    x = torch.empty(n, dtype=torch.float64, device="meta")
    assert ladder_sum(rung, x).shape == ()
    assert ladder_block_sums(rung, x).shape == (blocks,)


@each_sized_rung
def test_fake_tensors(rung: Rung, block_size: int, device: torch.device) -> None:
    real = torch.zeros(3, 1000, device=device)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(real)
        results = [op(rung, fake, torch.float64, block_size) for op in (ladder_sum, ladder_block_sums)]
    expected = [op(rung, real, torch.float64, block_size) for op in (ladder_sum, ladder_block_sums)]
    for actual, real_result in zip(results, expected, strict=True):
        assert (actual.shape, actual.dtype) == (real_result.shape, real_result.dtype)
        assert actual.device.type == real_result.device.type


@each_sized_rung
@pytest.mark.parametrize("operator", ["sum", "block_sums"])
def test_opcheck(rung: Rung, block_size: int, operator: str, device: torch.device) -> None:
    """Schema (nothing is mutated or aliased), fake kernel, and dispatch as torch.compile does it."""
    op = getattr(torch.ops.reduce, f"{operator}_v{rung.number}").default
    options = {"block_size": block_size} if takes_block_size(rung) else {}
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    strided = torch.ones(40, 50, dtype=torch.int8, device=device).t()
    for x in (random_values(3000, torch.float32).to(device), strided):
        torch.library.opcheck(op, (x,), options, test_utils=checks)
        torch.library.opcheck(op, (x,), {"dtype": torch.float64, **options}, test_utils=checks)


@each_rung
def test_sizes_stay_symbolic_under_compile(rung: Rung, device: torch.device) -> None:
    """The number of blocks is an expression of n, not a constant that was seen once.

    Two graphs serve all sizes: one for m = 1 and one for more.
    """
    total = getattr(torch.ops.reduce, rung.name)
    block_sums = getattr(torch.ops.reduce, f"block_sums_v{rung.number}")
    graphs = []

    def count_graphs(module: torch.fx.GraphModule, _: list) -> Callable:
        graphs.append(module)
        return module

    torch.compiler.reset()
    compiled = torch.compile(
        lambda x: (total(x), block_sums(x) * 2), backend=count_graphs, dynamic=True, fullgraph=True
    )
    for n in (1000, 5000, 200_000, 300_000, 700_000, 2_000_003):
        x = random_values(n, torch.float32).to(device)
        actual = compiled(x)
        assert torch.equal(actual[0], total(x))
        assert torch.equal(actual[1], block_sums(x) * 2)
    assert len(graphs) == 1


@each_rung
def test_python_face_compiles(rung: Rung, device: torch.device) -> None:
    function = getattr(reduce_ops, rung.name)
    number = rung.number
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x: (function(x, dtype=torch.float64), reduce_ops.block_sums(x, number)),
        backend="eager",
        fullgraph=True,
    )
    x = random_values(3000, torch.float32).to(device)
    assert torch.equal(compiled(x)[0], function(x, dtype=torch.float64))
    assert torch.equal(compiled(x)[1], reduce_ops.block_sums(x, number))
