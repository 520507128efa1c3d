"""Sums along dimensions on a busy GPU: streams, graphs, starved launches, sizes past 2^31, memory, launches."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
import torch

import reduce_ops
from support import (
    COLUMN_WAVE_DTYPES,
    COLUMN_WAVE_GPUS,
    COLUMN_WAVES,
    COMPLEX,
    DTYPES,
    FLOATS,
    H200,
    INTEGERS,
    MANY_SINGLE_COLUMNS,
    assert_same_bits,
    gpu_memory_taken,
    in_threads,
    one_multiprocessor,
    plan,
    random_values,
    rows_in_many_dimensions,
)

pytestmark = pytest.mark.gpu

Dims = int | tuple[int, ...] | None


@dataclass(frozen=True)
class Kind:
    """One way to sum: the shape of a contiguous tensor, the view of it that is summed, and the dimensions."""

    shape: tuple[int, ...]
    dim: Dims
    view: Callable[[torch.Tensor], torch.Tensor] = lambda x: x


CONTIGUOUS = {
    "all": Kind((1_000_003,), None),
    "all, one block": Kind((1000,), None),
    "all, some blocks": Kind((40_001,), None),
    "all, several tiles": Kind((2**23 + 2**20,), None),
    "short rows": Kind((200_001, 3), 1),
    "small rows": Kind((50_001, 32), 1),
    "odd rows": Kind((9001, 257), 1),
    "rows": Kind((512, 4096), 1),
    "long odd rows": Kind((270, 20_001), 1),
    "few long rows": Kind((3, 2**20), 1),
    "few long odd rows": Kind((3, 2**20 - 1), 1),
    "narrow columns": Kind((2**18, 8), 0),
    "3 columns": Kind((2**19 + 1, 3), 0),
    "16 columns": Kind((2**17, 16), 0),
    "32 columns": Kind((2**16 + 1, 32), 0),
    "31 columns": Kind((2**16 + 1, 31), 0),
    "batch of narrow columns": Kind((300, 600, 4), 1),
    "columns": Kind((2**13, 512), 0),
    "odd columns": Kind((2**13 + 1, 257), 0),
    "few rows": Kind((8, 2**18), 0),
    "2 rows": Kind((2, 2**20 + 4), 0),
    "batch of few rows": Kind((700, 3, 1000), 1),
    "33 rows": Kind((33, 1000), 0),
    "inner": Kind((16, 300, 1000), 1),
    "odd columns, apart": Kind((23, 17, 2, 5001), (0, 2)),
    "inner and outer": Kind((16, 300, 1000), (0, 1)),
    "apart": Kind((32, 3, 112, 112), (0, 2, 3)),
    "apart, odd": Kind((33, 3, 55, 55), (0, 2, 3)),
    "planes": Kind((90, 300, 7, 7), (0, 2, 3)),
}
KINDS = CONTIGUOUS | {
    "misaligned rows": Kind((512, 4097), 1, lambda x: x[:, 1:]),
    "transposed": Kind((4096, 700), 1, lambda x: x.t()),
    "transposed, all": Kind((1024, 1000), None, lambda x: x.t()),
    "transposed, all, odd": Kind((1023, 1001), None, lambda x: x.t()),
    "across": Kind((300, 3, 1001), (0, 2), lambda x: x.permute(2, 1, 0)),
    "across, short lines": Kind((15, 700, 184), (0, 2), lambda x: x.permute(2, 1, 0)),
    "across, outputs side by side": Kind((300, 1001, 3), (0, 1), lambda x: x.transpose(0, 1)),
    "across, from pairs to pairs": Kind((300, 1001, 2), None, lambda x: x.transpose(0, 1)),
    "across, in boxes": Kind((3, 30_000, 7), (0, 2), lambda x: x.permute(1, 2, 0)),
    "across, in pixels": Kind((17, 2**16, 4), (1, 2), lambda x: x.transpose(1, 2)),
    "across, in pixels, all": Kind((147, 3072, 5), None, lambda x: x.transpose(1, 2)),
    "across, from one matrix to the next": Kind((40, 300, 70), None, lambda x: x.transpose(1, 2)),
    "permuted batch": Kind((50, 70, 1001), 2, lambda x: x.transpose(0, 1)),
    "permuted": Kind((50, 70, 301, 1), 3, lambda x: x.permute(2, 1, 0, 3)),
    "permuted, few rows": Kind((2, 7, 30, 1001), 0, lambda x: x.permute(0, 3, 2, 1)),
    "permuted, chunks of columns": Kind((20, 3, 40_001), 0, lambda x: x.permute(0, 2, 1)),
    "steps": Kind((1000, 3000), 1, lambda x: x[::2, ::3]),
    "steps, few rows": Kind((3, 2**20), 1, lambda x: x[:, ::2]),
    "channels_last": Kind((32, 56, 56, 64), (0, 2, 3), lambda x: x.permute(0, 3, 1, 2)),
    "expanded": Kind((3, 1, 4000), (0, 1), lambda x: x.expand(-1, 200, -1)),
    "expanded, across": Kind((32, 1024), None, lambda x: x.t().expand(2200, -1, -1)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)

# Those that split an output over blocks, where launches could meet.
SPLIT = ("all", "few long rows", "few long odd rows", "narrow columns", "3 columns", "32 columns", "31 columns")
SPLIT += ("columns", "odd columns", "apart", "apart, odd", "transposed, all", "steps, few rows")


def pair(kind: Kind, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """An input on the GPU, and its sums by the CPU."""
    base = random_values(torch.Size(kind.shape).numel(), dtype, seed).view(kind.shape)
    return kind.view(base.cuda()), reduce_ops.sum(kind.view(base), kind.dim)


def capture(work: Callable[[], list[torch.Tensor]]) -> tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]:
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work()
    return graph, results


@pytest.fixture(scope="module")
def split_pairs() -> Iterator[list[tuple[torch.Tensor, Dims, torch.Tensor]]]:
    pairs = []
    for name in SPLIT:
        x, expected = pair(KINDS[name])
        pairs.append((x, KINDS[name].dim, expected.cuda()))
    torch.cuda.synchronize()
    yield pairs
    pairs.clear()
    torch.cuda.empty_cache()


# ---- launches that overlap ----


def test_streams_and_a_replaying_graph_overlap(
    split_pairs: list[tuple[torch.Tensor, Dims, torch.Tensor]],
) -> None:
    """Three streams and a graph sum the same inputs in different orders; every result is compared."""
    graph, results = capture(lambda: [reduce_ops.sum(x, dim) for _ in range(5) for x, dim, _ in split_pairs])
    streams = [torch.cuda.Stream() for _ in range(4)]
    wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in streams]
    torch.cuda.synchronize()
    for step in range(100):
        with torch.cuda.stream(streams[-1]):
            graph.replay()
            for i, result in enumerate(results):
                wrong[-1] += result.ne(split_pairs[i % len(split_pairs)][2]).sum()
        for s, stream in enumerate(streams[:-1]):
            with torch.cuda.stream(stream):
                for i in range(len(split_pairs)):
                    x, dim, expected = split_pairs[(i * (s + 1) + step) % len(split_pairs)]
                    wrong[s] += reduce_ops.sum(x, dim).ne(expected).sum()
    torch.cuda.synchronize()
    assert [count.item() for count in wrong] == [0] * len(streams)


def test_two_graphs_overlap(split_pairs: list[tuple[torch.Tensor, Dims, torch.Tensor]]) -> None:
    def sums() -> list[torch.Tensor]:
        return [reduce_ops.sum(x, dim) for x, dim, _ in split_pairs]

    graphs = [capture(sums), capture(sums)]
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in streams]
    torch.cuda.synchronize()
    for _ in range(200):
        for (graph, results), stream, count in zip(graphs, streams, wrong, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
                for result, (_, _, expected) in zip(results, split_pairs, strict=True):
                    count += result.ne(expected).sum()
    torch.cuda.synchronize()
    assert [count.item() for count in wrong] == [0, 0]


def test_threads_share_a_stream(split_pairs: list[tuple[torch.Tensor, Dims, torch.Tensor]]) -> None:
    stream = torch.cuda.Stream()
    results: list[list[torch.Tensor]] = [[] for _ in split_pairs]
    torch.cuda.synchronize()

    def work(i: int) -> None:
        with torch.cuda.stream(stream):
            for _ in range(200):
                results[i].append(reduce_ops.sum(split_pairs[i][0], split_pairs[i][1]))

    in_threads(work, len(split_pairs))
    torch.cuda.synchronize()
    for mine, (_, _, expected) in zip(results, split_pairs, strict=True):
        assert_same_bits(torch.stack(mine), expected.expand(len(mine), *expected.shape))


@each_kind
def test_graph_replays_with_new_values(kind: str) -> None:
    x, expected = pair(KINDS[kind])
    graph, (sums,) = capture(lambda: [reduce_ops.sum(x, KINDS[kind].dim)])
    graph.replay()
    assert_same_bits(sums, expected)
    storage = torch.empty(0, device="cuda").set_(x.untyped_storage())
    for seed in (1, 2):
        base = random_values(storage.numel(), torch.float32, seed)
        storage.copy_(base)
        graph.replay()
        view = KINDS[kind].view(base.view(KINDS[kind].shape))
        assert_same_bits(sums, reduce_ops.sum(view, KINDS[kind].dim), seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128], ids=str)
def test_one_multiprocessor(dtype: torch.dtype) -> None:
    """Room for few blocks at a time: one that waits for others must not keep them from running."""
    kinds = (
        *(Kind((3, 2**22), 1), Kind((2**20, 8), 0), Kind((2**15, 257), 0), Kind((3, 2**20 + 1), 1)),
        *(Kind((2**21, 3), 0), Kind((2**18, 32), 0), Kind((64, 3, 112, 112), (0, 2, 3)), Kind((2**14, 512), 0)),
        *(Kind((2**20, 3), 1, lambda x: x.t()), Kind((2**12, 2**10), None, lambda x: x.t())),
    )
    pairs = [(*pair(kind, dtype), kind.dim) for kind in kinds]
    for x, expected, dim in pairs:
        assert_same_bits(reduce_ops.sum(x, dim), expected, (tuple(x.shape), dim))
    with one_multiprocessor():
        for x, expected, dim in pairs:
            for _ in range(20):
                assert_same_bits(reduce_ops.sum(x, dim), expected, (tuple(x.shape), dim))


# ---- sizes that a CPU is slow for ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "shape, dim",
    [
        ((70_000, 513, 2), 1),  # more than a grid's second dimension has, each split or not
        ((70_000, 5, 100), 1),
        ((5000, 200_000), 0),
        ((40_000, 5003), 1),
        ((2**26 + 1, 7), 0),
        ((2**25 + 3, 17), 0),
        ((7, 2**26 + 1), 1),
        ((2**24 + 1, 33), 1),
        ((300_000, 3, 301), (0, 2)),
        ((3, 300_001, 2, 151), (1, 3)),
        ((2000, 3, 20_001), (0, 2)),
        ((70_000, 30, 41), (1, 2)),
    ],
    ids=str,
)
def test_layouts_agree(shape: tuple[int, ...], dim: Dims, dtype: torch.dtype) -> None:
    """The same elements lie in other orders in memory, where other kernels sum them."""
    generator = torch.Generator("cuda").manual_seed(1)
    x = torch.empty(shape, dtype=dtype, device="cuda").normal_(generator=generator)
    sums = reduce_ops.sum(x, dim)
    for first in range(1, len(shape)):
        other = x.movedim(first, 0).contiguous().movedim(0, first)
        assert_same_bits(reduce_ops.sum(other, dim), sums, (other.stride(), dim))
        del other
    padded = torch.empty((*shape[:-1], shape[-1] + 1), dtype=dtype, device="cuda")[..., 1:].copy_(x)
    assert_same_bits(reduce_ops.sum(padded, dim), sums, (padded.stride(), dim))


# ---- sizes past 2^31 ----


def needs_gib(gib: int) -> None:
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < gib * 2**30:
        pytest.skip(f"needs {gib} GiB of GPU memory")


N = 2**31 + 5
CHUNK = 2**28


def chunks() -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, N)) for start in range(0, N, CHUNK))


@pytest.fixture
def counting() -> Iterator[torch.Tensor]:
    """2 N small integers, whose sums by two are exact in float16."""
    needs_gib(20)
    x = torch.empty(2 * N, dtype=torch.float16, device="cuda")
    for start in range(0, 2 * N, CHUNK):
        part = x[start : start + CHUNK]
        part.copy_((torch.arange(start, start + part.numel(), device="cuda") * 7919) % 1021)
    yield x
    del x
    torch.cuda.empty_cache()


def test_outputs_past_31_bits(counting: torch.Tensor) -> None:
    for x, dim in ((counting.view(2, N), 0), (counting.view(N, 2), 1), (counting.view(N, 2).t(), 0)):
        sums = reduce_ops.sum(x, dim)
        assert sums.shape == (N,)
        for part in chunks():
            expected = x[:, part].sum(0) if dim == 0 else x[part].sum(1)
            assert torch.equal(sums[part], expected), (x.stride(), dim, part)
        del sums


def test_outputs_past_31_bits_of_expanded_input(counting: torch.Tensor) -> None:
    row = counting[1 : N + 1]
    sums = reduce_ops.sum(row.expand(2, N), 0)
    for part in chunks():
        assert torch.equal(sums[part], 2 * row[part]), part
    reduce_ops.sum(row.view(N, 1).expand(N, 2), 1, out=sums)
    for part in chunks():
        assert torch.equal(sums[part], 2 * row[part]), part
    sums.zero_()
    reduce_ops.sum(row.view(N, 1), 1, out=sums)
    for part in chunks():
        assert torch.equal(sums[part], row[part]), part
    del sums
    ones = reduce_ops.sum(torch.ones(1, dtype=torch.float16, device="cuda").expand(3, N, 1), (0, 2))
    assert ones.shape == (N,)
    assert all((ones[part] == 3).all() for part in chunks())


@pytest.mark.slow
def test_more_rows_than_a_grid_has_warps() -> None:
    """2^33 and more, where the kernel that gives a warp to each would need 2^31 blocks."""
    needs_gib(40)
    outputs = 2**33 + 8
    memory = torch.randn(outputs + 200, dtype=torch.float16, device="cuda")
    x = memory.as_strided((outputs, 200), (1, 1))
    sums = reduce_ops.sum(x, 1)
    for start in (0, 2**31 - 500, 2**32 - 500, 2**33 - 992):
        part = slice(start, start + 1000)
        assert_same_bits(sums[part], reduce_ops.sum(x[part], 1), start)
        assert_same_bits(sums[part], reduce_ops.sum(x[part].cpu(), 1), start)


@pytest.mark.parametrize("shape, dim", [((2, N), 1), ((N, 2), 0), ((N, 3), 0), ((N, 1), 0), ((2, N, 1), (0, 1))])
def test_reduced_past_31_bits(shape: tuple[int, ...], dim: Dims) -> None:
    needs_gib(10)
    x = torch.ones(shape, dtype=torch.int8, device="cuda")
    flat = x.view(-1)
    flat[-1] = -5
    flat[0] = 100
    expected = torch.empty_like(torch.empty(shape, device="meta").sum(dim), dtype=torch.int64, device="cuda")
    expected.fill_(x.numel() // expected.numel())
    expected[0] += 99
    expected[-1] -= 6
    assert torch.equal(reduce_ops.sum(x, dim), expected)
    if isinstance(dim, int):
        assert torch.equal(reduce_ops.sum(x.t(), 1 - dim), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int8, torch.complex64], ids=str)
@pytest.mark.parametrize("columns", [2, 3, 8, 12, 16, 32, 40, 64, 65])
def test_many_tiles_a_block(columns: int, dtype: torch.dtype) -> None:
    """The plan for a small GPU: blocks take so many rows that they fold in groups, and counters have many levels."""
    x = random_values(150_001 * columns, dtype).view(-1, columns)
    expected = reduce_ops.sum(x, 0)
    for multiprocessors in (1, 2, 16):
        assert_same_bits(torch.ops.reduce._sum_as_on(x.cuda(), 0, multiprocessors=multiprocessors), expected)


@pytest.mark.parametrize("dtype", COLUMN_WAVE_DTYPES, ids=str)
@pytest.mark.parametrize("shape", COLUMN_WAVES)
def test_waves_of_columns(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Blocks of more than 256 threads, planned for GPUs so small that little data is a wave."""
    x = random_values(math.prod(shape), dtype).view(shape)
    expected = reduce_ops.sum(x, 1)
    on_gpu = x.cuda()
    for multiprocessors in COLUMN_WAVE_GPUS:
        assert_same_bits(torch.ops.reduce._sum_as_on(on_gpu, 1, multiprocessors=multiprocessors), expected)


@pytest.mark.parametrize("dtype", COLUMN_WAVE_DTYPES, ids=str)
@pytest.mark.parametrize("shape", MANY_SINGLE_COLUMNS)
def test_many_single_columns(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    x = random_values(math.prod(shape), dtype).view(shape)
    on_gpu = x.cuda()
    for multiprocessors in (1, 2):
        assert_same_bits(torch.ops.reduce._sum_as_on(on_gpu, 1, multiprocessors=multiprocessors), reduce_ops.sum(x, 1))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64], ids=str
)
@pytest.mark.parametrize("run", [64, 65, 71, 79, 127, 1001, 30_003])
def test_neighbours_that_begin_anywhere(run: int, dtype: torch.dtype) -> None:
    """The last of a run begin earlier; those of two bytes in the middle of a word, or where the memory ends."""
    kinds = (
        Kind((600_000 // run, run), 0),
        Kind((70, 5 * run), 0),
        Kind((50, 70, run), 1),
        Kind((33, 9, 5, run), (0, 2)),  # rows in two dimensions
        Kind((3, 70, 7, run), (0, 1), lambda x: x.transpose(0, 1)),
        Kind((40, 11, run), 0, lambda x: x.transpose(1, 2)),  # no neighbours in the result
        Kind((20, 3, 33_000 + run), 0, lambda x: x.transpose(1, 2)),  # so that they are taken in chunks
    )
    anywhere = []
    for kind in kinds:
        for offset in (0, 1):
            memory = random_values(offset + math.prod(kind.shape), dtype)
            x, on_gpu = (kind.view(m[offset:].view(kind.shape)) for m in (memory, memory.cuda()))
            expected = reduce_ops.sum(x, kind.dim)
            for multiprocessors in (1, 2, 8):
                anywhere.append(plan(on_gpu, kind.dim, multiprocessors).anywhere)
                sums = torch.ops.reduce._sum_as_on(on_gpu, kind.dim, multiprocessors=multiprocessors)
                assert_same_bits(sums, expected, (kind.shape, offset, multiprocessors))
    assert any(anywhere)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("length", [2, 3, 5, 8, 15, 16, 17, 31, 33, 60, 72, 150, 200, 300])
def test_tiles_in_shared_memory(length: int, dtype: torch.dtype) -> None:
    """Short lines that lie in runs of any length, that begin anywhere, also where the memory ends.

    To few multiprocessors it is much data, of which longer lines are staged.
    """
    for turn, outer in ((31, 1), (32, 40), (33, 40), (100, 9), (119, 70), (513, 3), (1024, 2), (5000, 1), (4999, 3)):
        for offset in (0, 1, 7):
            memory = random_values(offset + outer * length * turn, dtype)
            x, on_gpu = (m[offset:].view(outer, length, turn).transpose(1, 2) for m in (memory, memory.cuda()))
            for dim in (None, (1, 2)):
                expected = reduce_ops.sum(x, dim)
                assert_same_bits(reduce_ops.sum(on_gpu, dim), expected, (turn, outer, offset, dim))
                for multiprocessors in (2, H200):
                    sums = torch.ops.reduce._sum_as_on(on_gpu, dim, multiprocessors=multiprocessors)
                    assert_same_bits(sums, expected, (turn, outer, offset, dim, multiprocessors))


def assert_taken_by(family: str, kind: Kind, dtype: torch.dtype, offset: int) -> None:
    """The bits of a view that begins at any element, from certain kernels: by the plan of a GPU that would run them."""
    memory = random_values(offset + math.prod(kind.shape), dtype)
    x, on_gpu = (kind.view(m[offset:].view(kind.shape)) for m in (memory, memory.cuda()))
    expected = reduce_ops.sum(x, kind.dim)
    assert_same_bits(reduce_ops.sum(on_gpu, kind.dim), expected, (kind.shape, offset))
    sizes = [size for size in (H200, 16, 4, 1) if plan(on_gpu, kind.dim, size).family == family]
    assert sizes, (kind.shape, family)
    sums = torch.ops.reduce._sum_as_on(on_gpu, kind.dim, multiprocessors=sizes[0])
    assert_same_bits(sums, expected, (kind.shape, offset, sizes[0]))


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str
)
@pytest.mark.parametrize("inner", [(2,), (31,), (3, 5), (15, 2), (2, 2, 2, 2), (5, 6), (7, 3, 2), (2, 17)], ids=str)
def test_lines_that_turn_often(inner: tuple[int, ...], dtype: torch.dtype) -> None:
    """Along dimensions shorter than what a lane loads at once, one or several."""
    for outer in ((40, 70), (9, 4, 100), (33, 300), (70, 2, 20)):
        held_reversed = Kind((*inner[::-1], *outer[::-1]), None, lambda x: x.permute(*reversed(range(x.dim()))))
        for offset in (0, 1):
            assert_taken_by("lines", held_reversed, dtype, offset)


TURNING = {
    "nothing around": Kind((6, 5, 3000), None, lambda x: x.permute(2, 1, 0)),
    "several outputs": Kind((3, 6, 5, 300, 40), (1, 2, 3, 4), lambda x: x.permute(0, 4, 3, 2, 1)),
    "permuted outputs": Kind((2, 3, 6, 5, 30, 40), (2, 3, 4, 5), lambda x: x.permute(1, 0, 5, 4, 3, 2)),
    "one element again and again": Kind((300, 40), None, lambda x: x.t().unsqueeze(-1).expand(40, 300, 3)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("kind", TURNING.values(), ids=TURNING)
def test_lines_of_any_layout_that_turn_often(kind: Kind, dtype: torch.dtype) -> None:
    for offset in (0, 3):
        assert_taken_by("lines", kind, dtype, offset)


STAGED = {
    "several outputs": Kind((5, 90, 7, 40), (1, 2, 3), lambda x: x.transpose(2, 3)),
    "permuted outputs": Kind((90, 5, 7, 3, 40), (2, 3, 4), lambda x: x.permute(3, 1, 0, 4, 2)),
    "turns within a row": Kind((7, 90, 45), None, lambda x: x[..., :40].permute(1, 2, 0)),
    "gaps between rows": Kind((90, 7, 45), None, lambda x: x[..., 2:42].transpose(1, 2)),
    "one row again and again": Kind((90, 1, 40), None, lambda x: x.expand(90, 7, 40).transpose(1, 2)),
    "rows that share elements": Kind((90, 70), None, lambda x: x.unfold(1, 40, 5).transpose(1, 2)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("kind", STAGED.values(), ids=STAGED)
def test_tiles_of_any_layout(kind: Kind, dtype: torch.dtype) -> None:
    for offset in (0, 3):
        assert_taken_by("staged_tiles", kind, dtype, offset)


WORDS = {
    "all": Kind((37, 0, 40), None, lambda x: x.transpose(1, 2)),
    "tiles of lines of several images": Kind((601, 0, 24), None, lambda x: x.transpose(1, 2)),
    "a last tile of some lines": Kind((0, 1000), None, lambda x: x.t()),
    "several outputs": Kind((5, 90, 0, 40), (1, 2, 3), lambda x: x.transpose(2, 3)),
    "permuted outputs": Kind((90, 5, 0, 3, 40), (2, 3, 4), lambda x: x.permute(3, 1, 0, 4, 2)),
    "gaps between rows": Kind((90, 0, 56), None, lambda x: x[..., 8:48].transpose(1, 2)),
    "more dimensions": Kind((2, 30, 0, 40), None, lambda x: x.permute(1, 0, 3, 2)),
    "one image again and again": Kind((1, 0, 40), None, lambda x: x.expand(90, -1, 40).transpose(1, 2)),
}
"""Of which 0 stands for the length of a line."""


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64], ids=str
)
@pytest.mark.parametrize("length", [18, 20, 24, 98, 100, 784])
@pytest.mark.parametrize("kind", WORDS.values(), ids=WORDS)
def test_tiles_of_words(kind: Kind, length: int, dtype: torch.dtype) -> None:
    """Lines whose parts of 2, 4 and 8 elements are nodes."""
    shape = tuple(size or length for size in kind.shape)
    assert_taken_by("word_tiles", Kind(shape, kind.dim, kind.view), dtype, 0)


ODD_WORDS = {
    "all": Kind((37, 0, 240), None, lambda x: x.transpose(1, 2)),
    "a last tile of some lines": Kind((0, 9000), None, lambda x: x.t()),
    "several outputs": Kind((5, 31, 0, 64), (1, 2, 3), lambda x: x.transpose(2, 3)),
    "permuted outputs": Kind((31, 5, 0, 3, 64), (2, 3, 4), lambda x: x.permute(3, 1, 0, 4, 2)),
    "tiles that are not full": Kind((31, 0, 104), (1, 2), lambda x: x.transpose(1, 2)),
    "gaps between rows": Kind((37, 0, 256), None, lambda x: x[..., 8:248].transpose(1, 2)),
    "more dimensions": Kind((2, 16, 0, 240), None, lambda x: x.permute(1, 0, 3, 2)),
    "one image again and again": Kind((1, 0, 240), None, lambda x: x.expand(37, -1, 240).transpose(1, 2)),
}


SMALL_IMAGES = {
    "each": Kind((150, 0, 40), (1, 2), lambda x: x.transpose(1, 2)),
    "permuted outputs": Kind((30, 5, 0, 40), (2, 3), lambda x: x.transpose(0, 1).transpose(2, 3)),
    "gaps between rows": Kind((150, 0, 56), (1, 2), lambda x: x[..., 8:48].transpose(1, 2)),
    "more dimensions": Kind((2, 75, 0, 24), (0, 2, 3), lambda x: x.transpose(2, 3)),
    "one image again and again": Kind((1, 0, 40), (1, 2), lambda x: x.expand(150, -1, 40).transpose(1, 2)),
}


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64], ids=str
)
@pytest.mark.parametrize("length", [104, 106, 108, 112, 168])
@pytest.mark.parametrize("kind", SMALL_IMAGES.values(), ids=SMALL_IMAGES)
def test_small_images(kind: Kind, length: int, dtype: torch.dtype) -> None:
    """A tile each, whose sum is rounded or not, in one launch."""
    shape = tuple(size or length for size in kind.shape)
    memory = random_values(math.prod(shape), dtype).view(shape)
    x, on_gpu = kind.view(memory), kind.view(memory.cuda())
    assert plan(on_gpu, kind.dim).family == "word_tiles"
    for result in {dtype, torch.float32 if dtype.itemsize == 2 else dtype}:
        total = partial(reduce_ops.sum, dim=kind.dim, dtype=result)
        assert_same_bits(total(on_gpu), total(x), result)
        assert nodes_of(partial(total, on_gpu)) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("kind", "length"),
    [
        *itertools.product(ODD_WORDS.values(), (13, 49, 67, 85, 143, 225, 1343)),
        *itertools.product(SMALL_IMAGES.values(), (113, 115, 117, 119)),
    ],
)
def test_words_of_odd_lines(kind: Kind, length: int, dtype: torch.dtype) -> None:
    """Lines of each odd length modulo 8, whichever family takes them; rounded or not."""
    x, expected = pair(Kind(tuple(size or length for size in kind.shape), kind.dim, kind.view), dtype)
    assert_same_bits(reduce_ops.sum(x, kind.dim), expected)
    not_rounded = reduce_ops.sum(x.cpu(), kind.dim, dtype=torch.float32)
    assert_same_bits(reduce_ops.sum(x, kind.dim, dtype=torch.float32), not_rounded)


@pytest.mark.parametrize("length", [49, 98, 225, 4097])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_across_memory_that_are_not_rounded(length: int, dtype: torch.dtype) -> None:
    for shape, dim in (((64, length, 256), None), ((9, length, 2000), (1, 2)), ((40, length, 24), None)):
        x = random_values(math.prod(shape), dtype).view(shape)
        expected = reduce_ops.sum(x.transpose(1, 2), dim, dtype=torch.float32)
        assert_same_bits(reduce_ops.sum(x.cuda().transpose(1, 2), dim, dtype=torch.float32), expected, shape)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_columns_that_are_not_rounded(dtype: torch.dtype) -> None:
    anywhere = []
    for shape, dim in (
        *(((23, 23, 2, 4485), (0, 2)), ((3000, 20_001), 0), ((450, 76_608), 0)),  # neighbours, some begin anywhere
        *(((2**18, 8), 0), ((2**17, 12), 0), ((50_001, 31), 0)),  # narrow ones, and single ones
    ):
        x = random_values(math.prod(shape), dtype).view(shape)
        total = partial(reduce_ops.sum, dim=dim, dtype=torch.float32)
        assert_same_bits(total(x.cuda()), total(x), shape)
        anywhere.append(plan(x, dim, dtype=torch.float32).anywhere)
    assert any(anywhere)


ACROSS_MEMORY = {
    "straight": Kind((70, 9001), None, lambda x: x.t()),
    "in turns": Kind((4, 31, 9001), None, lambda x: x.permute(2, 1, 0)),
    "several outputs": Kind((70, 9, 3001), (0, 2), lambda x: x.permute(2, 1, 0)),
    "short lines": Kind((7, 97, 1301), (1, 2), lambda x: x.permute(1, 2, 0)),
}
CONVERTED = {  # as they are loaded, to each of these
    torch.float32: [dtype for dtype in DTYPES if dtype in INTEGERS or dtype.itemsize == 1],
    torch.float64: [dtype for dtype in DTYPES if dtype not in (torch.float64, *COMPLEX)],
    torch.complex128: [torch.complex64],
}


@pytest.mark.parametrize("kind", ACROSS_MEMORY.values(), ids=ACROSS_MEMORY)
@pytest.mark.parametrize("target", CONVERTED, ids=str)
def test_what_is_converted_across_memory(target: torch.dtype, kind: Kind) -> None:
    """A missing element is no +0.0 where all are -0.0."""
    total = partial(reduce_ops.sum, dim=kind.dim, dtype=target)
    for dtype in CONVERTED[target]:
        zeros = torch.full(kind.shape, -0.0 if dtype in (*FLOATS, *COMPLEX) else 0, dtype=dtype)
        for memory in (random_values(math.prod(kind.shape), dtype).view(kind.shape), zeros):
            assert_same_bits(total(kind.view(memory.cuda())), total(kind.view(memory)), dtype)


def test_what_is_converted_across_memory_takes_every_way() -> None:
    families = {
        plan(kind.view(torch.empty(kind.shape, dtype=dtype, device="meta")), kind.dim, dtype=target).family
        for kind in ACROSS_MEMORY.values()
        for target, dtypes in CONVERTED.items()
        for dtype in dtypes
    }
    assert families >= {"lines", "rows", "staged_tiles"}


BOXED = {
    "all": Kind((22, 5, 801, 15), None, lambda x: x.permute(3, 1, 2, 0)),
    "all, lines that turn": Kind((4, 3, 1087, 18, 3), None, lambda x: x.permute(3, 2, 1, 4, 0)),
    "all, every other element": Kind((801, 48, 14, 6), None, lambda x: x[..., ::2].permute(1, 2, 0, 3)),
    "several outputs": Kind((48, 6, 1001, 5), (0, 1, 2), lambda x: x.permute(2, 1, 3, 0)),
    "short outputs": Kind((701, 4, 111, 2), (0, 1, 2), lambda x: x.permute(2, 1, 3, 0)),
    "outputs side by side": Kind((19, 88, 33, 9, 5), (2, 3), lambda x: x.permute(1, 2, 3, 0, 4)),
    "outputs within lines": Kind((3, 9001, 7), (0, 2), lambda x: x.permute(1, 2, 0)),
    "outputs between lines": Kind((301, 97, 6, 5), (1, 2, 3), lambda x: x.permute(1, 0, 3, 2)),
}


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str
)
@pytest.mark.parametrize("kind", BOXED.values(), ids=BOXED)
def test_boxes_of_any_layout(kind: Kind, dtype: torch.dtype) -> None:
    """By plans for GPUs so small that this is much data, whose boxes differ; wide types take them only now and then."""
    for offset in (0, 3):
        memory = random_values(offset + math.prod(kind.shape), dtype)
        x, on_gpu = (kind.view(m[offset:].view(kind.shape)) for m in (memory, memory.cuda()))
        expected = reduce_ops.sum(x, kind.dim)
        families = set()
        for multiprocessors in (1, 3, 8):
            families.add(plan(on_gpu, kind.dim, multiprocessors).family)
            sums = torch.ops.reduce._sum_as_on(on_gpu, kind.dim, multiprocessors=multiprocessors)
            assert_same_bits(sums, expected, (offset, multiprocessors))
        assert "boxes" in families or dtype.itemsize > 2


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.int16, torch.bfloat16, torch.float32, torch.float64, torch.complex64], ids=str
)
@pytest.mark.parametrize("n", [2, 3, 8, 9, 40])
def test_chunks_of_columns(n: int, dtype: torch.dtype) -> None:
    """The last chunk shares columns with the one before it, unless they end together; a thread's may begin anywhere."""
    columns = (9, 15, 17, 27, 31, 32, 33, 40, 47, 48, 56, 64, 65, 32_769, 32_776)
    chunks = dict.fromkeys(columns, 16)
    if dtype.itemsize == 2:
        chunks |= {9: 8, 15: 8}
    else:
        chunks |= {9: 0, 15: 0, 17: 0} | ({27: 0, 31: 0} if n * dtype.itemsize > 32 else {})
    for m in columns if n <= 8 else columns[-2:]:
        for outer in ((5,), (3, 7), (9, 2, 3))[: 3 if n <= 8 else 1]:
            for offset in (0, 1):
                shape = (n, *outer, m)
                memory = random_values(offset + math.prod(shape), dtype)
                x, on_gpu = (
                    y[offset:].view(shape).permute(0, *range(len(shape) - 1, 0, -1)) for y in (memory, memory.cuda())
                )
                assert plan(on_gpu, 0).chunk == chunks[m]
                assert_same_bits(reduce_ops.sum(on_gpu, 0), reduce_ops.sum(x, 0), (shape, offset))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex64], ids=str)
def test_chunks_of_runs_that_a_thread_takes(dtype: torch.dtype) -> None:
    run = 16 // dtype.itemsize
    for n in (2, 7):
        for outer in ((5, 3), (70, 33), (2, 5, 4)):
            x = random_values(n * math.prod(outer) * run, dtype).view(*outer, n, run)
            on_gpu = x.cuda()
            x, on_gpu = (y.transpose(0, -3) for y in (x, on_gpu))
            assert plan(on_gpu, -2).chunk == run
            assert_same_bits(reduce_ops.sum(on_gpu, -2), reduce_ops.sum(x, -2), (n, outer))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex128], ids=str)
def test_much_input_across_memory(dtype: torch.dtype) -> None:
    """Of 0.8 GB there is room for few nodes, so that windows are larger."""
    needs_gib(4)
    rows = 2**13 + 5
    x = torch.randn(2, rows, 4 * 10**8 // dtype.itemsize // rows, dtype=dtype, device="cuda")
    turned = x.transpose(1, 2)
    straight = turned.contiguous()
    assert_same_bits(reduce_ops.sum(turned), reduce_ops.sum(straight))
    assert_same_bits(reduce_ops.sum(turned, (1, 2)), reduce_ops.sum(straight, (1, 2)))
    for length in (11, 100, 200):
        short = x.view(-1)[: x.numel() // length * length].view(length, -1).t()
        assert_same_bits(reduce_ops.sum(short), reduce_ops.sum(short.contiguous()), length)
    # Lines in two dimensions.
    folded = x.view(-1)[: x.numel() // 36000 * 36000].view(4, 9, -1, 1000).permute(2, 3, 1, 0)
    assert_same_bits(reduce_ops.sum(folded), reduce_ops.sum(folded.contiguous()))


@pytest.mark.parametrize(
    ("images", "pixels", "channels"),
    [
        (171, 2**14, 3),  # narrow columns,
        (9, 2**10 * 77, 12),  # of 8 bytes single ones, as rows of 12 are too long for a thread
        (41, 2**9 * 17, 24),
        (3, 2**5 * 43, 2048),
        (5, 2**15, 54),  # not of whole words: lines
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_interleaved_columns(images: int, pixels: int, channels: int, dtype: torch.dtype) -> None:
    """As channels_last has them: in two launches, the first of columns."""
    x = torch.randn(images, pixels, channels, dtype=dtype, device="cuda").transpose(1, 2)
    straight = x.contiguous()
    assert straight.nbytes >= 2**24
    for dim in (None, (1, 2)):
        expected = reduce_ops.sum(straight, dim)
        assert_same_bits(reduce_ops.sum(x, dim), expected, dim)
        assert_same_bits(
            reduce_ops.sum(x.transpose(0, 1), dim and (0, 2)), reduce_ops.sum(straight.transpose(0, 1), dim and (0, 2))
        )
        assert nodes_of(lambda dim=dim: reduce_ops.sum(x, dim)) == 2
    apart = torch.randn(images, pixels, channels + 8, dtype=dtype, device="cuda")[:, :, 8:].transpose(1, 2)
    assert_same_bits(reduce_ops.sum(apart, (1, 2)), reduce_ops.sum(apart.contiguous(), (1, 2)))


def test_as_many_elements_as_a_launch_covers() -> None:
    x = random_values(4096, torch.float32).cuda()
    repeated = x.view(1, 4096, 1).expand(4096, 4096, 4096)
    p = plan(repeated)
    assert (p.family, p.layout, p.threads, p.segments) == ("rows", "strided", 256, 16384)
    assert_same_bits(reduce_ops.sum(repeated), 2**24 * reduce_ops.sum(x))  # which scales nodes, and rounds none


def test_reduced_past_31_bits_with_cancellation() -> None:
    """Rows and columns of float32 whose sums are exact in the canonical order, which pairs neighbours."""
    needs_gib(24)
    n = 2**31 + 6
    x = torch.empty(2, n, device="cuda")
    x[:, 0::2] = 3.5
    x[:, 1::2] = -3.5
    zero = torch.zeros(2, device="cuda")
    assert torch.equal(reduce_ops.sum(x, 1), zero)
    x[1, 2**31] += 1
    assert torch.equal(reduce_ops.sum(x, 1), torch.tensor([0.0, 1.0], device="cuda"))
    assert torch.equal(reduce_ops.sum(x.t(), 0), torch.tensor([0.0, 1.0], device="cuda"))
    x = x.view(n, 2)
    x[0::2] = 3.5
    x[1::2] = -3.5
    assert torch.equal(reduce_ops.sum(x, 0), zero)
    x[2**31, 1] += 1
    assert torch.equal(reduce_ops.sum(x, 0), torch.tensor([0.0, 1.0], device="cuda"))


def test_many_dimensions_past_31_bits() -> None:
    """Elements that lie too far apart for offsets of 32 bits."""
    needs_gib(5)
    shape = (3, 5, 40, 301)
    memory = torch.empty(2**31 + 2**18, dtype=torch.float16, device="cuda")
    x = memory.as_strided(shape, (2**30, 700, 3500, 2))
    contiguous = random_values(math.prod(shape), torch.float16).view(shape)
    x.copy_(contiguous)
    for dim in ((0, 1, 2, 3), (0, 1, 3), (0, 1, 2), (0, 2), (2, 0, 3)):
        assert_same_bits(reduce_ops.sum(x, dim), reduce_ops.sum(contiguous, dim), dim)
        assert_same_bits(reduce_ops.sum(x.mT, dim), reduce_ops.sum(contiguous.mT.contiguous(), dim), dim)


def test_expanded_past_31_bits() -> None:
    """Strides of 0, sizes and offsets of more than 32 bits."""
    one = torch.ones(1, dtype=torch.int8, device="cuda")
    assert reduce_ops.sum(one.expand(2**33 + 1), 0) == 2**33 + 1
    assert torch.equal(reduce_ops.sum(one.expand(3, 2**32 + 1), 1), torch.full((3,), 2**32 + 1, device="cuda"))
    assert torch.equal(reduce_ops.sum(one.expand(2**32 + 1, 3), 0), torch.full((3,), 2**32 + 1, device="cuda"))
    needs_gib(10)
    x = torch.zeros(2**32 + 2**20, dtype=torch.int8, device="cuda")
    x[:: 2**20] = 1
    far = x[:: 2**20].view(-1, 1).expand(-1, 7)
    assert torch.equal(reduce_ops.sum(far, 0), torch.full((7,), 2**12 + 1, device="cuda"))
    assert torch.equal(reduce_ops.sum(far, 1), torch.full((2**12 + 1,), 7, device="cuda"))


def test_kept_and_reduced_dimensions_in_turns() -> None:
    """More of each than kernels take, in whatever order of memory that keeps theirs."""
    x = random_values(2**25, torch.float32).cuda().view((2,) * 25)
    for dim in (tuple(range(0, 25, 2)), tuple(range(1, 25, 2))):
        kept_first = x.permute(*(d for d in range(25) if d not in dim), *dim).reshape(-1, 2 ** len(dim))
        for total in (reduce_ops.sum, reduce_ops.sum_exact):
            assert_same_bits(total(x, dim).reshape(-1), total(kept_first, 1), total)


@pytest.mark.alone
@pytest.mark.parametrize("kept", [6, 7])
def test_many_dimensions_of_either_kind_are_not_copied(kept: int) -> None:
    """Rows that are columns of the first of two sums are kept dimensions of that, of which it takes twelve."""
    values = random_values(2 ** (16 + kept), torch.float32)
    expected = reduce_ops.sum(*rows_in_many_dimensions(values, kept))
    x, dim = rows_in_many_dimensions(values.cuda(), kept)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    assert_same_bits(reduce_ops.sum(x, dim).cpu(), expected)
    assert torch.cuda.max_memory_allocated() - before < 8 * 2**20


# ---- what a call costs beyond its time ----


@pytest.mark.alone
@each_kind
@pytest.mark.parametrize("scale", [1, 8])
def test_memory_beyond_input_and_result(kind: str, scale: int) -> None:
    shape = (scale * KINDS[kind].shape[0], *KINDS[kind].shape[1:])
    x = KINDS[kind].view(torch.ones(shape, device="cuda"))
    dim = KINDS[kind].dim
    result_bytes = reduce_ops.sum(x, dim).nbytes
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    allowed = max(8 * 2**20, x.untyped_storage().nbytes() // 100)
    assert gpu_memory_taken(lambda: reduce_ops.sum(x, dim)) < allowed
    assert torch.cuda.max_memory_allocated() - before - result_bytes < allowed


@each_kind
def test_waits_for_the_current_stream_and_not_for_the_host(kind: str) -> None:
    filled, expected = pair(KINDS[kind])
    storage = torch.empty(0, device="cuda").set_(filled.untyped_storage())
    target = torch.zeros_like(storage)
    x = target.as_strided(filled.shape, filled.stride(), filled.storage_offset())
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        reduce_ops.sum(x, KINDS[kind].dim)  # its scratch is there from now on
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            target.copy_(storage)
            sums = reduce_ops.sum(x, KINDS[kind].dim)
            waited = side.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    side.synchronize()
    assert not waited
    assert_same_bits(sums, expected)


def nodes_of(work: Callable[[], object]) -> int:
    """How many kernels, copies and memsets a graph of `work` has."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        result = work()
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    count = ctypes.c_size_t()
    assert runtime.cudaGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count)) == 0
    del result
    return count.value


@pytest.mark.parametrize("kind", CONTIGUOUS)
def test_one_launch(kind: str) -> None:
    for dtype in (torch.float32, torch.float16, torch.int8):
        x = torch.ones(CONTIGUOUS[kind].shape, dtype=dtype, device="cuda")
        dim = CONTIGUOUS[kind].dim
        assert nodes_of(lambda x=x, dim=dim: reduce_ops.sum(x, dim)) == 1, dtype


def test_one_launch_where_elements_of_two_bytes_are_rows() -> None:
    """Also where they are a multiple of a power of two, which of wider ones are summed in two."""
    for step in (2, 3, 7):
        x = torch.ones(2**15, step, dtype=torch.float16, device="cuda").t()
        assert plan(x).layout == "pitched"
        assert nodes_of(lambda x=x: reduce_ops.sum(x)) == 1, step


ACROSS = {
    "lines": ((1501, 1400), lambda x: x.t(), None),
    "word_tiles": ((64, 196, 256), lambda x: x.transpose(1, 2), None),
    "staged_tiles": ((63, 90_001), lambda x: x.t(), None),
    "tiles": ((9000, 3, 200), lambda x: x[..., ::2].transpose(1, 2), None),
    "boxes": ((3, 30_000, 7), lambda x: x.permute(1, 2, 0), (0, 2)),
}


@pytest.mark.parametrize("family", ACROSS)
def test_two_launches_where_the_order_runs_across_memory(family: str) -> None:
    """Of 16 bits too: the one that adds nodes rounds their sum."""
    shape, view, dim = ACROSS[family]
    x = view(torch.ones(shape, dtype=torch.bfloat16, device="cuda"))
    assert plan(x, dim).family == family
    for dtype in (None, torch.float32):
        assert nodes_of(lambda dtype=dtype: reduce_ops.sum(x, dim, dtype=dtype)) == 2


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_device_that_is_not_current() -> None:
    for kind in KINDS.values():
        x, expected = pair(kind)
        sums = reduce_ops.sum(x.to("cuda:1"), kind.dim)
        assert sums.device == torch.device("cuda:1")
        assert torch.cuda.current_device() == 0
        assert_same_bits(sums, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex128, torch.int8])
@each_kind
def test_the_plan_does_not_show(kind: str, dtype: torch.dtype) -> None:
    """The same sum in other grids: by the plans for GPUs of other sizes."""
    x, expected = pair(KINDS[kind], dtype)
    dims = KINDS[kind].dim
    for multiprocessors in (1, 16, 78, 132, 188, 1000):
        total = torch.ops.reduce._sum_as_on(x, dims, multiprocessors=multiprocessors)
        assert_same_bits(total, expected, multiprocessors)
