"""``reduce::sum`` along dimensions: the bits of the canonical order in every shape and layout.

A contiguous input is seen as (A, R, C): A times, R elements that lie C apart are summed for each of C columns.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import mmap
import os
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

import oracle
import reduce_ops
from oracle import canonical_sum
from support import COMPLEX, DTYPES, FLOATS, INTEGERS, assert_same_bits, moved, not_dense, plan, random_values

# Where a kernel may end to be the best, or a vector, warp, tile, segment or stack to be full.
LENGTHS = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 511, 512, 513),
    *(1000, 1023, 1024, 1025, 4095, 4096, 4097, 16385, 50257, 300001),
)
WIDTHS = (2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 64, 100, 257)
OTHER_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.int32, torch.int64),
    *(torch.complex64, torch.complex128, torch.float8_e4m3fn),
)
POOL = 13_000_000


@functools.cache
def pool(dtype: torch.dtype) -> torch.Tensor:
    return random_values(POOL if dtype == torch.float32 else POOL // 10, dtype)


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values, which are the same for the same shape, in a tensor of their own."""
    n = math.prod(shape)
    start = 8191 * n % max(1, pool(dtype).numel() - n)
    return pool(dtype)[start : start + n].clone().view(shape)


def check(x: torch.Tensor, dim: int | tuple[int, ...], what: object = None) -> None:
    assert_same_bits(reduce_ops.sum(x, dim), canonical_sum(x, dim), what or (tuple(x.shape), x.stride(), dim))


# ---- every family at its boundaries ----


@pytest.mark.parametrize("length", LENGTHS)
def test_rows(length: int, device: torch.device) -> None:
    for rows in (1, 2, 3, 37, 1000, 5003):
        if rows * length <= 10**6:
            check(values(rows, length).to(device), 1)


# Sizes of dimensions that lie the other way round, so that none of them can be merged.
TURNED = ((9,), (37,), (3, 5), (5, 9), (2, 3, 2), (3, 4, 5), (2, 3, 4, 3), (2, 3, 2, 3, 2), (2, 3, 2, 2, 2, 2))
RUNS = (5, 37, 100, 1100)  # shorter than the loads of a warp, than a chunk, and longer


def turned(
    sizes: tuple[int, ...], run: int, dtype: torch.dtype, device: torch.device
) -> dict[str, tuple[torch.Tensor, tuple[int, ...]]]:
    """Return runs that lie in an order of their own, of three outputs, seen in several ways, and what to sum over."""
    dims = len(sizes) + 1
    memory = values(3, *sizes, 2 * run, dtype=dtype).to(device)
    x, apart = (y.permute(0, *range(dims - 1, 0, -1), dims) for y in (memory[..., :run], memory[..., ::2]))
    inner = tuple(range(1, dims + 1))
    return {
        "rows": (x, inner),
        "row": (x[1:2], (0, *inner)),
        "columns": (x, inner[:-1]),
        "columns of threes": (x.movedim(0, -1), tuple(range(dims))),
        "lines": (x.movedim(dims, 1), inner),
        "lines apart": (apart.movedim(dims, 1), inner),
    }


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.int8, torch.float16, torch.float32, torch.float64, torch.complex64),
        *(torch.int16, torch.complex128, torch.uint32),  # those of fewer kernels
    ],
    ids=str,
)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("sizes", TURNED, ids=str)
def test_many_dimensions(sizes: tuple[int, ...], run: int, dtype: torch.dtype, device: torch.device) -> None:
    for what, (x, dim) in turned(sizes, run, dtype, device).items():
        check(x, dim, what)


def test_many_dimensions_are_of_every_general_family() -> None:
    plans = [
        plan(x, dim)
        for sizes, run in itertools.product(TURNED, RUNS)
        for x, dim in turned(sizes, run, torch.float32, torch.device("cpu")).values()
    ]
    for family in ("rows", "columns", "lines", "tiles"):
        assert any((p.family, p.layout) == (family, "strided") for p in plans), family


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 100, 1025, 40001])
def test_columns(length: int, device: torch.device) -> None:
    for width, outer in itertools.product(WIDTHS, (1, 3)):
        if outer * length * width <= (2 * 10**6 if outer > 1 else POOL):
            check(values(outer, length, width).to(device), 1)


@pytest.mark.parametrize("width", [1000, 4096, 4097, 65537, 300001])
def test_wide_columns(width: int, device: torch.device) -> None:
    for length in (1, 2, 3, 5, 7, 8, 9, 16, 33):
        check(values(length, width).to(device), 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("length", [128, 255, 256, 257, 512, 1024, 4095, 4096, 4097, 8192, 12_289, 65_536, 65_537])
def test_blocks_of_rows(length: int, dtype: torch.dtype, device: torch.device) -> None:
    """A row is some blocks of the CPU's kernels and more, or a block some rows, where these follow each other."""
    for rows in (1, 2, 3, 16, 17, 65):
        if rows * (length + 3) <= 10**6:
            check(values(rows, length, dtype=dtype).to(device), 1)
            check(values(rows, length + 3, dtype=dtype).to(device)[:, :-3], 1)


BATCHES = (
    *((300, 600, 4), (300, 200, 4), (150, 2100, 3), (140, 700, 12), (270, 140, 32), (3, 9000, 8)),
    *((500, 2, 8), (999, 5, 6), (40, 8, 1000), (700, 3, 300), (9, 30, 100), (3, 64, 96)),
    *((70, 70, 256), (9, 130, 1024), (2, 700, 840), (3, 3000, 120)),
)
"""(A, R, C): narrow columns, few rows and columns in several matrices."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64, torch.complex64], ids=str)
def test_batches(dtype: torch.dtype, device: torch.device) -> None:
    for shape in BATCHES:
        check(values(*shape, dtype=dtype).to(device), 1)


@pytest.mark.parametrize("dtype", OTHER_DTYPES, ids=str)
def test_dtypes(dtype: torch.dtype, device: torch.device) -> None:
    for length, rows in itertools.product((3, 4, 7, 8, 32, 33, 100, 129, 1000, 4097), (1, 37)):
        check(values(rows, length, dtype=dtype).to(device), 1)
    for length in (2, 3, 4, 8, 16):
        check(values(5003, length, dtype=dtype).to(device), 1)
    for length, width, outer in itertools.product((2, 9, 33, 100, 1025), (2, 3, 5, 8, 12, 16, 31, 32, 33, 100), (1, 3)):
        check(values(outer, length, width, dtype=dtype).to(device), 1)
    for length, width in ((2, 40001), (8, 4096), (8, 80_000), (9, 4097), (9, 60_001), (64, 300), (64, 9000)):
        check(values(length, width, dtype=dtype).to(device), 0)
    check(values(3, 40001, dtype=dtype).to(device), 1)
    check(values(40001, 5, dtype=dtype).to(device), 0)


SHAPES = (
    *(
        (1000, 3, 1),
        (37, 8, 1),
        (37, 100, 1),
        (37, 257, 1),
        (37, 1000, 1),
        (37, 1001, 1),
        (3, 50257, 1),
        (1, 300001, 1),
    ),
    *((1, 5, 2), (1, 4097, 3), (3, 9, 4), (3, 100, 8), (3, 100, 9), (1, 1025, 32), (1, 1025, 33), (3, 100, 256)),
    *((1, 2, 40000), (1, 8, 4096), (1, 9, 4099), (1, 40001, 16), (1, 40001, 17), (3, 4097, 12)),
)
"""(A, R, C), of every family."""
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.float32, torch.float16, torch.float64, torch.complex64),
        *(torch.bool, torch.int8, torch.int16, torch.int32, torch.int64),
    ],
    ids=str,
)
@pytest.mark.parametrize("offset", [1, 2, 3])
def test_misaligned(dtype: torch.dtype, offset: int, device: torch.device) -> None:
    for shape in SHAPES:
        n = math.prod(shape)
        check(values(n + offset, dtype=dtype).to(device)[offset:].view(shape), 1)


@each_shape
def test_pitch(shape: tuple[int, int, int], device: torch.device) -> None:
    """Slices of a tensor that is longer by a little in one of the dimensions, or has others between its elements."""
    outer, length, width = shape
    for more, start in ((1, 0), (1, 1), (4, 0), (4, 2), (7, 3)):
        check(values(outer, length + more, width).to(device)[:, start : start + length], 1, (shape, more, start))
        check(values(outer, length, width + more).to(device)[..., start : start + width], 1, (shape, more, start))
    for step in (2, 3):
        check(values(outer, step * length, width).to(device)[:, ::step], 1, (shape, step))
        check(values(outer, length, step * width).to(device)[..., 1::step], 1, (shape, step))
        check(values(step * outer, length, width).to(device)[1::step], 1, (shape, step))


def held(x: torch.Tensor, *order: int) -> torch.Tensor:
    """The same elements with the dimensions in another order in memory, the last one closest."""
    return x.permute(order).contiguous().permute([order.index(d) for d in range(x.dim())])


@each_shape
def test_orders_of_memory(shape: tuple[int, int, int], device: torch.device) -> None:
    x = values(*shape).to(device)
    for order in itertools.permutations(range(3)):
        view = held(x, *order)
        check(view, 1, (shape, order))
        check(view, (0, 1), (shape, order))
        check(view, (0, 2), (shape, order))


@pytest.mark.parametrize(
    "shape, dim",
    [
        ((8, 3, 56, 56), (0, 2, 3)),
        ((8, 3, 15, 17), (0, 2, 3)),
        ((32, 64, 7, 7), (0, 2, 3)),
        ((30, 300, 7, 7), (0, 2, 3)),
        ((3, 5, 1, 1), (0, 2, 3)),
        ((64, 3, 40, 40), (0, 2, 3)),
        ((5, 7, 10003), (0, 2)),
        ((1000, 3, 2), (0, 2)),
        ((300, 4, 128), (0, 2)),
        ((7, 300, 33), (0, 2)),
        ((3, 4, 5, 6, 7), (0, 2, 4)),
        ((9, 2, 31, 3, 65), (0, 2, 4)),
        ((3, 40, 5, 60, 2), (1, 3)),
        ((3, 4, 5, 6, 7), (1, 2)),
        ((3, 4, 5, 6, 7), (1, 3, 4)),
        ((2, 3, 2, 3, 2, 3, 2, 3), (0, 2, 4, 6)),
        ((2, 3, 2, 3, 2, 3, 2, 3), (1, 3, 5, 7)),
    ],
    ids=str,
)
def test_reduced_dimensions_apart(shape: tuple[int, ...], dim: tuple[int, ...], device: torch.device) -> None:
    """Ranges of 2^k elements straddle the runs that they lie in."""
    for dtype in (torch.float32, torch.float16, torch.int8):
        x = values(*shape, dtype=dtype).to(device)
        check(x, dim)
        last_first = x.movedim(-1, 0).contiguous().movedim(0, -1)
        check(last_first, dim, (shape, "last dimension outermost"))
        second_last = x.movedim(1, -1).contiguous().movedim(-1, 1)
        check(second_last, dim, (shape, "second dimension innermost"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize(
    "batch, plane",
    [(180, 3), (40, 25), (17, 31), (20, 32), (16, 33), (9, 49), (30, 49), (45, 49), (85, 49), (11, 64), (28, 144)],
)
def test_planes_of_many_channels(batch: int, plane: int, dtype: torch.dtype, device: torch.device) -> None:
    """A block takes all planes of a channel at once, with as many warps as that takes."""
    check(values(batch, 260, plane, dtype=dtype).to(device), (0, 2))
    if batch * plane < 2000:
        check(values(batch, 260, 2 * plane, dtype=dtype).to(device)[..., ::2], (0, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.complex64, torch.int8], ids=str)
@pytest.mark.parametrize("length", [2, 3, 15, 32, 63, 64, 65, 127, 128, 129, 255, 256, 257, 513, 1030])
def test_turned_batches(length: int, dtype: torch.dtype, device: torch.device) -> None:
    """Both ends of a batch that is held transposed: neighbours in memory are `length` elements apart in the order."""
    for lines in (2, 3, 7, 8, 9, 16, 17, 31, 33, 100, 512 // length + 1, 2048 // length, 2048 // length + 1):
        x = values(lines, 3, length, dtype=dtype).to(device)
        check(held(x, 2, 1, 0), (0, 2), lines)
        check(held(x, 2, 0, 1), (0, 2), (lines, "an output beside the other"))


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128, torch.int64],
    ids=str,
)
@pytest.mark.parametrize("length", [511, 512, 1025, 2047, 2048, 5003])
def test_long_columns(length: int, dtype: torch.dtype, device: torch.device) -> None:
    """Of few columns and of many; where one ends and the next one begins is in the middle of a node."""
    for width in (2, 3, 4, 5, 8, 9, 15, 16, 17, 33, 120, 530 if length < 600 else 70):
        check(held(values(width, length, dtype=dtype).to(device), 1, 0), (0, 1), width)
        check(held(values(width, length, 2, dtype=dtype).to(device), 1, 2, 0), (0, 1), (width, "beside another"))
    x = values(3, 20, length, dtype=dtype).to(device)
    check(held(x, 0, 2, 1), (0, 1, 2), "matrices one after the other")
    check(held(x, 2, 0, 1), (0, 1, 2), "side by side")
    check(held(x, 2, 0, 1)[:, 1:18], (0, 1, 2), "parts of them")
    check(held(x, 2, 0, 1)[1:, ::2], (0, 1, 2), "every other column")
    rows = values(20, length // 9, 9, dtype=dtype).to(device)
    check(held(rows, 2, 1, 0), (0, 1, 2), "columns in two dimensions")


def last_in_memory(x: torch.Tensor) -> torch.Tensor:
    """A copy on a CPU, behind which the next page of memory cannot be read."""
    size = -x.nbytes % mmap.PAGESIZE + x.nbytes
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + size), mmap.PAGESIZE, 0) == 0, os.strerror(ctypes.get_errno())
    copy = torch.frombuffer(memory, dtype=x.dtype, count=x.numel(), offset=size - x.nbytes)
    return copy.copy_(x.flatten()).view(x.shape)


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex128, torch.int8], ids=str
)
@pytest.mark.parametrize("width", [1, 3, 4, 7, 9, 15, 16, 17, 31, 33, 100])
def test_nothing_behind_the_last_element_is_read(width: int, dtype: torch.dtype) -> None:
    for length in (1, 2, 15, 17, 100, 257, 512, 2048):  # the last two are whole windows of LongColumns
        x = last_in_memory(values(length, width, dtype=dtype))
        check(x, 0)
        check(x, 1)
        check(x, (0, 1))
        check(x.t(), (0, 1))
        check(x[:, ::2].t(), (0, 1))
        check(x[1:, width // 2 :], 0)
        check(x[1:, width // 2 :], 1)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.complex128], ids=str
)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((300, 200, 2), (1, 0, 2)),  # runs of two elements
        ((300, 200, 3), (1, 0, 2)),
        ((2, 9, 400, 5), (0, 2, 1, 3)),
        ((3, 500, 2), (0, 2, 1)),
        ((4, 9, 150), (0, 2, 1)),  # from the last line of a matrix to the first of the next one
        ((5, 2, 700), (0, 2, 1)),
        ((60, 33, 20), (0, 2, 1)),
        ((9, 10, 15), (2, 1, 0)),  # lines in two dimensions
        ((9, 30, 35), (2, 1, 0)),
        ((3, 5, 7, 9, 11), (4, 1, 3, 0, 2)),
        ((7, 5, 3, 9, 11), (2, 4, 0, 3, 1)),
        ((257, 263), (1, 0)),
        ((1025, 31), (1, 0)),
        ((31, 1025), (1, 0)),
        ((40, 30, 12), (1, 2, 0)),  # lines that turn within the loads of a lane
        ((70, 5, 9, 11), (1, 2, 3, 0)),
        ((300, 2, 3, 5), (1, 2, 3, 0)),
        ((4, 50, 23), (1, 0, 2)),  # runs of some elements
        ((40, 3, 5, 17), (2, 0, 1, 3)),
        ((700, 119, 3), (0, 2, 1)),  # short lines, of which many begin and end matrices
        ((2200, 33, 3), (0, 2, 1)),
        ((2200, 32, 5), (0, 2, 1)),
        ((2400, 31, 3), (0, 2, 1)),
    ],
    ids=str,
)
def test_turned_dimensions(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    x = values(*shape, dtype=dtype).to(device)
    check(held(x, *order), tuple(range(x.dim())))
    wide = values(*shape[:-1], 2 * shape[-1], dtype=dtype).to(device)
    check(held(wide, *order)[..., 1::2], tuple(range(x.dim())), "every other element")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8], ids=str)
def test_rows_of_a_permuted_batch(dtype: torch.dtype, device: torch.device) -> None:
    for length in (1, 2, 3, 4, 5, 8, 16, 31, 32, 64, 100, 128, 129, 400, 1001, 3005):
        x = values(7, 45, length, dtype=dtype).to(device)
        check(x.transpose(0, 1), 2, length)
        check(values(7, 45, length + 2, dtype=dtype).to(device)[..., 1:-1].transpose(0, 1), 2, length)
        check(values(45 * 7 * length + 1, dtype=dtype).to(device)[1:].view(7, 45, length).transpose(0, 1), 2, length)
        check(x.view(7, 9, 5, length).permute(2, 1, 0, 3), 3, length)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("inner", [2, 3, 7, 8, 9, 15, 16, 17, 40, 130])
def test_columns_whose_rows_turn(inner: int, dtype: torch.dtype, device: torch.device) -> None:
    """Rows in two and three dimensions, of which as many as a thread loads at once lie in one turn, or do not."""
    for outer, middle, width in itertools.product((1, 3), (2, 5, 41), (35, 40)):
        x = values(inner, outer, middle + 1, width, dtype=dtype).to(device)[:, :, :middle].permute(1, 2, 0, 3)
        check(x, (0, 1, 2), (outer, middle, width))
        check(x[..., :1], (0, 1, 2), (outer, middle))


@pytest.mark.parametrize("inner", [3, 16, 31, 32, 33, 65, 100])
def test_rows_in_many_dimensions(inner: int, device: torch.device) -> None:
    """Turns shorter than a warp is wide, as wide and longer."""
    for shape in ((2, 3, 4), (5, 7, 40), (2, 2, 2, 2, 3)):
        x = values(*(size + 1 for size in shape), inner + 1).to(device)[(*map(slice, shape), slice(inner))]
        check(x, tuple(range(x.dim())), shape)
        check(x, tuple(range(1, x.dim())), shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_channels_last(dtype: torch.dtype, device: torch.device) -> None:
    for shape in ((4, 3, 32, 32), (2, 64, 14, 14), (3, 17, 9, 11), (2, 5, 3, 4, 5)):
        x = values(*shape, dtype=dtype).to(device)
        form = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
        last = x.contiguous(memory_format=form)
        for dim in ((0, *range(2, len(shape))), (1,), (0,), (2,), (len(shape) - 1,), (2, 3), (0, 1)):
            check(last, dim)
            assert_same_bits(reduce_ops.sum(last, dim), reduce_ops.sum(x, dim), (shape, dim))


def test_expanded(device: torch.device) -> None:
    for kept, reduced in ((1, 1), (5, 3), (3, 1000), (1000, 7), (40, 4097)):
        column = values(kept, 1).to(device).expand(kept, reduced)
        row = values(1, reduced).to(device).expand(kept, reduced)
        point = values(1, 1).to(device).expand(kept, reduced)
        for x in (column, row, point, column.t(), row.t(), row.expand(3, kept, reduced)):
            for dim in (0, 1, -1):
                check(x, dim)
    between = values(6, 1, 50).to(device).expand(6, 100, 50)
    for dim in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2)):
        check(between, dim)


def test_overlapping_windows(device: torch.device) -> None:
    """Rows that share elements, as unfold() makes them."""
    x = values(5000).to(device)
    for size, step in ((3, 1), (8, 4), (100, 7), (1025, 1)):
        check(x.unfold(0, size, step), 1, (size, step))
        check(x.unfold(0, size, step), 0, (size, step))
    for rows, size, step in ((300, 400, 7), (900, 5, 9), (300, 400, 0), (900, 5, 0)):  # whose order runs across memory
        view = x.as_strided((rows, size), (1, step))
        check(view, (0, 1), (rows, size, step))
        check(view.expand(3, rows, size), (1, 2), (rows, size, step))
        check(view.expand(3, rows, size), (0, 1, 2), (rows, size, step))


@pytest.mark.parametrize(
    ("dtype", "of_result"),
    [(torch.float32, None), (torch.bfloat16, torch.float32), (torch.int8, torch.float32), (torch.bool, None)],
    ids=str,
)
def test_single_elements_in_another_order(
    dtype: torch.dtype, of_result: torch.dtype | None, device: torch.device
) -> None:
    x = held(values(30, 1, 50, 7, dtype=dtype).to(device), 3, 1, 0, 2)
    sums = reduce_ops.sum(x, 1, dtype=of_result)
    assert_same_bits(sums, reduce_ops.sum(x.contiguous(), 1, dtype=of_result))
    out = torch.empty(50, 30, 7, dtype=sums.dtype, device=device).transpose(0, 1)
    torch.ops.reduce.sum.IntList_out(x, [1], dtype=of_result, out=out)
    assert_same_bits(out, sums)


def test_more_dimensions_than_a_kernel_takes(device: torch.device) -> None:
    x = values(*((3,) * 13)).to(device)
    view = x[(slice(None, 2),) * 13]
    check(view, tuple(range(0, 13, 2)))
    check(view, tuple(range(1, 13, 2)))
    check(values(*((1, 2) * 8), *((1,) * 48)).to(device), tuple(range(0, 64, 3)))


# ---- any shape and view ----


@st.composite
def views(draw: st.DrawFn) -> tuple[torch.Tensor, tuple[int, ...]]:
    """A view on a CPU tensor of 0 to 5 dimensions, and dimensions of it."""
    dtype = draw(st.sampled_from(DTYPES), "dtype")
    sizes = draw(st.lists(st.integers(0, 9) | st.integers(1, 3), max_size=5), "sizes")
    if sizes and draw(st.booleans(), "long"):
        sizes[draw(st.integers(0, len(sizes) - 1))] = draw(st.integers(10, 300))
    assume(math.prod(sizes) <= 100_000)
    x = random_values(math.prod(sizes) + 3, dtype, seed=1)
    offset = draw(st.integers(0, 3), "offset")
    x = x[offset : offset + math.prod(sizes)].view(sizes)
    for dim in range(x.dim()):
        start = draw(st.integers(0, max(0, x.shape[dim] - 1)), "start")
        x = x[(slice(None),) * dim + (slice(start, None, draw(st.integers(1, 3), "step")),)]
    x = x.permute(draw(st.permutations(range(x.dim())), "permutation"))
    if draw(st.booleans(), "expand") and x.dim() < 5:
        at = draw(st.integers(0, x.dim()), "at")
        copies = draw(st.integers(0, 12), "copies")
        x = x.unsqueeze(at).expand(*x.shape[:at], copies, *x.shape[at:])
    if x.dim() == 4 and draw(st.booleans(), "channels_last"):
        x = x.contiguous(memory_format=torch.channels_last)
    dims = draw(st.sets(st.integers(0, max(0, x.dim() - 1))), "dims")
    return x, tuple(draw(st.permutations(sorted(dims)), "order"))


@settings(max_examples=300)
@given(view=views(), keepdim=st.booleans(), negative=st.booleans(), conjugate=st.booleans(), data=st.data())
def test_any_view(
    view: tuple[torch.Tensor, tuple[int, ...]],
    keepdim: bool,
    negative: bool,
    conjugate: bool,
    data: st.DataObject,
    device: torch.device,
) -> None:
    x, dims = view
    x = moved(x, device)
    if conjugate and x.dtype.is_complex:
        x = x.conj()
    # A float beyond an integer's range becomes nobody promises what.
    targets = {True: DTYPES, False: FLOATS + COMPLEX}[x.dtype in INTEGERS] if not x.dtype.is_complex else COMPLEX
    dtype = data.draw(st.none() | st.sampled_from(targets), "dtype=")
    dim = tuple(d - max(1, x.dim()) for d in dims) if negative else dims
    actual = reduce_ops.sum(x, dim, keepdim, dtype=dtype)
    assert_same_bits(actual, canonical_sum(x, dims, keepdim, dtype=dtype))
    assert actual.shape == torch.empty(x.shape, device="meta").sum(dims, keepdim).shape
    assert actual.is_contiguous()


@given(view=views())
def test_order_of_dims_does_not_matter(view: tuple[torch.Tensor, tuple[int, ...]], device: torch.device) -> None:
    x, dims = view
    x = moved(x, device)
    assert_same_bits(reduce_ops.sum(x, dims), reduce_ops.sum(x, sorted(dims)))


# ---- invariances ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int8], ids=str)
@pytest.mark.parametrize("length", [1, 3, 8, 32, 100, 257, 1000, 4097, 20001])
def test_a_row_is_the_same_in_every_company(length: int, dtype: torch.dtype, device: torch.device) -> None:
    x = values(37, length, dtype=dtype).to(device)
    sums = reduce_ops.sum(x, 1)
    wide = torch.zeros(37, 2 * length + 5, dtype=dtype, device=device)
    wide[:, 3 : 3 + length] = x
    every_second = torch.zeros(37, 2 * length, dtype=dtype, device=device)
    every_second[:, ::2] = x
    same = {
        "transposed": reduce_ops.sum(x.t(), 0),
        "columns": reduce_ops.sum(x.t().contiguous(), 0),
        "columns seen as rows": reduce_ops.sum(x.t().contiguous().t(), 1),
        "slice": reduce_ops.sum(wide[:, 3 : 3 + length], 1),
        "every second": reduce_ops.sum(every_second[:, ::2], 1),
        "one by one": torch.stack([reduce_ops.sum(row) for row in x]),
        "one by one, along 0": torch.stack([reduce_ops.sum(row, 0) for row in x]),
        "two at a time": torch.cat([reduce_ops.sum(rows, 1) for rows in x.split(2)]),
        "in a large batch": reduce_ops.sum(x.repeat(9, 1), 1)[74:111],
        "expanded": reduce_ops.sum(x.expand(2, 37, length), 2)[1],
        "in pieces": reduce_ops.sum(x.view(37, length, 1, 1).expand(37, length, 1, 3), (1, 2))[:, 1],
    }
    for company, actual in same.items():
        assert_same_bits(actual, sums, company)


@given(data=st.data(), view=views())
def test_permuting_kept_dimensions_permutes_the_result(
    data: st.DataObject, view: tuple[torch.Tensor, tuple[int, ...]], device: torch.device
) -> None:
    x, dims = view
    assume(x.dim() > 1)
    x = moved(x, device)
    dims = dims or tuple(range(x.dim()))
    order = data.draw(st.permutations(range(x.dim())), "order")
    reduced = iter(sorted(dims))  # which stay in their own order
    order = [next(reduced) if d in dims else d for d in order]
    actual = reduce_ops.sum(x.permute(order), [i for i, d in enumerate(order) if d in dims], True)
    assert_same_bits(actual, reduce_ops.sum(x, dims, True).permute(order), order)


@pytest.mark.parametrize("shape", [(3, 1), (3, 2), (5, 1000), (2, 4097), (4, 1025, 7), (3, 4097, 32), (2, 33, 4096)])
def test_aligned_ranges_of_a_power_of_two_are_subtrees(shape: tuple[int, ...], device: torch.device) -> None:
    length = shape[1]
    for dtype in (torch.float32, torch.float64, torch.int64, torch.complex64):  # results are not rounded
        x = values(*shape, dtype=dtype).to(device)
        whole = reduce_ops.sum(x, 1)
        half = 2 ** ((length - 1).bit_length() - 1) if length > 1 else 1
        if length > half:
            assert_same_bits(reduce_ops.sum(x[:, :half], 1) + reduce_ops.sum(x[:, half:], 1), whole, (shape, dtype))
        for k in (1, 2, 5, 8):
            parts = [reduce_ops.sum(part, 1) for part in x.split(2**k, dim=1)]
            assert_same_bits(reduce_ops.sum(torch.stack(parts, dim=1), 1), whole, (shape, dtype, k))


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_number_of_cpu_threads_does_not_matter(threads: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for shape, dim in (
            ((3, 100_001), 1),
            ((1000, 301), 1),
            ((100_001, 3), 0),
            ((301, 1000), 0),
            ((8, 9, 7001), (0, 2)),
        ):
            check(values(*shape), dim, (threads, shape))
    finally:
        torch.set_num_threads(before)


# ---- special values ----

LAYOUTS: dict[str, tuple[tuple[int, ...], int | tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    "short rows": ((50, 3), 1, lambda x: x),
    "small rows": ((50, 32), 1, lambda x: x),
    "rows": ((50, 257), 1, lambda x: x),
    "long rows": ((3, 50_001), 1, lambda x: x),
    "misaligned rows": ((7, 1003), 1, lambda x: x[:, 1:]),
    "narrow columns": ((4097, 3), 0, lambda x: x),
    "skinny columns": ((4097, 16), 0, lambda x: x),
    "columns": ((1000, 257), 0, lambda x: x),
    "wide columns": ((1000, 256), 0, lambda x: x),
    "few rows": ((3, 40_004), 0, lambda x: x),
    "some rows": ((33, 257), 0, lambda x: x),
    "planes": ((24, 260, 7, 7), (0, 2, 3), lambda x: x),
    "inner": ((3, 100, 65), 1, lambda x: x),
    "permuted elements": ((30, 20, 1), 2, lambda x: x.transpose(0, 1)),
    "permuted small rows": ((6, 5, 4, 32), 3, lambda x: x.permute(2, 1, 0, 3)),
    "permuted short rows": ((6, 5, 4, 33), 3, lambda x: x.permute(2, 1, 0, 3)),
    "permuted rows": ((6, 5, 4, 1300), 3, lambda x: x.permute(2, 1, 0, 3)),
    "apart": ((9, 3, 30, 30), (0, 2, 3), lambda x: x),
    "split runs": ((40, 30, 37), (0, 1, 2), lambda x: x.transpose(0, 1)),
    "few rows, apart": ((3, 2, 4004), (0, 1), lambda x: x.transpose(0, 1)),
    "channels_last": ((9, 30, 30, 3), (0, 2, 3), lambda x: x.permute(0, 3, 1, 2)),
    "transposed": ((257, 50), 1, lambda x: x.t()),
    "across": ((10, 30, 2, 1000), (0, 1, 3), lambda x: x.permute(3, 1, 2, 0)),
    "across, short": ((5, 430, 7, 40), (1, 2, 3), lambda x: x.transpose(2, 3)),
    "across, in words": ((2, 3, 20, 40), (0, 1, 2, 3), lambda x: x.permute(1, 0, 3, 2)),
    "across, apart": ((1850, 3, 200), (0, 1, 2), lambda x: x[..., ::2].transpose(1, 2)),
    "across, in boxes": ((3, 30_000, 7), (0, 2), lambda x: x.permute(1, 2, 0)),
    "across, in pixels": ((7, 1536, 3), (0, 1, 2), lambda x: x.transpose(1, 2)),
    "across, in odd words": ((8, 133, 1000), (0, 1, 2), lambda x: x.transpose(1, 2)),
    "across, in images": ((20, 98, 48), (1, 2), lambda x: x.transpose(1, 2)),
    "across, in odd images": ((20, 99, 48), (1, 2), lambda x: x.transpose(1, 2)),
    "permuted narrow columns": ((5, 3, 1024, 4), 3, lambda x: x.permute(0, 3, 1, 2)),
    "steps": ((100, 258), 1, lambda x: x[::2, ::3]),
    "steps in planes": ((8, 6, 28, 28), (0, 2, 3), lambda x: x[:, :, ::2, ::2]),
    "expanded": ((50, 1), 1, lambda x: x.expand(50, 100)),
    "all": ((40_001,), (0,), lambda x: x),
    "all, misaligned": ((40_001,), (0,), lambda x: x[1:]),
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def test_layouts_are_of_every_family() -> None:
    dtypes = (torch.float32, torch.float16)
    plans = [plan(view(torch.empty(shape, dtype=t)), dim) for shape, dim, view in LAYOUTS.values() for t in dtypes]
    families = {p.family for p in plans}
    rows = {p.layout for p in plans if p.family == "rows"}
    assert families == {
        *("rows", "tiny_rows", "small_rows", "staged_rows", "columns", "few_rows", "narrow_columns"),
        *("lines", "word_tiles", "staged_tiles", "tiles", "boxes"),
        *("rows_across_memory", "copy"),
    }
    assert rows == {"aligned", "shifted", "runs", "split", "pitched", "strided"}


@each_layout
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sums_that_are_not_rounded(layout: str, dtype: torch.dtype, device: torch.device) -> None:
    """As autocast asks for them: by the kernels that round, but for that."""
    shape, dim, view = LAYOUTS[layout]
    for offset in (0, 1):
        memory = values(offset + math.prod(shape), dtype=dtype)
        x, there = (view(m[offset:].view(shape)) for m in (memory, memory.to(device)))
        assert_same_bits(reduce_ops.sum(there, dim, dtype=torch.float32), canonical_sum(x.float(), dim), offset)


@each_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.complex64], ids=str)
def test_special_values(layout: str, dtype: torch.dtype, device: torch.device) -> None:
    shape, dim, view = LAYOUTS[layout]
    inf, nan = float("inf"), float("nan")
    n = math.prod(shape)
    for special in ([inf], [-inf], [inf, -inf], [nan], [0.0], [nan, inf], []):
        x = torch.full((n,), -0.0, dtype=dtype)
        if dtype.is_complex:
            x = torch.complex(x.real, torch.full((n,), -0.0))
        places = torch.arange(len(special)) * 7 % n if special else torch.arange(0)
        x[places] = torch.tensor(special, dtype=dtype)
        x[n // 2 + places.flip(0)] = torch.tensor(special, dtype=dtype)
        x = view(x.view(shape)).to(device) if layout == "expanded" else view(x.view(shape).to(device))
        check(x, dim, (layout, special))


@each_layout
def test_negative_zeros(layout: str, device: torch.device) -> None:
    """No identity that is added anywhere turns a sum of nothing but -0.0 into +0.0."""
    shape, dim, view = LAYOUTS[layout]
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        x = view(torch.full(shape, -0.0, dtype=dtype, device=device))
        assert torch.signbit(reduce_ops.sum(x, dim)).all(), layout


@each_layout
def test_integers_wrap(layout: str, device: torch.device) -> None:
    shape, dim, view = LAYOUTS[layout]
    x = view(torch.full(shape, 2**63 - 1, device=device))
    sums = reduce_ops.sum(x, dim)
    n = x.numel() // sums.numel()
    expected = (n * (2**63 - 1) + 2**63) % 2**64 - 2**63
    assert torch.equal(sums, torch.full_like(sums, expected))
    small = view(torch.full(shape, 127, dtype=torch.int8, device=device))
    assert torch.equal(reduce_ops.sum(small, dim), torch.full_like(sums, 127 * n))
    assert_same_bits(reduce_ops.sum(small, dim, dtype=torch.int8), canonical_sum(small, dim, dtype=torch.int8))


@each_layout
def test_bool_is_any_byte_but_0(layout: str, device: torch.device) -> None:
    shape, dim, view = LAYOUTS[layout]
    x = view((torch.arange(math.prod(shape)) % 256).to(torch.uint8).view(shape).to(device))
    assert torch.equal(reduce_ops.sum(x.view(torch.bool), dim), (x != 0).sum(dim))


@each_layout
def test_converts_while_it_loads(layout: str, device: torch.device) -> None:
    shape, dim, view = LAYOUTS[layout]
    pairs = [
        *((torch.float16, torch.float32), (torch.bfloat16, torch.float64), (torch.float32, torch.float64)),
        *((torch.int8, torch.float32), (torch.bool, torch.float64), (torch.int32, torch.int64)),
        *((torch.complex64, torch.complex128), (torch.float32, torch.float16), (torch.int64, torch.int8)),
    ]
    for dtype, target in pairs:
        x = view(values(*shape, dtype=dtype).to(device))
        assert_same_bits(reduce_ops.sum(x, dim, dtype=target), canonical_sum(x, dim, dtype=target), (dtype, target))


def test_16_bits_are_rounded_once(device: torch.device) -> None:
    """2048 + 1 + 1 is 2050 in float32; in float16 each 1 would be lost."""
    x = torch.tensor([2048.0, 1.0, 1.0], dtype=torch.float16, device=device)
    for view, dim in ((x.repeat(9, 1), 1), (x.repeat(9, 1).t().contiguous(), 0), (x.repeat(9, 1).t(), 0)):
        assert (reduce_ops.sum(view, dim) == 2050).all()


def test_sizes_0_and_1(device: torch.device) -> None:
    for shape in ((0,), (1,), (0, 3), (3, 0), (1, 5), (5, 1), (1, 1, 1), (2, 0, 3), (0, 0), (4, 1, 5), (1, 0, 1)):
        for size in range(len(shape) + 1):
            for dim, keepdim in itertools.product(itertools.combinations(range(len(shape)), size), (False, True)):
                for dtype in (torch.float32, torch.float16, torch.int8, torch.float8_e5m2):
                    x = values(*shape, dtype=dtype).to(device)
                    expected = canonical_sum(x, dim, keepdim)
                    assert_same_bits(reduce_ops.sum(x, dim, keepdim), expected, (shape, dim, keepdim))
                    if x.numel() == 0:
                        assert not reduce_ops.sum(x, dim, keepdim).signbit().any()


# ---- arguments ----


def test_no_dims_are_all_dims(device: torch.device) -> None:
    x = values(3, 40, 50).to(device)
    total = canonical_sum(x)
    for dim in (None, [], (), (0, 1, 2), (-1, 0, 1)):
        assert_same_bits(reduce_ops.sum(x, dim), total)
        assert_same_bits(reduce_ops.sum(x, dim, keepdim=True), total.view(1, 1, 1))
    assert_same_bits(torch.ops.reduce.sum(x, None, False), total)


def test_dim_of_a_0_dim_tensor(device: torch.device) -> None:
    x = torch.tensor(2.5, device=device)
    for dim in (0, -1, (0,), [-1], [], None):
        assert_same_bits(reduce_ops.sum(x, dim), x)
        assert_same_bits(reduce_ops.sum(x, dim, keepdim=True), x)


@pytest.mark.parametrize(
    "shape, dim, error",
    [
        ((3, 4), 2, IndexError),
        ((3, 4), -3, IndexError),
        ((3, 4), (0, 5), IndexError),
        ((3, 4), 2**62, IndexError),
        ((), 1, IndexError),
        ((), -2, IndexError),
        ((0,), 1, IndexError),
        ((3, 4), (0, 0), RuntimeError),
        ((3, 4), (1, 0, -1), RuntimeError),
        ((), (0, -1), RuntimeError),
        ((1,) * 65, 0, RuntimeError),
        ((1,) * 65, (3, 4), RuntimeError),
    ],
    ids=str,
)
def test_bad_dims(shape: tuple[int, ...], dim: int | tuple[int, ...], error: type, device: torch.device) -> None:
    """As torch.sum's errors, on every device."""
    for place in (device, torch.device("meta")):
        x = torch.ones(shape, device=place)
        with pytest.raises(error) as theirs:
            torch.sum(x, dim)
        with pytest.raises(error) as ours:
            reduce_ops.sum(x, dim)
        assert type(ours.value) is type(theirs.value)
        out = torch.empty((), device=place)
        with pytest.raises(error):
            reduce_ops.sum(x, dim, out=out)


def test_64_dimensions(device: torch.device) -> None:
    x = values(*((2, 1) * 12), *((1,) * 40)).to(device)
    for dim in (0, 63, (0, 2, 63), tuple(range(64))):
        check(x, dim)


def test_more_than_64_dimensions(device: torch.device) -> None:
    """Where no dim is named, as torch.sum takes them, but for dim=None with keepdim=True, which it refuses."""
    x = values(3, *((1,) * 40), 5, *((1,) * 30), 2).to(device)
    total = canonical_sum(x.squeeze())
    for dim in (None, ()):
        assert_same_bits(reduce_ops.sum(x, dim), total)
        kept = reduce_ops.sum(x, dim, keepdim=True)
        assert kept.shape == (1,) * x.dim()
        assert_same_bits(kept.reshape(()), total)
    assert_same_bits(torch.ops.reduce.sum(x.transpose(0, -1)), canonical_sum(x.transpose(0, -1).squeeze()))
    assert_same_bits(reduce_ops.sum(x, out=torch.empty((), device=device)), total)
    assert_same_bits(reduce_ops.sum(x[:0]), torch.zeros((), device=device))
    y = x.clone().requires_grad_()
    reduce_ops.sum(y).backward()
    assert y.grad is not None and y.grad.shape == y.shape
    assert torch.equal(y.grad.squeeze(), torch.ones(3, 5, 2, device=device))
    for dtype in (torch.float32, torch.complex64, torch.int64):
        assert reduce_ops.sum_exact(torch.ones(x.shape, dtype=dtype, device=device)) == 30


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_refused(device: torch.device) -> None:
    x = torch.ones(4, 6, device=device)
    for bad in not_dense(device).values():
        with pytest.raises(NotImplementedError, match="sum: self is"):
            reduce_ops.sum(bad, 1)
    with pytest.raises(NotImplementedError, match="self has dtype"):
        reduce_ops.sum(torch.empty(8, 2, dtype=torch.bits8, device=device), 1)
    with pytest.raises(RuntimeError, match="dtype.*cannot hold"):
        reduce_ops.sum(x.to(torch.complex64), 1, dtype=torch.float32)


# ---- out= ----


@each_layout
def test_out(layout: str, device: torch.device) -> None:
    shape, dim, view = LAYOUTS[layout]
    for dtype in (torch.float32, torch.float16, torch.int64):
        x = view(values(*shape, dtype=dtype).to(device))
        expected = canonical_sum(x, dim, keepdim=True)
        out = torch.empty(expected.shape, dtype=dtype, device=device)
        assert reduce_ops.sum(x, dim, True, out=out) is out
        assert_same_bits(out, expected)
    half = torch.empty(0, dtype=torch.float16, device=device)
    assert_same_bits(reduce_ops.sum(x, dim, dtype=torch.float16, out=half), canonical_sum(x, dim, dtype=torch.float16))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_of_any_layout(device: torch.device) -> None:
    x = values(20, 300, 7).to(device)
    expected = canonical_sum(x, 1)
    for out in (
        torch.empty(0, device=device),
        torch.empty(3, device=device),  # resized
        torch.empty(20, 8, 7, device=device)[:, 3],
        torch.empty(7, 20, device=device).t(),
        torch.empty(40, 14, device=device)[::2, 1::2],
    ):
        place = out.data_ptr() if out.shape == expected.shape else None
        assert reduce_ops.sum(x, 1, out=out) is out
        assert_same_bits(out, expected)
        assert place in (None, out.data_ptr())
    conjugate = torch.empty(20, 7, dtype=torch.complex64, device=device).conj()
    z = torch.complex(x, x + 1)
    assert_same_bits(reduce_ops.sum(z, 1, out=conjugate).resolve_conj(), canonical_sum(z, 1))


def test_out_of_the_inputs_own_memory(device: torch.device) -> None:
    for start in (0, 5, 17):
        x = values(64, 64).to(device)
        for dim, out in ((0, x[start]), (1, x[:, start]), (1, x[start]), (0, x[:, start])):
            expected = canonical_sum(x.clone(), dim)
            assert_same_bits(reduce_ops.sum(x, dim, out=out), expected)
    shifted = values(101).to(device)
    expected = canonical_sum(shifted[:100].view(100, 1), 1)
    assert_same_bits(reduce_ops.sum(shifted[:100].view(100, 1), 1, out=shifted[1:]), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_out_is_the_input(dtype: torch.dtype, device: torch.device) -> None:
    original = values(6, 4, dtype=dtype).to(device)
    for view in (original, original.t(), original[::2], original[:, 1:]):
        for dim, keepdim in itertools.product((0, 1, None), (False, True)):
            expected = reduce_ops.sum(view, dim, keepdim)
            x = view.clone()
            assert reduce_ops.sum(x, dim, keepdim, out=x) is x
            assert_same_bits(x, expected, (view.stride(), dim, keepdim))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_out_errors(device: torch.device) -> None:
    x = torch.ones(5, 3, device=device)
    with pytest.raises(RuntimeError, match="out.*dtype"):
        reduce_ops.sum(x, 1, dtype=torch.float64, out=torch.empty(5, device=device))
    with pytest.raises(RuntimeError, match="out.*dtype"):
        reduce_ops.sum(x.half(), 1, dtype=torch.float32, out=torch.empty(5, dtype=torch.float16, device=device))
    with pytest.raises(RuntimeError, match="out.*device"):
        reduce_ops.sum(x, 1, out=torch.empty(5, device="meta" if device.type == "cpu" else "cpu"))
    for bad in not_dense(device).values():
        with pytest.raises(NotImplementedError, match="sum: out is"):
            reduce_ops.sum(x, 1, out=bad)
    functional = torch.func.functionalize(lambda x, out: reduce_ops.sum(x, 1, out=out))
    with pytest.raises(RuntimeError, match="out to be strided"):
        functional(x, torch.empty(5, device=device).to_sparse())
    with pytest.raises(RuntimeError, match="single memory location"):
        reduce_ops.sum(x, 1, out=torch.empty(1, device=device).expand(5))


# ---- without data, and compiled ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_meta(dtype: torch.dtype) -> None:
    x = torch.empty(2, 3, 4, 5, dtype=dtype, device="meta")
    for dim, keepdim in itertools.product((0, -1, (1, 3), (-4, 2), [], None), (False, True)):
        actual = reduce_ops.sum(x, dim, keepdim)
        assert actual.is_meta
        assert actual.dtype == oracle.result_dtype(dtype)
        assert actual.shape == torch.empty(x.shape, device="meta").sum(dim, keepdim).shape
        assert reduce_ops.sum(x, dim, keepdim, dtype=torch.complex64).dtype == torch.complex64
    out = torch.empty(0, dtype=oracle.result_dtype(dtype), device="meta")
    assert reduce_ops.sum(x, (0, 2), out=out).shape == (3, 5)
    huge = torch.empty(2**30, 2**21, dtype=dtype, device="meta")
    assert reduce_ops.sum(huge, 0).shape == (2**21,)


def test_fake_tensors_have_the_strides_of_the_real_ones(device: torch.device) -> None:
    x = values(4, 3, 5, 6).to(device)
    for real in (x, x.contiguous(memory_format=torch.channels_last), x.mT, x[:, ::2], x[:1].expand(7, 3, 5, 6)):
        for dim, keepdim in itertools.product((0, (2, 3), (0, 2, 3), ()), (False, True)):
            with FakeTensorMode() as mode:
                fake = reduce_ops.sum(mode.from_tensor(real), dim, keepdim)
            actual = reduce_ops.sum(real, dim, keepdim)
            assert (fake.shape, fake.stride(), fake.dtype) == (actual.shape, actual.stride(), actual.dtype)
            assert fake.device.type == device.type


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.complex64], ids=str)
def test_opcheck(dtype: torch.dtype, device: torch.device) -> None:
    x = values(6, 50, 10, dtype=dtype).to(device)
    op = torch.ops.reduce.sum.dim_IntList
    torch.library.opcheck(op, (x, [1]))
    torch.library.opcheck(op, (x.mT, [0, -1], True), {"dtype": torch.complex128})
    torch.library.opcheck(op, (x, None))
    out = torch.empty(6, 10, dtype=oracle.result_dtype(dtype), device=device)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.reduce.sum.IntList_out, (x, [1]), {"out": out}, test_utils=checks)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: reduce_ops.sum(x, 0),
        lambda x: reduce_ops.sum(x, -1, True),
        lambda x: reduce_ops.sum(x, (0, 2)),
        lambda x: reduce_ops.sum(x, [1, -1], keepdim=True, dtype=torch.float64),
        lambda x: reduce_ops.sum(x, keepdim=True),
        lambda x: torch.ops.reduce.sum(x, 1),
        lambda x: reduce_ops.sum(x.mT, x.dim() - 1),
    ],
)
def test_one_graph_serves_all_sizes(function: Callable[[torch.Tensor], torch.Tensor], device: torch.device) -> None:
    torch.compiler.reset()
    backend = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x: function(x) * 2, backend=backend, dynamic=True, fullgraph=True)
    for shape in ((3, 4, 5), (7, 5, 300), (100, 2, 33), (9, 1025, 8), (2, 3, 4)):
        x = values(*shape).to(device)
        assert_same_bits(compiled(x), function(x) * 2, shape)
    assert backend.frame_count == 1


@pytest.mark.parametrize("index", [np.int64, torch.tensor], ids=["numpy", "tensor"])
def test_what_is_an_index_is_a_dim(index: Callable[[int], int]) -> None:
    x = values(3, 4)
    for function in (reduce_ops.sum, reduce_ops.sum_exact):
        assert_same_bits(function(x, index(1)), function(x, 1))


def test_symbolic_dim(device: torch.device) -> None:
    """A number that dynamic=True makes a symbol; it becomes a constant again, as torch.sum's does."""
    torch.compiler.reset()
    compiled = torch.compile(lambda x, d: reduce_ops.sum(x, d), backend="aot_eager", dynamic=True, fullgraph=True)
    x = values(6, 7, 8).to(device)
    for dim in (0, 1, 2, -1, -3):
        assert_same_bits(compiled(x, dim), canonical_sum(x, dim))
    assert_same_bits(compiled(x, [0, 2]), canonical_sum(x, [0, 2]))
