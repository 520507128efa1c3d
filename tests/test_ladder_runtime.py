"""The same bits whatever the run, the threads and the device; and how the operators behave on a busy GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from reduce_ops import Rung
from support import (
    DTYPES,
    assert_same_bits,
    each_rung,
    each_sized_rung,
    ladder_block_sums,
    ladder_sum,
    random_values,
)

N = 1_000_003  # several blocks everywhere, the last one incomplete, three passes for v0 to v2
LONG = 200_000_000  # cycles that a stream stands still: about 0.1 s


@each_sized_rung
def test_runs_repeat(rung: Rung, block_size: int, device: torch.device) -> None:
    x = random_values(N, torch.float32).to(device)
    total = ladder_sum(rung, x, None, block_size)
    sums = ladder_block_sums(rung, x, None, block_size)
    for _ in range(20):
        assert_same_bits(ladder_sum(rung, x, None, block_size), total)
        assert_same_bits(ladder_block_sums(rung, x, None, block_size), sums)


@pytest.fixture
def restore_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@each_sized_rung
@pytest.mark.usefixtures("restore_threads")
def test_number_of_cpu_threads_does_not_matter(rung: Rung, block_size: int) -> None:
    x = random_values(N, torch.float32)
    results = []
    for threads in (1, 2, 3, 16):
        torch.set_num_threads(threads)
        results.append((ladder_sum(rung, x, None, block_size), ladder_block_sums(rung, x, None, block_size)))
    for total, sums in results[1:]:
        assert_same_bits(total, results[0][0])
        assert_same_bits(sums, results[0][1])


# ---- CUDA ----


@pytest.mark.gpu
@each_sized_rung
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_equals_cpu(rung: Rung, block_size: int, dtype: torch.dtype) -> None:
    for n in (1, 31, 33, 255, 257, 1025, 2**18 + 1, N):
        x = random_values(n, dtype, seed=n)
        on_cuda = x.cuda()
        for op in (ladder_block_sums, ladder_sum):
            assert_same_bits(op(rung, on_cuda, None, block_size), op(rung, x, None, block_size), n)


@pytest.mark.gpu
@each_rung
def test_current_stream(rung: Rung) -> None:
    """The input is written by work that is still waiting on the same side stream."""
    values = random_values(N, torch.float32).cuda()
    expected = ladder_sum(rung, values)
    x = torch.zeros_like(values)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
        x.copy_(values)
        result = ladder_sum(rung, x)
    side.synchronize()
    assert_same_bits(result, expected)


@pytest.mark.gpu
@each_rung
def test_two_streams_at_once(rung: Rung) -> None:
    inputs = [random_values(N, torch.float32, seed).cuda() for seed in (1, 2)]
    expected = [ladder_sum(rung, x) for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    results: list[list[torch.Tensor]] = [[], []]
    for _ in range(200):
        for x, stream, mine in zip(inputs, streams, results, strict=True):
            with torch.cuda.stream(stream):
                mine.append(ladder_sum(rung, x))
    torch.cuda.synchronize()
    for mine, total in zip(results, expected, strict=True):
        assert_same_bits(torch.stack(mine), total.expand(len(mine)))


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@each_rung
def test_device_that_is_not_current(rung: Rung) -> None:
    """The kernel and its memory go where the input is, and the current device stays what it was."""
    x = random_values(N, torch.float32)
    there = x.to("cuda:1")
    with torch.cuda.device(0):
        result = ladder_sum(rung, there)
        assert torch.cuda.current_device() == 0
    assert result.device == there.device
    assert_same_bits(result, ladder_sum(rung, x))


@pytest.mark.gpu
@each_sized_rung
def test_graph_replays_with_new_values(rung: Rung, block_size: int) -> None:
    x = random_values(N, torch.float32).cuda()
    ladder_sum(rung, x, None, block_size)  # loads the kernels, which is not allowed during capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = ladder_sum(rung, x, None, block_size)
        sums = ladder_block_sums(rung, x, None, block_size)
    for seed in (10, 11, 12):
        values = random_values(N, torch.float32, seed)
        x.copy_(values)
        graph.replay()
        assert_same_bits(total, ladder_sum(rung, values, None, block_size), seed)
        assert_same_bits(sums, ladder_block_sums(rung, values, None, block_size), seed)


@pytest.mark.alone
@pytest.mark.gpu
@each_rung
def test_the_host_does_not_wait(rung: Rung) -> None:
    x = random_values(N, torch.float32).cuda()
    strided = x.view(1, -1).expand(2, -1).t()  # has to be made contiguous

    def call_all() -> None:
        for view in (x, strided):
            ladder_sum(rung, view, torch.float64)
            ladder_sum(rung, view)
            ladder_block_sums(rung, view)

    call_all()  # kernels and memory are there from now on
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(5 * LONG)
        call_all()
        # Sees waits that PyTorch knows nothing of: had there been one, the sleep would be over.
        assert not torch.cuda.current_stream().query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()


@pytest.mark.gpu
@each_rung
@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.complex64],
    ids=str,
)
def test_memory_is_that_of_the_block_sums(rung: Rung, dtype: torch.dtype) -> None:
    """No copy of the input: what v0 needs most is a 256th of it, in the accumulate type."""
    x = torch.ones(2**26, dtype=dtype, device="cuda")
    ladder_sum(rung, x)
    sums = ladder_block_sums(rung, x)
    needed = 2 * sums.nbytes  # of one pass and of those after it, which are smaller by far
    del sums
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    ladder_sum(rung, x)
    assert torch.cuda.max_memory_allocated() - before <= needed + 2 * 2**20  # what the allocator rounds up to
    assert x.nbytes > 8 * (needed + 2 * 2**20)  # so that a copy would show


@pytest.mark.gpu
@each_rung
def test_out_of_memory_leaves_everything_usable(rung: Rung) -> None:
    x = random_values(N, torch.float32).cuda()
    expected = ladder_sum(rung, x)
    giant = x[:1].expand(2**38)  # 1 TiB once contiguous
    for op in (ladder_sum, ladder_block_sums):
        with pytest.raises(torch.OutOfMemoryError):
            op(rung, giant)
    assert_same_bits(ladder_sum(rung, x), expected)
    torch.cuda.synchronize()
