"""Kernels that may start while the kernel ahead of them on the stream still ends wait for what that one writes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import torch

import reduce_ops
from support import assert_same_bits, plan

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
grid_control = pytest.importorskip("triton.language.extra.cuda")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_capability()[0] < 9,
        reason="kernels start early from Hopper on",
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
    "rows, many tiles": ((2**25,), lambda x: x, None),
    "rows, misaligned, one block": ((1000,), lambda x: x[1:], None),
    "rows, misaligned, little": ((2**20,), lambda x: x[1:], None),
    "rows, misaligned": ((2**21,), lambda x: x[1:], None),
    "rows, misaligned, one block, float16": ((1000,), lambda x: x.view(torch.float16)[1:], None),
    "rows, misaligned, little, float16": ((2**18,), lambda x: x.view(torch.float16)[1:], None),
    "rows, misaligned, one block, int8": ((1000,), lambda x: x.view(torch.int8)[1:], None),
    "rows, misaligned, little, int16": ((2**18,), lambda x: x.view(torch.int16)[1:], None),
    "rows, misaligned, little, int64": ((2**18,), lambda x: x.view(torch.int64)[1:], None),
    "rows, misaligned, int8": ((2**22,), lambda x: x.view(torch.int8)[1:], None),
    "rows, some blocks each": ((16, 20_000), lambda x: x, 1),
    "rows, some blocks each, misaligned": ((16, 20_001), lambda x: x[:, 1:], 1),
    "rows, a warp each": ((2000, 1000), lambda x: x, 1),
    "rows, planes": ((32, 3, 56, 56), lambda x: x, (0, 2, 3)),
    "rows, pitched": ((2000, 1000), lambda x: x[:, ::2], 1),
    "rows, split": ((20, 4, 30, 5, 101), lambda x: x[..., :99], (0, 2, 4)),
    "rows, strided": ((20, 4, 30, 5, 101), lambda x: x[..., ::2], (0, 2, 4)),
    "tiny_rows": ((20_000, 3), lambda x: x, 1),
    "small_rows": ((20_000, 32), lambda x: x, 1),
    "staged_rows": ((20_000, 257), lambda x: x, 1),
    "staged_rows, permuted": ((30, 700, 257), lambda x: x.transpose(0, 1), 2),
    "columns, at_end": ((100, 2000, 104), lambda x: x, 1),
    "columns, at_start": ((1000, 300), lambda x: x, 0),
    "columns, when_loaded": ((8192, 768), lambda x: x, 0),
    "columns, chunks, when_loaded": ((9, 5, 40_000), lambda x: x.permute(2, 1, 0), 2),
    "few_rows": ((8, 30_000), lambda x: x, 0),
    "few_rows, chunks": ((2, 50, 3000), lambda x: x.permute(2, 1, 0), 2),
    "narrow_columns, at_end": ((2**18, 16), lambda x: x, 0),
    "narrow_columns, when_loaded": ((30_000, 8), lambda x: x, 0),
    "lines": ((1501, 1400), lambda x: x.t(), None),
    "word_tiles": ((64, 196, 256), lambda x: x.transpose(1, 2), None),
    "word_tiles, images": ((300, 196, 32), lambda x: x.transpose(1, 2), (1, 2)),
    "staged_tiles": ((15, 90_000), lambda x: x.t(), None),
    "tiles": ((9000, 3, 200), lambda x: x[..., ::2].transpose(1, 2), None),
    "boxes": ((3, 30_000, 7), lambda x: x.permute(1, 2, 0), (0, 2)),
}
EXACT: dict[str, tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    "run": ((2**20,), reduce_ops.sum_exact),
    "rows": ((200, 5000), lambda x: reduce_ops.sum_exact(x, 1)),
    "columns": ((5000, 200), lambda x: reduce_ops.sum_exact(x, 0)),
    "round": ((2**20,), lambda x: reduce_ops.exact_round(reduce_ops.exact_state(x), dtype=torch.float32)),
}
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
    p = plan(view(torch.empty(shape, device="cuda")), dim)
    assert p.family == kind.partition(",")[0]
    assert p.let_next == kind.rpartition(", ")[2] or p.family not in ("columns", "narrow_columns")
    assert p.tiles > 1 or kind != "rows, many tiles"
    assert (p.layout == "shifted") == ("misaligned" in kind)
    assert p.layout == kind.rpartition(", ")[2] or p.layout not in ("pitched", "split", "strided") or p.family != "rows"
    check(shape, lambda x: reduce_ops.sum(view(x), dim))


@pytest.mark.parametrize(("shape", "dim"), [((2**20,), None), ((300, 5000), 1), ((5000, 300), 0), ((8, 30_000), 0)])
def test_sums_that_convert_wait_for_the_kernel_ahead(shape: tuple[int, ...], dim: Dims) -> None:
    check(shape, lambda x: reduce_ops.sum(x, dim, dtype=torch.float64))
    check(shape, lambda x: reduce_ops.sum(x.view(torch.float16), dim, dtype=torch.float32))
    check(shape, lambda x: reduce_ops.sum(x.view(torch.int8), dim, dtype=torch.float32))


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        *(((300, 1000), 1), ((300, 1024), 1), ((300, 5000), 1), ((2**20,), None), ((2**22,), None), ((3, 2**19), 1)),
        *(((8, 3, 56, 56), (0, 2, 3)), ((40_000, 3), 1), ((20_000, 32), 1), ((30_000, 8), 0), ((1000, 128), 0)),
    ],
)
def test_what_is_prefetched_is_read_after_the_wait(shape: tuple[int, ...], dim: Dims) -> None:
    """By plans for a GPU so small that this is several waves for it."""
    assert plan(torch.empty(shape, device="cuda"), dim, multiprocessors=1).prefetching > 0
    check(shape, lambda x: torch.ops.reduce._sum_as_on(x, dim, multiprocessors=1))


def test_small_grids_that_prefetch_wait() -> None:
    """By a plan for a GPU in between: a smaller one takes many tiles, and a larger one has room for all blocks."""
    p = plan(torch.empty(16, 2**17, device="cuda"), 1, multiprocessors=16)
    assert (p.prefetching > 0, p.tiles, p.segments, p.let_next) == (True, 1, 32, "at_start")
    check((16, 2**17), lambda x: torch.ops.reduce._sum_as_on(x, 1, multiprocessors=16))


@pytest.mark.parametrize("kind", EXACT)
def test_exact_sums_wait_for_the_kernel_ahead(kind: str) -> None:
    shape, total = EXACT[kind]
    check(shape, total)


def test_kernels_that_do_not_wait_do_not_start_early() -> None:
    """The ladder's, of the engine as of nvcc, and the one that only reads, behind which a sum relies on those ahead."""
    other = torch.ones(2**20, device="cuda")

    def behind_read(x: torch.Tensor) -> torch.Tensor:
        torch.ops.reduce._read(other)
        return reduce_ops.sum(x)

    check((2**16,), behind_read)
    try:
        torch.ops.reduce._ladder_engine(True)
        for rung in reduce_ops.LADDER:
            check((2**16,), getattr(reduce_ops, rung.name))
    finally:
        torch.ops.reduce._ladder_engine(False)


@pytest.mark.parametrize("kind", SUMS)
def test_none_is_overtaken(kind: str) -> None:
    """A sum of something else starts early, and the sum behind it too: it may rely on what is ahead of both."""
    shape, view, dim = SUMS[kind]
    other = view(torch.ones(shape, device="cuda"))

    def total(x: torch.Tensor) -> torch.Tensor:
        reduce_ops.sum(other, dim)
        return reduce_ops.sum(x)

    check((2**16,), total)


@pytest.mark.parametrize("kind", SUMS)
def test_none_is_overtaken_in_a_graph(kind: str) -> None:
    """The last of three sums in a row reads what the first one writes."""
    shape, view, dim = SUMS[kind]
    other = view(torch.ones(shape, device="cuda"))
    x = torch.zeros(2**12, 2**12, device="cuda")

    def total() -> torch.Tensor:
        rows = reduce_ops.sum(x, 1)
        reduce_ops.sum(other, dim)
        return reduce_ops.sum(rows)

    total()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = total()
    for value in VALUES:
        x.fill_(value)
        graph.replay()
        assert_same_bits(captured, torch.tensor(value * x.numel(), device="cuda"), value)


class EdgeData(ctypes.Structure):
    """cudaGraphEdgeData."""

    _fields_ = (("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte), ("type", ctypes.c_ubyte))
    _fields_ += (("reserved", ctypes.c_ubyte * 5),)


def early_starts(graph: torch.cuda.CUDAGraph) -> list[list[bool]]:
    """For each node but the first, from the last one on: whether it starts early, for each node that it depends on."""
    try:
        runtime = ctypes.CDLL(f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}")
    except OSError as error:
        pytest.skip(f"no CUDA runtime to ask: {error}")
    count = ctypes.c_size_t(16)
    ahead, behind, edges = (ctypes.c_void_p * 16)(), (ctypes.c_void_p * 16)(), (EdgeData * 16)()
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    assert runtime.cudaGraphGetEdges(handle, ahead, behind, edges, ctypes.byref(count)) == 0
    into: dict[int, list[tuple[int, bool]]] = {}
    for i in range(count.value):
        programmatic = edges[i].type == 1  # cudaGraphDependencyTypeProgrammatic
        into.setdefault(behind[i], []).append((ahead[i], programmatic))
    (node,) = set(into) - set(ahead[: count.value])
    starts = []
    while node in into:
        starts.append([early for _, early in into[node]])
        node = into[node][0][0]
    return starts


def test_in_a_graph_only_behind_another_sum() -> None:
    x, y = torch.ones(2**20, device="cuda"), torch.ones(300, 200, device="cuda")
    reduce_ops.sum(x)
    reduce_ops.sum(y, 1)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        reduce_ops.sum(y, 1)
        reduce_ops.sum(x)
        x.add_(1)
        reduce_ops.sum(y, 1)
        reduce_ops.sum(x)
    assert early_starts(graph) == [[True], [False], [False], [True]]


def test_in_a_graph_not_where_branches_join() -> None:
    x, side = torch.ones(2**20, device="cuda"), torch.cuda.Stream()
    reduce_ops.sum(x)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        reduce_ops.sum(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            reduce_ops.sum(x)
        reduce_ops.sum(x)
        torch.cuda.current_stream().wait_stream(side)
        reduce_ops.sum(x)
    joined, *_ = early_starts(graph)
    assert joined == [False, False]


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
