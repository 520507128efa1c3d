"""Any dtype, shape, strides and storage offset: the oracle's bits for the elements in row-major order."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reduce_ops import LADDER, Rung
from support import (
    COMPLEX,
    DTYPES,
    FLOATS,
    SIZED,
    assert_same_bits,
    ladder_block_sums,
    ladder_sum,
    random_values,
    takes_block_size,
)

Sized = tuple[Rung, int]
sized_rungs = st.sampled_from(SIZED)
seeds = st.integers(0, 2**32)


@st.composite
def storages(draw: st.DrawFn, dtypes: st.SearchStrategy[torch.dtype], n: int, name: str = "") -> torch.Tensor:
    """`n` values that begin somewhere inside of their storage, so that no alignment is certain."""
    offset = draw(st.integers(0, 9), label=f"{name} offset")
    return random_values(n + offset, draw(dtypes), draw(seeds))[offset:]


@st.composite
def slices(draw: st.DrawFn, dtypes: st.SearchStrategy[torch.dtype]) -> torch.Tensor:
    """Permuted, sliced with steps, and broadcast."""
    shape = draw(st.lists(st.integers(1, 40), max_size=3))
    x = draw(storages(dtypes, math.prod(shape))).view(shape)
    x = x.permute(draw(st.permutations(range(len(shape)))))
    for dim, size in enumerate(x.shape):
        start = draw(st.integers(0, size))  # size: nothing is left
        x = x[(slice(None),) * dim + (slice(start, None, draw(st.integers(1, 4))),)]
    if draw(st.booleans()):
        dim = draw(st.integers(0, x.dim()))
        x = x.unsqueeze(dim).expand(*x.shape[:dim], draw(st.integers(0, 5)), *x.shape[dim:])
    return x


@st.composite
def windows(draw: st.DrawFn, dtypes: st.SearchStrategy[torch.dtype]) -> torch.Tensor:
    """Any strides, overlapping as they like."""
    shape = draw(st.lists(st.integers(0, 30), min_size=1, max_size=3))
    strides = [draw(st.integers(0, 12)) for _ in shape]
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    x = draw(storages(dtypes, max(last, 0) + 1))
    return x.as_strided(shape, strides, x.storage_offset())


any_dtype = st.sampled_from(DTYPES)


@given(slices(any_dtype) | windows(any_dtype), sized_rungs)
def test_any_strides(device: torch.device, x: torch.Tensor, sized_rung: Sized) -> None:
    rung, block_size = sized_rung
    on_device = _as_it_is(x, device)
    before = on_device.clone()
    expected = oracle.expected_sum(x.contiguous(), rung.number, None, block_size)
    assert_same_bits(ladder_sum(rung, on_device, None, block_size), expected)
    expected = oracle.expected_block_sums(x.contiguous(), rung.number, None, block_size)
    assert_same_bits(ladder_block_sums(rung, on_device, None, block_size), expected)
    assert_same_bits(on_device, before, "the input was written to")


@given(slices(st.sampled_from(FLOATS)), sized_rungs, st.sampled_from(FLOATS))
def test_strides_and_dtype(device: torch.device, x: torch.Tensor, sized_rung: Sized, to: torch.dtype) -> None:
    rung, block_size = sized_rung
    expected = oracle.expected_sum(x.contiguous(), rung.number, to, block_size)
    assert_same_bits(ladder_sum(rung, _as_it_is(x, device), to, block_size), expected)


@given(slices(st.sampled_from(COMPLEX)), sized_rungs)
def test_conjugate_and_negative_views(device: torch.device, x: torch.Tensor, sized_rung: Sized) -> None:
    rung, block_size = sized_rung
    conjugate = _as_it_is(x, device).conj()
    negative = conjugate.imag
    assert conjugate.is_conj() and negative.is_neg()
    for view in (conjugate, negative):
        expected = oracle.expected_sum(view, rung.number, None, block_size)
        assert_same_bits(ladder_sum(rung, view, None, block_size), expected)


@given(st.integers(0, 600_000), st.sampled_from((torch.float16, torch.float32)), seeds, sized_rungs)
def test_any_size(device: torch.device, n: int, dtype: torch.dtype, seed: int, sized_rung: Sized) -> None:
    rung, block_size = sized_rung
    x = random_values(n, dtype, seed)
    expected = oracle.expected_sum(x, rung.number, None, block_size)
    assert_same_bits(ladder_sum(rung, x.to(device), None, block_size), expected)


@given(st.integers(1, 5000), seeds, st.sampled_from([rung for rung in LADDER if not takes_block_size(rung)]))
def test_layout_does_not_matter(device: torch.device, n: int, seed: int, rung: Rung) -> None:
    """Without the oracle: the transpose of a transposed copy sums to the bits of the matrix itself."""
    matrix = random_values(4 * n, torch.float32, seed).view(4, n).to(device)
    transposed = matrix.T.contiguous().T
    assert_same_bits(ladder_sum(rung, transposed), ladder_sum(rung, matrix))


def _as_it_is(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """On the device with the same strides and offset, overlaps included."""
    storage = x.as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,), 0).to(device)
    return storage.as_strided(x.shape, x.stride(), x.storage_offset())
