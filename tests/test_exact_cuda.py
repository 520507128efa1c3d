"""``reduce::sum_exact`` on a busy GPU: plans at their limits, streams, graphs, starved launches, many elements."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from exact_oracle import FORMATS, UNIT, round_to, total
from reduce_ops import exact_round, exact_state, sum, sum_exact, vector_norm_exact
from support import assert_same_bits, in_threads, one_multiprocessor, random_values

pytestmark = pytest.mark.gpu

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SIZES = (40_001, 2**18 + 1, 2**20 + 3, 5_000_001)  # from a few blocks to many


def wide_values(n: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Values of exponents far apart, so that most bins are in use and no order of additions is exact."""
    generator = torch.Generator().manual_seed(seed)
    scale = 12.0 if dtype == torch.float16 else 120.0
    exponents = torch.randint(-int(scale), int(scale), (n,), generator=generator).double()
    return (torch.randn(n, generator=generator, dtype=torch.float64) * 2**exponents).to(dtype)


def assert_exact(x: torch.Tensor, *args: object) -> None:
    """On the GPU and on the CPU: the same state, and the same bits when it is rounded."""
    on_gpu = x if x.is_cuda else x.cuda()
    what = (x.dtype, tuple(x.shape), x.stride(), *args)
    for of in ("elements", "magnitudes", "squares"):
        assert_same_bits(exact_state(on_gpu, *args, of=of), exact_state(x.cpu(), *args, of=of), (of, *what))
    assert_same_bits(sum_exact(on_gpu, *args), sum_exact(x.cpu(), *args), what)
    for ord in (1, 2):
        assert_same_bits(vector_norm_exact(on_gpu, ord, *args), vector_norm_exact(x.cpu(), ord, *args), (ord, *what))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_runs_of_every_length(dtype: torch.dtype) -> None:
    """Where a warp, a block, a plan gets one more chunk, and each beginning before and end behind 16 bytes."""
    x = wide_values(2**22 + 100, dtype).cuda()
    chunk = 2 * 32 * 16 // dtype.itemsize  # of a warp with two loads
    sizes = {64, 65, 66, 1000}
    for chunks in (1, 2, 8, 12, 16, 32, 16 * 132, 12 * 264, 16 * 264):
        for limit in (chunk * chunks, 2 * chunk * chunks):
            sizes |= {limit - 1, limit, limit + 1}
    for n in sorted(sizes):
        for offset in (0, 1, 3, 7):
            if offset + n <= len(x):
                assert_exact(x[offset : offset + n])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_many_outputs(dtype: torch.dtype) -> None:
    """A warp a row, a block a row, columns of every width and of several segments, in any layout."""
    x = wide_values(2**21, dtype).cuda()
    for rows, columns in ((2500, 65), (3000, 513), (2112, 64), (2111, 200), (70, 9001), (5, 300_001), (300, 6)):
        matrix = x[: rows * columns].view(rows, columns)
        assert_exact(matrix, 1)
        assert_exact(matrix, 0)
        assert_exact(matrix[:, 1:], 1)
        assert_exact(matrix.t(), 0)
        assert_exact(matrix[::2, ::3], 0)
    for width in range(1, 34):
        assert_exact(x[: 1000 * width].view(1000, width), 0)
        assert_exact(x[: 60_000 * width].view(60_000, width), 0)
    for shape, dims in (((30, 40, 50), (0, 2)), ((8, 3, 99, 98), (0, 2, 3)), ((2, 3, 5, 7, 11, 13), (0, 2, 4))):
        cube = x[: math.prod(shape)].view(shape)
        assert_exact(cube, dims)
        assert_exact(cube.transpose(0, -1), dims)
        assert_exact(cube.permute(*reversed(range(cube.dim()))), dims)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bins_take_as_many_additions_as_are_exact(dtype: torch.dtype) -> None:
    """All elements the largest of a bin, so that each addition adds as many bits as it can, for many merges."""
    for exponent in (0, 3, 4, -14 if dtype == torch.float16 else -113):
        largest = math.ldexp(2 - torch.finfo(dtype).eps, exponent)
        for n in (2**20, 2**24 + 1):
            x = torch.full((n,), largest, dtype=dtype, device="cuda")
            exact = Fraction(largest) * n
            number = exact * 2**-UNIT
            for y, expected in ((x, number), (-x, -number), (x.view(1, n).expand(3, n), number)):
                dims = None if y.dim() == 1 else 1
                result = exact_round(exact_state(y, dims), dtype=torch.float64)
                assert (result == round_to(FORMATS[torch.float64], int(expected))).all(), (exponent, n)
                assert_same_bits(sum_exact(y, dims, dtype=torch.float64), result)


@pytest.mark.parametrize(
    "dtype, additions", [(torch.float32, 512), (torch.float16, 1024), (torch.bfloat16, 8192), (torch.float8_e5m2, 1024)]
)
def test_bins_are_emptied_in_time(dtype: torch.dtype, additions: int) -> None:
    """One element less than makes a lane empty its bins, as many, and one more: in a warp, in many, in columns.

    All are the largest of their bin, so that one addition more in a full one would round.
    """
    largest = 2 - torch.finfo(dtype).eps

    def check(shape: tuple[int, ...], dim: int, n: int) -> None:
        x = torch.full(shape, largest, device="cuda").to(dtype)
        expected = round_to(FORMATS[torch.float64], int(Fraction(largest) * n * 2**-UNIT))
        assert (sum_exact(x, dim, dtype=torch.float64) == expected).all(), shape

    a_warp = 32 * additions
    a_grid = 264 * (16 if dtype == torch.float32 else 12) * a_warp
    for more in (-1, 0, 1):
        check((2112, a_warp + more), 1, a_warp + more)
        check((2112, 2 * a_warp + more), 1, 2 * a_warp + more)
        check((a_grid + more,), 0, a_grid + more)
        check((64 * a_warp + more, 3), 0, 64 * a_warp + more)
    check((40 * a_warp, 33), 0, 40 * a_warp)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_billions_of_elements(dtype: torch.dtype) -> None:
    """More than a launch of full multiprocessors may add up: 2^33 elements and some, in memory and expanded."""
    part = wide_values(2**20, dtype)
    number = total(part.double().numpy())
    n = 2**33
    x = torch.empty(n + 3, dtype=dtype, device="cuda")
    x[:n].view(-1, len(part)).copy_(part)
    x[n:] = 1
    expected = round_to(FORMATS[torch.float64], number * (n // len(part)) + (3 << -UNIT))
    assert sum_exact(x, dtype=torch.float64).item() == expected
    columns = sum_exact(x[:n].view(-1, len(part))[:, :1000], 0, dtype=torch.float64)
    assert_same_bits(columns, part[:1000].double() * (n // len(part)))  # a power of two
    del x
    one = torch.ones(1, dtype=dtype, device="cuda")
    assert sum_exact(one.expand(n), dtype=torch.float64).item() == n
    with pytest.raises(RuntimeError, match="accepted are, in all, up to 2"):
        sum_exact(one.expand(2**45))


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_last_elements_of_very_many(dtype: torch.dtype) -> None:
    """Around 2^31 elements, and 2^31 groups of 16 bytes: those at both ends differ from the rest."""
    groups = 2**31 * 16 // dtype.itemsize
    largest = 2**31 if dtype == torch.float8_e5m2 else groups if dtype == torch.float32 else 2**32
    x = torch.zeros((largest + 40) * dtype.itemsize, dtype=torch.uint8, device="cuda").view(dtype)
    ends = wide_values(64, torch.float32).clamp(-1000, 1000).to(dtype).cuda()
    expected = sum_exact(ends.view(torch.uint8).repeat(2).view(dtype))
    for n in {2**31 + 1, 2**32 - 1, groups + 20}:
        for offset in (0, 1):
            if offset + n <= len(x):
                both = (x[offset : offset + 64], x[offset + n - 64 : offset + n])
                for end in both:
                    end.copy_(ends)
                assert_same_bits(sum_exact(x[offset : offset + n]), expected, (n, offset))
                for end in both:
                    end.view(torch.uint8).zero_()


def test_more_elements_than_a_block_may_add_up_in_many_outputs() -> None:
    for dtype, outputs in ((torch.bfloat16, 2600), (torch.float64, 470), (torch.float32, 300)):
        x = wide_values(2**24 + 16, dtype)
        rows = x.cuda().expand(outputs // 2, 2, len(x))
        assert_same_bits(sum_exact(rows, 2), sum_exact(x).expand(outputs // 2, 2))
        assert_same_bits(exact_state(rows, 2), exact_state(x).expand(outputs // 2, 2, -1))


def test_threads_with_plans_of_different_shared_memory() -> None:
    """They launch the same kernels at the same time, each with more or less shared memory than the others."""
    pairs = [
        (x.cuda(), sum_exact(x)) for x in (wide_values(n, torch.bfloat16, n) for n in (2**19, 2**21, 2**24, 2**20))
    ]
    wrong = []

    def work(i: int) -> None:
        x, expected = pairs[i]
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(500):
                total = sum_exact(x)
            if not torch.equal(total.cpu(), expected):
                wrong.append(i)

    in_threads(work, len(pairs))
    assert not wrong


def test_graphs_streams_and_eager_work_overlap() -> None:
    """Exact sums and sums in the canonical order, which share slots; every result is compared."""
    pairs = [(x.cuda(), sum_exact(x), sum(x)) for x in (wide_values(n, torch.float32, n) for n in SIZES)]
    streams = [torch.cuda.Stream() for _ in range(3)]
    x, exact, canonical = pairs[1]
    sum_exact(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        in_graph = [f(x) for _ in range(100) for f in (sum_exact, sum)]
    expected_in_graph = torch.stack([exact, canonical] * 100).cuda()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for step in range(400):
        with torch.cuda.stream(streams[2]):
            graph.replay()
            wrong += torch.stack(in_graph).ne(expected_in_graph).sum()
        for stream, (y, y_exact, y_sum) in zip(streams, (pairs[step % 4], pairs[(step + 1) % 4]), strict=False):
            with torch.cuda.stream(stream):
                exacts = torch.stack([sum_exact(y) for _ in range(30)]).ne(y_exact.item()).sum()
                mismatches = exacts + torch.stack([sum(y) for _ in range(10)]).ne(y_sum.item()).sum()
            streams[2].wait_stream(stream)
            with torch.cuda.stream(streams[2]):
                wrong += mismatches
            stream.wait_stream(streams[2])
    torch.cuda.synchronize()
    assert wrong.item() == 0


def test_replays_see_new_values() -> None:
    x = torch.zeros(2**20 + 3, device="cuda")
    sum_exact(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result, state = sum_exact(x), exact_state(x)
        rounded = exact_round(state, dtype=torch.float32)
    for seed in range(3):
        values = wide_values(len(x), torch.float32, seed)
        x.copy_(values)
        graph.replay()
        assert_same_bits(result, sum_exact(values))
        assert_same_bits(state, exact_state(values))
        assert_same_bits(rounded, result)


def test_threads_share_a_stream() -> None:
    pairs = [(x.cuda(), sum_exact(x)) for x in (wide_values(n, torch.float32, n) for n in SIZES)]
    results: list[list[torch.Tensor]] = [[] for _ in pairs]
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()

    def work(i: int) -> None:
        with torch.cuda.stream(stream):
            for _ in range(300):
                results[i].append(sum_exact(pairs[i][0]))

    in_threads(work, len(pairs))
    torch.cuda.synchronize()
    for mine, (_, expected) in zip(results, pairs, strict=True):
        assert_same_bits(torch.stack(mine), expected.expand(len(mine)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_multiprocessor(dtype: torch.dtype) -> None:
    """Room for few blocks at a time: the block that waits for all others must not keep them from running."""
    values = [wide_values(n, dtype, n) for n in SIZES]
    pairs = [(x.cuda(), x) for x in values] + [
        (x.cuda()[: 8 * 5000].view(5000, 8), x[: 8 * 5000].view(5000, 8)) for x in values
    ]
    sums = [sum_exact(on_cpu, 0) for _, on_cpu in pairs]
    for (x, _), expected in zip(pairs, sums, strict=True):
        assert_same_bits(sum_exact(x, 0), expected)
    with one_multiprocessor():
        for (x, _), expected in zip(pairs, sums, strict=True):
            for _ in range(20):
                assert_same_bits(sum_exact(x, 0), expected)


def test_does_not_wait_for_the_host_nor_take_memory() -> None:
    x = random_values(2**22, torch.float32).cuda()
    view = x.view(2048, 2048).t()
    for y, dims in ((x, None), (view, None), (view, 1), (view, 0)):
        sum_exact(y, dims)
        exact_round(exact_state(y, dims), dtype=torch.float32)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for y, dims in ((x, None), (view, None), (view, 1), (view, 0)):
            sum_exact(y, dims)
            exact_round(exact_state(y, dims), dtype=torch.float32)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.max_memory_allocated() - before < 2**20
