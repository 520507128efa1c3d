"""``reduce::sum`` on a busy GPU: streams, graphs, starved launches, memory. What may overlap must not share slots."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import reduce_ops
from support import (
    assert_same_bits,
    gpu_memory_taken,
    in_a_process,
    in_threads,
    new_streams,
    one_multiprocessor,
    plan,
    random_values,
)

pytestmark = pytest.mark.gpu

SIZES = (40_001, 2**18 + 1, 2**20 + 3, 5_000_001)  # from two blocks to many


def inputs_and_sums(dtype: torch.dtype = torch.float32) -> list[tuple[torch.Tensor, torch.Tensor]]:
    values = [random_values(n, dtype, seed=n) for n in SIZES]
    return [(x.cuda(), reduce_ops.sum(x)) for x in values]


def capture(x: torch.Tensor, calls: int = 1) -> tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]:
    reduce_ops.sum(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [reduce_ops.sum(x) for _ in range(calls)]
    return graph, results


def test_graph_replays_with_new_values() -> None:
    for n in SIZES:
        x = random_values(n, torch.float32).cuda()
        graph, (total,) = capture(x)
        for seed in (1, 2, 3):
            values = random_values(n, torch.float32, seed)
            x.copy_(values)
            graph.replay()
            assert_same_bits(total, reduce_ops.sum(values), n)


@pytest.mark.alone
def test_many_graphs_come_and_go() -> None:
    """More captures than one allocation of slots serves; those of dead graphs are used again."""
    x = random_values(40_001, torch.float32).cuda()
    expected = reduce_ops.sum(x)
    capture(x)  # the first capture of a process takes 72 MiB and more, of whatever call

    def come_and_go() -> None:
        graph, (total,) = capture(x)
        graph.replay()
        assert_same_bits(total, expected)
        del graph

    assert gpu_memory_taken(come_and_go, calls=200) < 16 * 2**20


def test_a_million_sums_on_two_streams_and_a_replaying_graph() -> None:
    """All overlap; every result is compared."""
    pairs = inputs_and_sums()
    streams = [torch.cuda.Stream() for _ in range(3)]
    x, expected = pairs[0]
    graph, results = capture(x, calls=500)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    calls = 0
    for step in range(1000):
        with torch.cuda.stream(streams[2]):
            graph.replay()
            wrong += torch.stack(results).ne(expected.cuda()).sum()
        calls += len(results)
        for stream, (y, y_expected) in zip(streams, (pairs[step % 4], pairs[(step + 1) % 4]), strict=False):
            with torch.cuda.stream(stream):
                totals = torch.stack([reduce_ops.sum(y) for _ in range(250)])
                mismatches = totals.ne(y_expected.item()).sum()
            streams[2].wait_stream(stream)
            with torch.cuda.stream(streams[2]):
                wrong += mismatches
            stream.wait_stream(streams[2])
            calls += 250
    torch.cuda.synchronize()
    assert calls == 1_000_000
    assert wrong.item() == 0


def test_streams_that_come_and_go() -> None:
    """More than sets are kept for, of two threads at a time."""
    pairs = inputs_and_sums()

    def work(streams: list[torch.cuda.Stream], seed: int) -> list[list[torch.Tensor]]:
        totals: list[list[torch.Tensor]] = [[] for _ in pairs]
        for turn in range(10):
            for s, stream in enumerate(streams):
                i = (seed + turn + s) % len(pairs)
                with torch.cuda.stream(stream):
                    totals[i].append(reduce_ops.sum(pairs[i][0]))
        return totals

    for _ in range(3):
        with new_streams(160) as streams, ThreadPoolExecutor(2) as pool:
            torch.cuda.synchronize()
            results = list(pool.map(work, (streams[:80], streams[80:]), (0, 1)))
            torch.cuda.synchronize()
            for totals in results:
                for mine, (_, expected) in zip(totals, pairs, strict=True):
                    assert_same_bits(torch.stack(mine), expected.expand(len(mine)))


def test_threads_share_a_stream() -> None:
    pairs = inputs_and_sums()
    results: list[list[torch.Tensor]] = [[] for _ in pairs]
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()

    def work(i: int) -> None:
        with torch.cuda.stream(stream):
            for _ in range(500):
                results[i].append(reduce_ops.sum(pairs[i][0]))

    in_threads(work, len(pairs))
    torch.cuda.synchronize()
    for mine, (_, expected) in zip(results, pairs, strict=True):
        assert_same_bits(torch.stack(mine), expected.expand(len(mine)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_one_multiprocessor(dtype: torch.dtype) -> None:
    """Room for few blocks at a time: the block that waits for all others must not keep them from running."""
    pairs = inputs_and_sums(dtype)
    for x, expected in pairs:
        assert_same_bits(reduce_ops.sum(x), expected)
    with one_multiprocessor():
        for x, expected in pairs:
            for _ in range(20):
                assert_same_bits(reduce_ops.sum(x), expected)


@pytest.mark.alone
def test_one_multiprocessor_whose_last_block_only_collects() -> None:
    """Of so much data that the block which waits for 8192 others has no elements of its own."""
    x = torch.ones(2**29, device="cuda")
    x[:: 2**16] = -3.5
    p = plan(x)
    assert p.segments > x.numel() // (p.threads * p.loads * 4 * p.tiles) > 4000
    expected = reduce_ops.sum(x)
    assert expected == 2**29 - 4.5 * 2**13
    with one_multiprocessor():
        assert_same_bits(reduce_ops.sum(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.complex64], ids=str)
def test_much_data_is_added_in_order(dtype: torch.dtype) -> None:
    """Thousands of blocks of several tiles, and what is left: a full sum is that of the sums of pieces, 2^16 each."""
    generator = torch.Generator("cuda").manual_seed(0)
    real = dtype.to_real()
    for n in (2**28, 2**29 + 2**16 + 12_345, 2**30 + 1):
        if n * dtype.itemsize > 2**33:
            continue
        size = n * dtype.itemsize // real.itemsize
        x = torch.randn(size, dtype=real, device="cuda", generator=generator)
        x.mul_(torch.randint(0, 9, (size,), device="cuda", dtype=torch.int8, generator=generator).to(real)).mul_(2**-8)
        x = x.view(dtype)
        total = reduce_ops.sum(x)
        wide = {torch.float16: torch.float32}.get(dtype, dtype)
        whole = n // 2**16 * 2**16
        pieces = reduce_ops.sum(x[:whole].view(-1, 2**16), 1, dtype=wide)
        if whole < n:
            pieces = torch.cat([pieces, reduce_ops.sum(x[whole:], dtype=wide).view(1)])
        in_order = reduce_ops.sum(pieces)
        assert_same_bits(total, in_order.to(dtype), n)
        orders = [torch.randperm(len(pieces), device="cuda", generator=generator) for _ in range(20)]
        assert any(reduce_ops.sum(pieces[order]) != in_order for order in orders), "no order shows"
        del x


def test_waits_for_the_current_stream_and_not_for_the_host() -> None:
    values = random_values(1_000_003, torch.float32)
    x = torch.zeros_like(values, device="cuda")
    filled = values.cuda()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # slots and kernels are there from now on
        reduce_ops.sum(x)
        reduce_ops.sum(x[::3])
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            x.copy_(filled)
            total = reduce_ops.sum(x)
            strided = reduce_ops.sum(x[::3])
            assert not side.query(), "the host has waited for the stream"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    side.synchronize()
    assert_same_bits(total, reduce_ops.sum(values))
    assert_same_bits(strided, reduce_ops.sum(values[::3]))


@pytest.mark.alone
def test_memory_beyond_the_input() -> None:
    x = torch.ones(4, 2**25, device="cuda")
    for view in (x, x.view(-1)[1:], x[:, ::2], x.t()):
        reduce_ops.sum(view)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        assert gpu_memory_taken(lambda view=view: reduce_ops.sum(view)) < 2**21
        assert torch.cuda.max_memory_allocated() - before < 2**21


def test_out_of_memory_leaves_it_usable() -> None:
    x = torch.ones(2**28, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(2**31 / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(torch.OutOfMemoryError):
            reduce_ops.sum(x, dtype=torch.int64)  # this pair of dtypes is converted first: 2 GiB beside the 1 GiB of x
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert reduce_ops.sum(torch.ones(40_001, device="cuda")) == 40_001


def _sums_beside_what_pytorch_holds() -> None:
    """In a process of its own, which has memory to publish in for two streams."""
    x = torch.ones(40_001, device="cuda")
    total = torch.empty((), device="cuda")  # a result of a stream's own would take memory, and may be what has no room
    streams = [torch.cuda.Stream() for _ in range(32)]
    for stream in streams:
        with torch.cuda.stream(stream):
            total.zero_()  # takes what the stream itself needs
    torch.cuda.synchronize()
    held = []

    def hold_all() -> None:
        size = torch.cuda.mem_get_info()[0]
        while size >= 2**18:  # from a MiB down PyTorch takes blocks of 2 MiB, for somewhat more of 20, and leaves these
            try:
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            except torch.OutOfMemoryError:
                size //= 2

    def sum_on(stream: torch.cuda.Stream) -> None:
        with torch.cuda.stream(stream):
            reduce_ops.sum(x, out=total.zero_())
            assert total.item() == 40_001

    def sum_on_other_streams() -> None:
        for stream in streams:
            hold_all()  # also what another process has left meanwhile
            sum_on(stream)

    sum_on(torch.cuda.current_stream())
    with pytest.raises(torch.OutOfMemoryError, match="beside those of PyTorch's allocator"):
        sum_on_other_streams()
    held.clear()  # to PyTorch's allocator, which keeps it
    assert torch.cuda.memory_reserved() > 2 * torch.cuda.memory_allocated()
    for stream in streams:
        sum_on(stream)


@pytest.mark.alone
def test_memory_that_pytorch_holds() -> None:
    in_a_process(_sums_beside_what_pytorch_holds, timeout=300)


def _fails_and_goes_on() -> None:
    """In a process of its own: PyTorch's random numbers and its allocator never hear that a capture has failed."""
    pairs = inputs_and_sums()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    failed = []

    def failing_capture(stream: torch.cuda.Stream, body: Callable[[], None]) -> None:
        failed.append(torch.cuda.CUDAGraph())  # whose end the allocator would not survive
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(failed[-1], stream=stream):
            body()

    def sum_all() -> None:
        for x, _ in pairs:
            reduce_ops.sum(x)

    def check(when: str) -> None:
        torch.cuda.synchronize()
        for x, expected in pairs:
            for stream in (torch.cuda.current_stream(), *streams):
                with torch.cuda.stream(stream):
                    assert_same_bits(reduce_ops.sum(x), expected, when)
        for i in (0, -1):
            x, expected = pairs[i]
            graph, totals = capture(x, calls=3)
            graph.replay()
            for total in totals:
                assert_same_bits(total, expected, when)

    def wait() -> None:
        sum_all()
        torch.cuda.synchronize()  # ends the capture

    def go_on_after_it_failed() -> None:
        with pytest.raises(RuntimeError):
            torch.cuda.synchronize()
        for x, _ in pairs:
            with pytest.raises(RuntimeError):
                reduce_ops.sum(x)  # cannot be launched

    def raise_something() -> None:
        sum_all()
        raise KeyError("of the user's")

    check("at first")
    for stream in streams:
        with pytest.raises(RuntimeError):
            failing_capture(stream, wait)
        check("after a capture that waited for the device")
        with pytest.raises(RuntimeError):
            failing_capture(stream, go_on_after_it_failed)
        check("after sums in a capture that had failed")
        with pytest.raises(KeyError):
            failing_capture(stream, raise_something)
        check("after a capture that an exception ended")
        with torch.cuda.stream(stream), pytest.raises(torch.OutOfMemoryError):
            reduce_ops.sum(pairs[0][0][:1].expand(2**42, 2), 1)  # 16 TiB of results
        check("after memory ran out")


def test_failures_leave_it_usable() -> None:
    in_a_process(_fails_and_goes_on, timeout=300)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_device_that_is_not_current() -> None:
    x = random_values(1_000_003, torch.float32)
    total = reduce_ops.sum(x.to("cuda:1"))
    assert total.device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    assert_same_bits(total, reduce_ops.sum(x))
