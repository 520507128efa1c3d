"""The plan of a sum: which kernels a GPU would run. Needs no GPU, and no memory: the tensors are on the meta device."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import reduce_ops  # noqa: F401  (loads the operators)
from support import (
    COLUMN_WAVE_DTYPES,
    COLUMN_WAVE_GPUS,
    COLUMN_WAVES,
    H200,
    H200_L2,
    MANY_SINGLE_COLUMNS,
    Plan,
    plan,
    rows_in_many_dimensions,
)

MAX_BLOCKS = 16384  # of rows that can publish
SLOT_WORDS = 2**16  # of four bytes of a sum each, where blocks of columns publish
COUNTER_BYTES = 96 * 2**10  # of shared memory, for counters of columns


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize(
    ("shape", "dim", "family"),
    [
        ((2**24,), None, "rows"),
        ((4096, 4096), 0, "columns"),
        ((4096, 4096), 1, "rows"),
        ((2**20, 32), 0, "narrow_columns"),
        ((2**20, 31), 0, "columns"),
        ((2**20, 64), 0, "columns"),
        ((2**20, 32), 1, "small_rows"),
        ((32, 2**20), 0, "columns"),
        ((8, 2**22), 0, "few_rows"),
        ((32, 768), 0, "few_rows"),
        ((64, 768), 0, "few_rows"),
        ((65, 768), 0, "rows"),  # little data
        ((172, 768), 0, "columns"),
        ((65, 7680), 0, "columns"),
        ((900, 132), 0, "rows"),
        ((900, 133), 0, "columns"),
        ((8, 2**22), 1, "rows"),
        ((2**22, 8), 0, "narrow_columns"),
        ((2**24, 3), 0, "narrow_columns"),
        ((2**24, 3), 1, "tiny_rows"),
        ((131072, 257), 0, "columns"),
        ((131072, 257), 1, "staged_rows"),
        ((16, 2048, 4096), 1, "columns"),
        ((64, 3, 224, 224), [0, 2, 3], "rows"),
        ((100, 1000, 100), 1, "columns"),
        ((8192, 50257), 1, "rows"),
    ],
)
def test_family(shape: tuple[int, ...], dim: int | list[int] | None, family: str) -> None:
    assert plan(meta(*shape), dim).family == family


def test_layout() -> None:
    x = meta(300, 5000)
    assert plan(x, 1).layout == "aligned"
    assert plan(meta(300, 5001), 1).layout == "shifted"
    assert plan(meta(8, 16, 28, 28), [0, 2, 3]).layout == "runs"
    assert plan(meta(8, 16, 7, 7), [0, 2, 3]).layout == "pitched"
    assert plan(x[:, ::2], 1).layout == "pitched"
    assert plan(meta(40, 30, 37).transpose(0, 1)).layout == "split"
    assert plan(meta(8, 16, 28, 28)[:, :, ::2, ::2], [0, 2, 3]).layout == "strided"
    assert plan(meta(2, 3, 2**31)[:, 0], [0, 1]).layout == "strided"  # too far for 32 bits
    assert plan(torch.empty(2**21)[1:]).layout == "shifted"


@pytest.mark.parametrize(
    ("dtype", "to", "like"),
    [
        *((torch.int32, torch.float32, torch.float32), (torch.uint32, torch.float32, torch.float32)),
        *((torch.int16, torch.float32, torch.float16), (torch.uint16, torch.float32, torch.bfloat16)),
        *((torch.int64, torch.float64, torch.float64), (torch.uint64, torch.float64, torch.float64)),
        *((torch.bool, torch.float32, torch.float8_e5m2), (torch.uint16, None, torch.int16)),
        *((torch.uint32, None, torch.int32), (torch.float8_e4m3fn, None, torch.float8_e5m2)),
    ],
    ids=str,
)
def test_a_plan_depends_on_sizes_of_types(dtype: torch.dtype, to: torch.dtype | None, like: torch.dtype) -> None:
    """Every dtype reaches every algorithm: no kernel is left out to save compile time."""
    wanted = torch.float32 if like in (torch.float16, torch.bfloat16) else None  # or they are rounded to 16 bits
    for shape, dim in (
        *(((2**20,), None), ((300, 4097), 1), ((2**20, 3), 1), ((2**18, 33), 1), ((4096, 4096), 0), ((2**20, 12), 0)),
        *(((8, 2**20), 0), ((8, 16, 32, 32), [0, 2, 3]), ((8, 16, 33, 33), [0, 2, 3])),
    ):
        of_dtype, of_like = meta(*shape, dtype=dtype), meta(*shape, dtype=like)
        assert plan(of_dtype, dim, dtype=to) == plan(of_like, dim, dtype=wanted)
        assert plan(of_dtype.mT if len(shape) > 1 else of_dtype, dtype=to) == plan(
            of_like.mT if len(shape) > 1 else of_like, dtype=wanted
        )


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [
        ((60, 40, 37), torch.complex64, "split"),
        ((60, 40, 37), torch.complex128, "strided"),  # a load each
        ((60, 400, 5), torch.float64, "split"),
        ((60, 7, 2**24), torch.float16, "strided"),  # too far for 32 bits
    ],
    ids=str,
)
def test_runs_that_start_anywhere(shape: tuple[int, int, int], dtype: torch.dtype, layout: str) -> None:
    p = plan(meta(*shape, dtype=dtype).transpose(0, 1)[..., 1:])
    assert (p.family, p.layout) == ("rows", layout)


@pytest.mark.parametrize(
    ("dtype", "planes", "layout"),
    [
        (torch.int8, (20, 5, 130), "split"),
        (torch.bfloat16, (20, 5, 130), "split"),
        (torch.float32, (20, 5, 130), "pitched"),
        (torch.float16, (30, 5, 127), "pitched"),  # short runs
        (torch.float16, (15, 5, 130), "pitched"),  # little of an output
    ],
    ids=str,
)
def test_planes_of_small_elements(dtype: torch.dtype, planes: tuple[int, int, int], layout: str) -> None:
    p = plan(meta(*planes, dtype=dtype)[..., 1:], [0, 2])
    assert (p.family, p.layout) == ("rows", layout)


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [(dtype, "shifted") for dtype in (torch.bool, torch.bfloat16, torch.float32, torch.complex64)]
    + [(torch.uint32, "shifted"), (torch.complex128, "aligned")],
)
def test_shifted_base(dtype: torch.dtype, layout: str) -> None:
    assert plan(torch.empty(1001, dtype=dtype)[1:]).layout == layout


@pytest.mark.parametrize(
    ("n", "threads", "loads", "segments"),
    [
        *((2**7, 32, 1, 1), (2**12, 256, 4, 1), (2**13, 512, 4, 1), (2**14, 1024, 4, 1), (2**14 + 1, 128, 8, 5)),
        *((2**16, 128, 8, 16), (2**16 + 1, 128, 8, 17), (2**17, 128, 8, 32), (2**17 + 1, 256, 8, 17)),
        *((2**15, 128, 8, 8), (2**15 + 1, 128, 8, 9), (2**20, 256, 8, 128)),
    ],
)
def test_blocks_for_little_from_a_shifted_base(n: int, threads: int, loads: int, segments: int) -> None:
    p = plan(torch.empty(n + 1)[1:])
    assert (p.layout, p.threads, p.loads, p.tiles, p.segments) == ("shifted", threads, loads, 1, segments)


@pytest.mark.parametrize(
    ("dtype", "loads"), [(torch.float64, 8), (torch.complex64, 8), (torch.float16, 4), (torch.float8_e5m2, 4)], ids=str
)
def test_no_full_block_from_a_shifted_base(dtype: torch.dtype, loads: int) -> None:
    """But of integers and of 4 bytes an element: of 1024 threads it is three quarters full at most."""
    group = 16 // dtype.itemsize
    block = plan(torch.empty(3072 * group + 1, dtype=dtype)[1:])
    assert (block.layout, block.threads, block.segments) == ("shifted", 1024, 1)
    grid = plan(torch.empty(3072 * group + 2, dtype=dtype)[1:])
    assert (grid.layout, grid.threads, grid.loads) == ("shifted", 128, loads)
    assert grid.segments == 3072 // (128 * loads) + 1


def test_no_full_block_of_float8() -> None:
    assert plan(meta(3072 * 16, dtype=torch.float8_e4m3fn)).segments == 1
    grid = plan(meta(3072 * 16 + 1, dtype=torch.float8_e4m3fn))
    assert (grid.layout, grid.threads, grid.loads, grid.segments) == ("aligned", 128, 4, 7)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_from_a_shifted_base_take_what_aligned_ones_take(dtype: torch.dtype) -> None:
    for n in (2**exponent + more for exponent in range(6, 31) for more in (-1, 0, 1)):
        memory = meta(n + 1, dtype=dtype)
        aligned, shifted = plan(memory[:n]), plan(memory[1:])
        assert (aligned.layout, shifted.layout) == ("aligned", "shifted")
        assert vars(shifted) == vars(aligned) | {"layout": "shifted"}, n


@pytest.mark.parametrize("n", [1, 2**6, 2**12, 2**14])
def test_small_full_sums_take_one_block(n: int) -> None:
    assert plan(meta(n)).segments == 1


@pytest.mark.parametrize(
    ("n", "threads", "segments"),
    [
        *((2**14 + 1, 128, 5), (2**16, 128, 16), (2**16 + 1, 128, 17), (2**17, 128, 32)),
        *((2**17 + 1, 256, 17), (2**21, 256, 256), (2**21 + 1, 512, 129)),
    ],
)
def test_middle_full_sums_take_few_small_blocks(n: int, threads: int, segments: int) -> None:
    p = plan(meta(n))
    assert (p.threads, p.tiles, p.segments) == (threads, 1, segments)


@pytest.mark.parametrize(("power", "tiles", "blocks"), [(28, 4, 4096), (29, 4, 8192), (30, 8, 8192), (31, 16, 8192)])
def test_much_data_is_summed_by_thousands_of_blocks_and_collected_by_one_more(
    power: int, tiles: int, blocks: int
) -> None:
    for more, others in ((-1, blocks), (0, blocks), (1, blocks + 1)):
        p = plan(meta(2**power + more))
        assert (p.tiles, p.segments) == (tiles, others + 1), more


def test_a_wave_of_blocks_where_it_is_full() -> None:
    p = plan(meta(2**26))
    assert (p.tiles, p.segments) == (16, 256)
    several = plan(meta(32, 2**20), 1)
    assert (several.tiles, several.segments) == (1, 64)


def test_channels_last_is_a_matrix() -> None:
    x = meta(32, 64, 112, 112).to(memory_format=torch.channels_last)
    assert plan(x, [0, 2, 3]).family == "columns"
    assert plan(x, [0, 2, 3]).vector == 4


def test_neighbouring_threads_take_neighbouring_elements_of_permuted_dimensions() -> None:
    assert plan(meta(64, 200, 512).permute(2, 0, 1), 2) == plan(meta(64, 200, 512), 1)


@pytest.mark.parametrize(
    ("shape", "family", "at_once", "window"),
    [
        ((145, 81, 7876), "lines", 256, 64),
        ((16, 81, 7876), "lines", 192, 32),
        ((8, 81, 7876), "lines", 96, 32),
        ((3, 81, 7876), "lines", 32, 32),
        ((2000, 81, 201), "lines", 256, 32),
        ((2001, 81, 200), "staged_tiles", 32, 32),
        ((2001, 81, 32), "staged_tiles", 64, 64),
        ((2000, 81, 200), "word_tiles", 128, 1024),
        ((2000, 81, 100), "word_tiles", 128, 512),
        ((2000, 81, 22), "word_tiles", 128, 256),
        ((64, 81, 1200), "word_tiles", 16, 128),
        ((2000, 81, 31), "staged_tiles", 64, 64),
        ((2000, 81, 2), "staged_tiles", 512, 512),
        ((184, 81, 15), "staged_tiles", 32, 32),
    ],
)
def test_order_across_memory(shape: tuple[int, int, int], family: str, at_once: int, window: int) -> None:
    p = plan(meta(*shape[::-1]).permute(2, 1, 0), [0, 2])
    assert (p.family, p.tiles, p.window) == (family, at_once, window)


def test_a_run_of_a_few_elements_is_crossed_too() -> None:
    assert plan(meta(300, 200, 4).transpose(0, 1)).family == "lines"
    assert plan(meta(300, 200, 8).transpose(0, 1)).layout == "split"


def test_every_other_element_is_not_crossed() -> None:
    assert plan(meta(300, 900, 2).permute(2, 0, 1)).layout == "pitched"
    assert plan(meta(3001, 9001, 3).permute(2, 0, 1)).family == "lines"


@pytest.mark.parametrize(
    ("length", "step"),
    [
        *((100_001, 8), (1_000_001, 5)),  # what lies between is not in L1 any more, but in L2
        (3_000_001, 2),  # nor there
    ],
)
def test_elements_a_few_apart_are_rows(length: int, step: int) -> None:
    assert plan(meta(length, step).t()).layout == "pitched"
    assert plan(meta(length, step + 1).t()).family == "lines"


@pytest.mark.parametrize(("batch", "length", "step"), [(40, 500, 64), (3000, 500, 6)])
def test_elements_further_apart_are_rows_if_those_between_come_soon(batch: int, length: int, step: int) -> None:
    assert plan(meta(batch, length, step).transpose(1, 2), [1, 2]).layout == "pitched"
    assert plan(meta(batch, length, step + 1).transpose(1, 2), [1, 2]).family == "lines"


def test_elements_a_few_apart_in_more_dimensions_are_rows() -> None:
    p = plan(meta(40, 30, 200, 4).permute(1, 3, 0, 2))
    assert (p.family, p.layout) == ("rows", "strided")
    assert plan(meta(40, 30, 200, 5).permute(1, 3, 0, 2)).family == "lines"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int8], ids=str)
def test_rows_are_long_enough_for_a_warp_each(dtype: torch.dtype) -> None:
    rows = meta(10_000, 256, dtype=dtype)[:, ::2]
    assert plan(rows, 1).family == "rows"
    assert plan(rows[:, 1:], 1).family == "columns"


def test_rows_of_half_a_kib_in_a_run() -> None:
    for length in (66, 126):
        assert plan(meta(1000, length, dtype=torch.float64), 1).family == "rows"


def test_bytes_that_are_not_much_closer_than_outputs_are_columns() -> None:
    for between, family in ((5, "columns"), (6, "rows")):
        assert plan(meta(200, 3000, between, dtype=torch.int8), [0, 2]).family == family
    assert plan(meta(200, 31, 5, dtype=torch.int8), [0, 2]).family == "rows"


def test_short_lines_are_rows_where_that_is_little() -> None:
    for lines, family in ((3000, "rows"), (9_000_000, "staged_tiles")):
        assert plan(meta(3, lines).t()).family == family
    assert plan(meta(3, 3000, dtype=torch.complex128).t()).family == "staged_tiles"  # has no such rows


def test_outputs_side_by_side_within_a_sector() -> None:
    for outputs, family in ((1, "lines"), (5, "lines"), (8, "lines"), (9, "columns")):
        assert plan(meta(649, 34998, outputs).transpose(0, 1), [0, 1]).family == family


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("mib", [100, 800, 6000])
def test_some_windows_have_room(dtype: torch.dtype, mib: int) -> None:
    """Lines are walked along, or short enough for tiles, whatever their length."""
    for length in range(8, 600):
        lines = mib * 2**20 // dtype.itemsize // length
        if lines * length < 2**31:
            assert plan(meta(length, lines, dtype=dtype).t()).family in (
                *("lines", "word_tiles", "staged_tiles", "boxes", "rows_across_memory"),
            ), length


@pytest.mark.parametrize(
    ("shape", "threads", "width", "loads"),
    [
        ((16, 300, 8), 128, 32, 2),
        ((16, 300, 16), 128, 32, 2),
        ((17, 300, 16), 128, 32, 4),
        ((32, 300, 16), 128, 32, 4),
        ((33, 300, 16), 128, 0, 4),
    ],
    ids=str,
)
def test_a_warp_for_each_output_of_up_to_128_words_in_runs(
    shape: tuple[int, int, int], threads: int, width: int, loads: int
) -> None:
    p = plan(meta(*shape), [0, 2])
    assert (p.layout, p.threads, p.width, p.loads) == ("runs", threads, width, loads)


@pytest.mark.parametrize(
    ("shape", "strides", "dims", "vector"),
    [
        ((2, 61, 45738, 3), (45738, 274428, 1, 91476), [0, 3], 1),  # in two dimensions
        ((2, 1000, 4096, 3), (4096, 24576, 1, 8192), [0, 3], 8),
        ((338, 2, 11002), (22004, 7437352, 2), 1, 1),  # of every other element
    ],
    ids=str,
)
def test_few_rows_that_lie_apart(
    shape: tuple[int, ...], strides: tuple[int, ...], dims: int | list[int], vector: int
) -> None:
    p = plan(torch.empty_strided(shape, strides, dtype=torch.float16, device="meta"), dims)
    assert (p.family, p.vector, p.loads) == ("few_rows", vector, 8)


def test_lines_do_not_leave_the_second_wave_short() -> None:
    threads = [lines * math.ceil(length / 256) / (768 * H200) for lines, length in ((2142, 13374), (4097, 4097))]
    assert threads[1] < 1 < threads[0] < 2
    assert plan(meta(13374, 2142).t()).tiles == 320
    assert plan(meta(4097, 4097).t()).tiles == 256


def test_nodes_take_a_hundredth_of_what_is_there() -> None:
    """Not of what an expanded or unfolded view makes of it."""
    assert plan(meta(3000, 300_000).t()).window == 128  # 3.6 GB: nodes of 64 would take more than a hundredth
    assert plan(meta(3000, 3000).t()).window == 64
    assert plan(meta(3000, 100).t().expand(20, 100, 3000)).family == "lines"  # 7 MiB are always there
    assert plan(meta(30_000, 1).expand(30_000, 100_000)).layout == "strided"
    assert plan(meta(1000, 513).t().expand(100_000, 513, 1000), [1, 2]).family == "columns"
    assert plan(meta(2_000_000).unfold(0, 1000, 1).unfold(0, 1000, 1), [1, 2]).window == 0
    for dtype, length, family in (
        *((torch.float32, 600, "boxes"), (torch.float32, 900, "staged_tiles")),
        *((torch.bfloat16, 1050, "boxes"), (torch.bfloat16, 2100, "staged_tiles")),
    ):
        assert plan(meta(2_000_000, 30, length // 30, dtype=dtype).transpose(1, 2), [1, 2]).family == family
    for length, window in ((540, 512), (180, 0)):
        assert plan(meta(2_000_000, 30, length // 30, dtype=torch.bfloat16).transpose(1, 2), [1, 2]).window == window


def test_lines_in_two_dimensions() -> None:
    """They are walked along unless they are short beside the windows that there is room for."""
    for inner, lines, family, window in ((21, 9000, "boxes", 128), (7, 9000, "tiles", 128), (200, 900, "lines", 128)):
        little = 16 if family == "tiles" else 1  # for so many more multiprocessors; otherwise it is boxes, too
        p = plan(meta(4, inner, 398, lines).permute(2, 3, 1, 0), multiprocessors=little * H200)
        assert (p.family, p.window) == (family, window)


def test_lines_come_before_tiles_element_by_element() -> None:
    """Unless they lie side by side, and windows are longer."""
    for length, family in ((86, "lines"), (65, "boxes"), (63, "boxes"), (40, "boxes"), (20, "lines")):
        assert plan(meta(length, 37_485, 13, dtype=torch.float64).permute(2, 1, 0)).family == family
    for matrices, family, window in ((30_000, "lines", 32), (300_000, "boxes", 128)):
        p = plan(meta(matrices, 50, 5, dtype=torch.float64).transpose(1, 2))
        assert (p.family, p.window) == (family, window)


def test_lines_may_turn_often() -> None:
    for held in ((3, 5, 2425, 2703), (2, 2, 2, 2, 90, 40), (4, 3, 9219, 61)):
        assert plan(meta(*held).permute(*reversed(range(len(held))))).family == "lines"


def test_what_a_line_is_may_be_chosen() -> None:
    """Short lines that are all of the memory, or long ones of which few bytes lie side by side."""
    for shape, dtype, family, window in (
        *(((10, 40_560, 40), torch.float32, "lines", 32), ((10, 40_560, 20), torch.float32, "lines", 64)),
        *(((10, 96_560, 40), torch.float32, "boxes", 32), ((10, 96_560, 20), torch.float32, "boxes", 32)),
        *(((8, 1_000_000, 9), torch.float16, "lines", 64), ((2, 1_000_000, 9), torch.float16, "boxes", 128)),
    ):
        p = plan(meta(*reversed(shape), dtype=dtype).permute(2, 1, 0))
        assert (p.family, p.window) == (family, window)


WORST = [  # of random layouts, before there were boxes: shape, strides, dims
    ((15, 5, 79092, 22), (1, 1186380, 15, 5931900), None),
    ((18, 108784, 3, 3, 4), (3, 54, 5874336, 1, 17623008), None),
    ((60788, 6, 5, 48), (5, 303940, 1, 1823640), [0, 1, 2]),
    ((48, 14, 16675, 3), (84, 6, 4032, 2), None),
    ((111, 4, 2, 31178), (2, 222, 1, 888), [0, 1, 2]),
    ((3828, 43, 16, 23, 2), (31648, 736, 1, 16, 368), None),
    ((189, 2, 5, 6501), (1, 189, 378, 1890), [0, 1, 2]),
    ((180, 41369, 4, 4), (661904, 1, 41369, 165476), None),
    ((18584, 120, 27, 2), (3240, 1, 120, 60212160), None),
    ((1088, 90, 9, 19, 5), (4050, 45, 5, 4406400, 1), [2, 3]),
    ((28, 77252, 8, 7), (8, 1568, 1, 224), None),
    ((3, 27738, 57, 3, 7), (33202386, 399, 7, 11067462, 1), [1, 2, 3, 4]),
    ((41, 14376, 7, 8, 4), (8, 328, 18861312, 1, 4715328), None),
    ((479, 21, 3, 578, 7), (12138, 578, 5814102, 1, 17442306), None),
    ((203, 26585, 4, 3), (12, 2436, 1, 4), [0, 2, 3]),
    ((131, 2, 83865, 2), (1, 131, 524, 262), [0, 1, 3]),
    ((1314, 1215, 10, 3), (10, 39420, 1, 13140), None),
    ((55235, 97, 3, 2), (582, 6, 1, 3), [1, 2, 3]),
    ((3, 5423, 7773), (1, 23319, 3), None),
    ((31, 496, 17, 7, 70), (1, 3689, 217, 31, 1829744), None),
    ((125, 261, 6, 31, 3), (8091, 31, 1011375, 1, 6068250), None),
    ((352, 38, 920, 7), (6440, 2266880, 1, 920), None),
    ((83, 16284, 6, 5), (81420, 5, 6757860, 1), None),
    ((9021, 56, 10, 5, 4), (11200, 10, 1, 2240, 560), [1, 3, 4]),
]


@pytest.mark.parametrize(("shape", "strides", "dims"), WORST)
def test_boxes_where_lines_use_little_of_each_sector(
    shape: tuple[int, ...], strides: tuple[int, ...], dims: list[int] | None
) -> None:
    p = plan(torch.empty_strided(shape, strides, dtype=torch.float16, device="meta"), dims)
    assert p.family == "boxes"
    assert p.run >= 64  # two sectors
    assert 2 * math.prod(p.ranges) <= p.shared <= 44 * 2**10  # bytes


@pytest.mark.parametrize(
    ("shape", "strides", "dims", "dtype", "otherwise"),
    [
        ((2, 23_722, 1440), (1, 2880, 2), [0, 1, 2], torch.float16, "rows"),
        ((15, 9324, 17, 52), (17, 255, 1, 2_377_620), [0, 1, 2], torch.bfloat16, "rows"),
        ((107, 9, 6544, 5), (5, 535, 4815, 1), [0, 1, 2, 3], torch.complex64, "rows"),
        ((902, 27, 3, 49, 13), (147, 132_594, 1, 3, 3_580_038), [0, 1, 2, 3, 4], torch.float32, "lines"),
        ((1576, 5, 73, 52, 2), (37_960, 1, 10, 730, 5), [0, 1, 2, 3, 4], torch.bfloat16, "lines"),
        ((322, 10, 70, 174), (121_800, 1, 10, 700), [2, 3], torch.float32, "columns"),
        ((35, 75, 1837, 3), (450, 6, 15_750, 2), [0, 1, 2], torch.float64, "columns"),
    ],
    ids=str,
)
def test_boxes_where_memory_would_be_read_again(
    shape: tuple[int, ...], strides: tuple[int, ...], dims: list[int], dtype: torch.dtype, otherwise: str
) -> None:
    """If L2 does not hold what is read in between; of little data it holds all."""
    x = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    assert plan(x, dims).family == "boxes"
    assert plan(x, dims, l2_bytes=8 * H200_L2).family == otherwise


def test_a_larger_l2() -> None:
    """It still has what a smaller one has lost when it is read again, in tiny rows as in lines."""
    tiny = meta(2**21, 5)
    lines = torch.empty_strided((1576, 5, 73, 52, 2), (37_960, 1, 10, 730, 5), dtype=torch.bfloat16, device="meta")
    for x, dims, lost, kept in ((tiny, 1, "staged_rows", "tiny_rows"), (lines, None, "boxes", "lines")):
        assert plan(x, dims).family == lost
        assert plan(x, dims) == plan(x, dims, l2_bytes=H200_L2)
        assert plan(x, dims, l2_bytes=4 * H200_L2).family == kept


@pytest.mark.parametrize(
    ("shape", "strides", "dims", "dtype", "otherwise"),
    [
        ((2278, 5, 1697, 2), (3394, 7731532, 2, 1), [0, 1, 2], torch.bfloat16, "columns"),  # a word of them
        ((22, 21264, 20), (1, 22, 467808), [0, 2], torch.float64, "columns"),  # across memory
        ((592, 28766, 2), (57532, 2, 1), [0, 2], torch.float16, "rows"),  # pieces of four bytes
        ((44, 32, 1482, 4), (189696, 5928, 4, 1), [1, 3], torch.float32, "rows"),  # of sixteen
        ((10777, 12, 105, 4), (5040, 4, 48, 1), [0, 2, 3], torch.float32, "rows"),  # the same, of much for an output
        ((176, 28820, 3), (1, 528, 176), [0, 2], torch.bfloat16, "rows"),  # tiles of a KiB each
        ((131, 2, 83865, 2), (1, 131, 524, 262), [0, 1, 3], torch.float32, "tiles"),  # of two
    ],
    ids=str,
)
def test_boxes_where_outputs_share_sectors(
    shape: tuple[int, ...], strides: tuple[int, ...], dims: list[int], dtype: torch.dtype, otherwise: str
) -> None:
    x = meta(math.prod(shape), dtype=dtype).as_strided(shape, strides)
    assert plan(x, dims).family == "boxes"
    assert plan(x, dims, multiprocessors=100_000).family == otherwise  # little for so many
    assert plan(x.to({2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]), dims).window == 0


@pytest.mark.parametrize(
    ("view", "dims"),
    [
        (meta(2**21, 8)[:, :4], None),  # pieces of sectors of which no output uses the rest
        (meta(2**23, 5)[:, 0], None),
        (meta(12, 2**18, 8)[..., :4], [1, 2]),
        (meta(2**14, 9 * 2**12, dtype=torch.float16)[:, ::9], 1),
    ],
    ids=["runs", "single", "batch", "steps"],
)
def test_no_boxes_where_outputs_share_no_sectors(view: torch.Tensor, dims: list[int] | int | None) -> None:
    assert plan(view, dims).family == "rows"


@pytest.mark.parametrize("step", [210, 240, 270])
def test_boxes_of_lines_that_overlap(step: int) -> None:
    """A box has no room for more lines than lie apart, 14 to 18, those of the halo among them."""
    strides = (1, 1186380, 15, step)
    shape = (15, 5, 79092, 30)
    p = plan(torch.empty_strided(shape, strides, dtype=torch.float16, device="meta"))
    assert p.family == "boxes"
    assert p.ranges[1] + p.halo <= step // 15


def test_lines_have_no_more_dimensions_than_a_kernel_takes() -> None:
    strides = (12, 10368, 72, 864, 144, 20736, 5184, 6, 1, 41472, 288, 1728, 2, 24, 82944)
    p = plan(meta(2**10 * 3**5).as_strided((2,) * 10 + (3,) * 5, strides), list(range(10, 15)))
    assert p.family == "columns"


@pytest.mark.parametrize(
    ("x", "loads"),
    [
        (meta(10, 30, 300, dtype=torch.bfloat16).permute(2, 1, 0), 32),
        (meta(10, 30, 300).permute(2, 1, 0), 32),
        (meta(50_000, 9, dtype=torch.float64).t(), 16),
        (meta(300, 300, dtype=torch.complex128).t(), 8),
    ],
    ids=lambda x: str(x.dtype) if isinstance(x, Tensor) else None,
)
def test_little_data_along_lines(x: Tensor, loads: int) -> None:
    """A lane takes one window, of what it loads at once."""
    p = plan(x)
    assert (p.family, p.loads, p.window, p.tiles) == ("lines", loads, loads, loads)


def test_chunks_of_columns_whose_neighbours_are_none_in_the_result() -> None:
    for dtype, vector in ((torch.float32, 4), (torch.bfloat16, 8), (torch.int8, 4)):
        for m, anywhere in ((8000, False), (8001, True)):
            p = plan(meta(2, 300, m, dtype=dtype).permute(2, 1, 0), 2)
            assert (p.family, p.vector, p.loads, p.chunk, p.anywhere) == ("few_rows", vector, 2, 16, anywhere)
    for n in (3, 5, 8):  # of little data, too
        assert plan(meta(n, 10, 40).permute(2, 1, 0), 2).family == "few_rows"
    assert plan(meta(2, 300, 8000), 0).chunk == 0
    assert plan(meta(2, 30, 300, 40).transpose(1, 2), 0).chunk == 0  # runs of 40 there, too
    for n, m, chunk in ((8, 8000, 16), (9, 8000, 0), (9, 2**15, 0), (9, 2**15 + 1, 16)):
        assert plan(meta(n, 300, m, dtype=torch.int16).permute(2, 1, 0), 2).chunk == chunk


def test_columns_that_lie_side_by_side_but_for_the_result() -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.int8):
        for n, m in ((57_749, 230), (3000, 1001), (100, 800)):
            p = plan(meta(n, m, 16, dtype=dtype).transpose(1, 2), 0)
            assert (p.family, p.chunk) == ("columns", 0)
            assert p == plan(meta(n, m * 16, dtype=dtype), 0)


@pytest.mark.parametrize(
    ("dtype", "n", "chunks"),
    [
        (torch.bfloat16, 2, {7: 0, 8: 0, 9: 8, 15: 8, 16: 0, 17: 16, 24: 0, 31: 16, 32: 16, 33: 16}),
        (torch.bfloat16, 8, {7: 0, 9: 8, 15: 8, 17: 16, 24: 0, 31: 16, 33: 16}),
        (torch.float32, 8, {15: 0, 17: 0, 25: 0, 26: 16, 28: 0, 31: 16, 32: 16, 33: 16}),
        (torch.float64, 4, {25: 0, 26: 0, 27: 16, 31: 16, 32: 16, 33: 16}),
        (torch.float64, 5, {27: 0, 31: 0, 32: 16, 33: 16}),
        (torch.int8, 8, {15: 0, 17: 0, 27: 16, 28: 0, 31: 16, 33: 16}),
    ],
    ids=str,
)
def test_chunks_of_short_runs(dtype: torch.dtype, n: int, chunks: dict[int, int]) -> None:
    """Single columns are none where a thread may take neighbours that begin anywhere."""
    vector = {1: 4, 2: 8, 4: 4, 8: 2}[dtype.itemsize]
    for m, chunk in chunks.items():
        p = plan(meta(n, 300, m, dtype=dtype).permute(2, 1, 0), 2)
        assert (p.family, p.chunk) == ("few_rows", chunk)
        assert p.anywhere == (chunk > 0 and m % vector != 0)
        assert p.vector == (vector if p.anywhere or m % vector == 0 else 1)


def test_chunks_of_runs_that_a_thread_takes() -> None:
    """Lanes go on in the order of the result."""
    for dtype, run in ((torch.bfloat16, 8), (torch.float32, 4), (torch.float64, 2)):
        for m, chunk in ((run, run), (2 * run, 0), (run + 1, 0)):
            p = plan(meta(2, 1093, 1484, m, dtype=dtype).permute(2, 1, 0, 3), 2)
            assert (p.family, p.chunk, p.anywhere) == ("few_rows", chunk, False)


def test_rows_of_a_permuted_batch() -> None:
    for length in (5000, 5001, 300):
        p = plan(meta(50, 700, length).transpose(0, 1), 2)
        assert p == plan(meta(50 * 700, length), 1)
        assert p.layout == ("shifted" if length % 2 else "aligned")
    for length, family in ((128, "small_rows"), (12, "small_rows"), (257, "staged_rows"), (9, "staged_rows")):
        p = plan(meta(50, 700, length).transpose(0, 1), 2)
        assert p.family == family
        assert p == plan(meta(50 * 700, length), 1)
    for length in (8, 3):
        assert plan(meta(50, 700, length).transpose(0, 1), 2).family == "few_rows"
    for length in (4000, 200):  # two loads a lane leave no registers for where rows belong
        assert plan(meta(50 * 700, length), 1).loads == 2
        assert plan(meta(50, 700, length).transpose(0, 1), 2).loads == 4
    for length in (4096, 4001, 600, 333, 128, 33, 4, 3):  # in any order
        turned = meta(50, 70, 40, length).permute(2, 1, 0, 3)
        assert plan(turned, 3) == plan(meta(50, 2800, length).transpose(0, 1), 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_the_longest_short_rows(dtype: torch.dtype) -> None:
    for outputs, longest in ((700, 320), (2100, 288), (17_000, 288)):
        for length, family in ((longest - 1, "staged_rows"), (longest + 1, "rows")):
            assert plan(meta(outputs, length, dtype=dtype), 1).family == family
            assert plan(meta(outputs // 100, 100, length, dtype=dtype).transpose(0, 1), 2).family == family
    for outputs, family in ((2999, "staged_rows"), (3001, "rows"), (16_383, "rows"), (16_385, "staged_rows")):
        assert plan(meta(outputs, 257, dtype=dtype), 1).family == family


def test_rows_of_bytes_are_tiny_where_they_are_words() -> None:
    for n, family in ((2, "staged_rows"), (3, "staged_rows"), (4, "tiny_rows"), (5, "staged_rows"), (8, "tiny_rows")):
        assert plan(meta(2**20, n, dtype=torch.int8), 1).family == family


def test_much_data_in_rows_of_some_words_is_not_tiny() -> None:
    for rows, family in ((2**17, "tiny_rows"), (2**22, "small_rows")):
        assert plan(meta(rows, 8), 1).family == family
    for rows, family in ((2**17, "tiny_rows"), (2**22, "staged_rows")):
        assert plan(meta(rows, 5), 1).family == family
    assert plan(meta(2**22, 4), 1).family == "tiny_rows"


def test_an_odd_few_of_words_are_single_columns() -> None:
    for shape, dtype, vector in (
        ((2**20, 24), torch.float16, 1),
        ((3_000_017, 24), torch.float16, 8),
        ((2**20, 32), torch.bfloat16, 0),  # narrow columns
        ((2**20, 48), torch.float16, 8),
        ((2**18, 28), torch.float32, 1),
        ((2**18, 24), torch.float32, 4),
        ((2**18, 14), torch.float64, 2),
    ):
        assert plan(meta(*shape, dtype=dtype), 0).vector == vector


def test_tiles_of_any_number_of_lines() -> None:
    for lines in (2**27, 2**28):
        assert plan(meta(8, 3, lines, dtype=torch.bfloat16).transpose(1, 2), [1, 2]).family == "staged_tiles"


def test_lines_are_staged_where_they_lie_in_runs() -> None:
    def family(x: Tensor) -> str:
        return plan(x).family

    assert family(meta(3, 2_000_000).t()) == "staged_tiles"
    assert family(meta(9000, 3, 200)[..., ::2].transpose(1, 2)) == "tiles"
    for dtype in (torch.bfloat16, torch.float32, torch.float64, torch.complex128):
        turn = 64 // dtype.itemsize
        assert family(meta(90_000, 5, turn, dtype=dtype).transpose(1, 2)) == "staged_tiles"
        assert family(meta(90_000, 5, turn - 1, dtype=dtype).transpose(1, 2)) in ("boxes", "tiles")
    assert family(meta(9000, 3, 4, dtype=torch.complex128).transpose(1, 2)) == "tiles"  # turns end 12 leaves apart
    assert family(meta(30, 7, 50, 3, 40).permute(0, 2, 1, 4, 3)) == "tiles"  # four dimensions
    assert family(meta(9000 * 60).as_strided((9000, 40, 3), (60, 1, 20))) == "staged_tiles"
    assert family(meta(9000 * 60).as_strided((9000, 40, 3), (30, 1, 20))) == "tiles"  # turns that share elements


@pytest.mark.parametrize(
    ("dtype", "length", "lines", "turn"),
    [
        (torch.bfloat16, 150, 50_001, None),
        (torch.float32, 200, 50_001, None),
        (torch.float64, 200, 5001, None),
        (torch.bfloat16, 300, 250_001, None),  # 143 MiB
        (torch.float32, 72, 200, 51),
        (torch.float64, 150, 200, 51),
    ],
    ids=str,
)
def test_longer_lines_are_walked_along(dtype: torch.dtype, length: int, lines: int, turn: int | None) -> None:
    for longer, family in ((0, "staged_tiles"), (1, "lines")):
        shape = (length + longer, lines) if turn is None else (lines, length + longer, turn)
        assert plan(meta(*shape, dtype=dtype).transpose(-2, -1)).family == family, longer


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex64], ids=str)
def test_tiles_of_words_side_by_side(dtype: torch.dtype) -> None:
    """Of lines that begin at multiples of 16 bytes, of an even length that is neither short nor long."""
    word = 16 // dtype.itemsize

    def family(images: int, pixels: int, channels: int, gap: int = 0) -> str:
        x = meta(images, pixels, channels + gap, dtype=dtype)[..., :channels].transpose(1, 2)
        return plan(x).family

    assert family(300, 196, 8 * word) == "word_tiles"
    assert family(300, 196, 8 * word, gap=word) == "word_tiles"
    assert family(300, 196, 8 * word + 1) != "word_tiles"
    assert family(300, 196, 8 * word, gap=1) != "word_tiles"
    longest = 1600 if dtype.itemsize == 2 else 1200
    for pixels, is_of_words in ((12, False), (14, True), (195, False), (longest, True), (longest + 2, False)):
        assert (family(3000, pixels, 8 * word) == "word_tiles") == is_of_words, pixels
    memory = meta(300 * 196 * 8 * word + word, dtype=dtype)
    for offset in (0, 1, word):
        x = memory[offset:].as_strided((300, 8 * word, 196), (196 * 8 * word, 1, 8 * word))
        assert (plan(x).family == "word_tiles") == (offset != 1), offset
    assert plan(meta(9000, 20, 16 * word, dtype=dtype).transpose(1, 2), [1, 2]).family != "word_tiles"  # little each


def test_rows_of_words_below_each_other_are_a_node() -> None:
    for pixels, rows in ((98, 2), (100, 4), (200, 8), (784, 8)):
        p = plan(meta(300, pixels, 64).transpose(1, 2))
        assert (p.family, p.loads, p.window) == ("word_tiles", rows, rows * p.tiles)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("pixels", [98, 100, 104])
def test_small_images_are_a_tile_each(pixels: int, dtype: torch.dtype) -> None:
    """Whose sum it is: nothing is left for a second launch. Few images, or large ones, are divided."""

    def images(count: int, channels: int) -> Plan:
        return plan(meta(count, pixels, channels, dtype=dtype).transpose(1, 2), [1, 2])

    most = 2**16 // dtype.itemsize // pixels // 8 * 8  # channels
    for channels, threads in ((48, 128), (most, 256)):
        p = images(17, channels)
        assert p.family == "word_tiles"
        assert (p.tiles >= channels, p.window, p.threads) == (True, 0, threads)
    for p in (images(16, most), images(1000, most + 8)):
        assert p.window > 0 or p.family == "rows"


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        *(((2**24,), None), ((2**17, 257), 1), ((2**20, 32), 1), ((4096, 4097), 1), ((32, 256, 56, 56), [0, 2, 3])),
        *(((32, 256, 7, 7), [0, 2, 3]), ((70, 30, 5, 101), [0, 2, 3]), ((4096, 4096), 0), ((2**20, 31), 0)),
        *(((8192, 50_257), 0), ((2**20, 12), 0), ((8, 300_001), 0), ((196, 256, 64), None), ((225, 256, 64), None)),
        *(((4097, 100, 64), [0, 1]), ((171, 2**14, 3), None)),
    ],
    ids=str,
)
def test_sums_that_are_not_rounded_have_the_same_plan(shape: tuple[int, ...], dim: int | list[int] | None) -> None:
    x = meta(*shape, dtype=torch.bfloat16)
    for y in (x, meta(*shape, 2, dtype=torch.bfloat16)[..., 0], x.permute(*range(x.dim())[::-1])):
        assert plan(y, dim, dtype=torch.float32) == plan(y, dim)


@pytest.mark.parametrize(
    ("shape", "family"),  # of lines, outputs, elements of an output beside each other, and outputs beside those
    [
        *(((8, 700, 63, 9), "columns"), ((8, 700, 64, 9), "rows")),  # 504 and 512 elements
        *(((8, 700, 180, 1), "columns"), ((8, 700, 182, 1), "rows")),  # 180 * 1440 < 2**18 <= 182 * 1456
        *(((8, 700, 2700, 31), "rows"), ((8, 700, 2700, 33), "columns")),  # a sector holds 32
    ],
)
def test_columns_that_lie_apart_are_rows_where_there_are_no_tiles(shape: tuple[int, ...], family: str) -> None:
    x = meta(*shape, dtype=torch.int8).permute(2, 0, 1, 3)
    assert plan(x, [0, 1], dtype=torch.float32).family == family


def test_no_row_is_so_long_that_any_columns_lie_apart() -> None:
    for apart, family in ((32, "rows"), (31, "columns")):
        x = meta(8, 300, 700, apart, dtype=torch.int8).permute(1, 3, 0, 2)
        assert plan(x, [0, 1, 2], dtype=torch.float32).family == family


def test_columns_in_one_sector_count_as_one() -> None:
    x = meta(8, 700, 2700, 4, 5, dtype=torch.int8)
    for y in (x.permute(2, 0, 1, 3, 4), x.permute(2, 0, 1, 4, 3)):
        assert plan(y, [0, 1], dtype=torch.float32).family == "rows"


def test_windows_are_not_much_longer_than_lines_where_there_are_no_tiles() -> None:
    for length, family in ((170, "rows"), (171, "lines")):  # with room for the nodes of windows of 256
        p = plan(meta(length, 2**28 // length, dtype=torch.int8).t(), dtype=torch.float32)
        assert (p.family, p.window) == (family, 256 if family == "lines" else 0)
    for length, family in ((31, "rows"), (33, "lines")):
        x = meta(length, 170, 2**28 // length // 170, dtype=torch.int8).permute(2, 0, 1)
        assert plan(x, [0, 1], dtype=torch.float32).family == family


def test_integers_have_no_order() -> None:
    """They wrap, so that memory is read as it lies."""
    x = meta(300, 100, 200, dtype=torch.int8)
    assert plan(x.permute(2, 1, 0)) == plan(x)
    assert plan(x.permute(1, 2, 0), [1, 2]).family == "rows"


@pytest.mark.parametrize(
    ("batch", "side", "layout", "threads", "loads"),
    [
        (32, 7, "pitched", 128, 16),
        (80, 7, "pitched", 256, 16),
        (128, 7, "pitched", 224, 32),
        (64, 8, "runs", 256, 4),
        (128, 8, "runs", 512, 4),
    ],
)
def test_a_block_takes_the_planes_of_a_channel_at_once(
    batch: int, side: int, layout: str, threads: int, loads: int
) -> None:
    p = plan(meta(batch, 512, side, side), [0, 2, 3])
    assert (p.layout, p.threads, p.loads, p.tiles, p.segments) == (layout, threads, loads, 1, 1)


@pytest.mark.parametrize(
    ("x", "dim", "loads"),
    [
        *((meta(300, 2 * n)[:, ::2], 1, loads) for n, loads in ((200, 8), (256, 8), (257, 16), (512, 16))),
        (meta(9, 512, 7, 7), [0, 2, 3], 16),
    ],
)
def test_a_warp_takes_what_its_lanes_load_at_once(x: Tensor, dim: int | list[int], loads: int) -> None:
    p = plan(x, dim)
    assert (p.layout, p.threads, p.width, p.loads, p.tiles, p.segments) == ("pitched", 128, 32, loads, 1, 1)


def test_batches_of_few_rows() -> None:
    assert plan(meta(1024, 3, 7448), 1).family == plan(meta(3, 7448), 0).family == "few_rows"


@pytest.mark.parametrize(
    ("matrices", "rows", "threads", "tiles"), [(1000, 2048, 128, 2), (1000, 300, 64, 1), (8, 8192, 512, 1)]
)
def test_batches_of_narrow_columns_take_the_warps_that_they_need(
    matrices: int, rows: int, threads: int, tiles: int
) -> None:
    p = plan(meta(matrices, rows, 4), 1)
    assert (p.family, p.threads, p.tiles) == ("narrow_columns", threads, tiles)
    # also of a result in which a column comes before the next one
    assert plan(meta(matrices, rows, 4).permute(2, 0, 1), 2) == p


@pytest.mark.parametrize("gap", [0, 1])
def test_narrow_columns_leave_no_gap(gap: int) -> None:
    images = meta(8, 6, 1024 + gap, 4)[:, :, :1024].permute(0, 3, 1, 2)  # columns of a batch of batches
    assert plan(images, 3).family == ("columns" if gap else "narrow_columns")


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "tiles", "segments"),
    [
        (4_390_912, 8, torch.float16, 4, 268),  # a block a multiprocessor: 134 of them would take two turns of 8
        (3_276_800, 16, torch.float16, 16, 100),
        (2**20, 32, torch.float16, 8, 128),
        (4_390_912, 8, torch.float32, 16, 134),  # two
        (1_000_000, 12, torch.float32, 4, 123),
        (1_529_173, 12, torch.float16, 4, 94),  # not one tile each
        (139_264, 32, torch.float16, 2, 68),
        (139_264 // 2, 32, torch.float16, 1, 68),
        (2**17, 32, torch.float16, 1, 128),
    ],
)
def test_waves_of_narrow_columns(rows: int, columns: int, dtype: torch.dtype, tiles: int, segments: int) -> None:
    p = plan(meta(rows, columns, dtype=dtype), 0)
    assert (p.family, p.threads, p.tiles, p.segments) == ("narrow_columns", 512, tiles, segments)


@pytest.mark.parametrize(("rows", "tile"), [(64, 4), (2315, 4), (20_000, 12), (1_000_000, 20)])
def test_few_staged_rows_are_shared_out(rows: int, tile: int) -> None:
    p = plan(meta(rows, 146), 1)
    assert (p.family, p.tiles) == ("staged_rows", tile)


def test_blocks_of_columns_have_few_parts_where_rows_would_not_fill_them() -> None:
    p = plan(meta(64, 300, 4096), 1)
    assert (p.segments, p.threads // p.width * p.loads * p.tiles) == (1, 512)
    assert p.threads // p.width <= 8


@pytest.mark.parametrize(
    ("shape", "most_threads_side_by_side", "blocks"),
    [
        ((104858, 40), 5, H200),  # ten groups of four columns: one block side by side would have few segments
        ((87382, 48), 6, H200),
        ((516223, 65), 22, 2 * H200),  # single columns, one more than blocks of 32 take
        ((8195, 4095), 32, 1.9 * H200),  # three rows more than segments of a power of two take
        ((1025, 4095), 32, 1.9 * H200),
    ],
)
def test_columns_fill_the_gpu(shape: tuple[int, int], most_threads_side_by_side: int, blocks: float) -> None:
    p = plan(meta(*shape), 0)
    n, columns = shape
    rows = p.threads // p.width * p.loads * p.tiles  # of a block
    assert p.width <= most_threads_side_by_side
    assert math.ceil(columns / (p.width * p.vector)) * n / rows >= blocks  # a last one of few rows hardly counts


def test_columns_that_a_block_loads_at_once_are_one_segment() -> None:
    p = plan(meta(171, 3072), 0)
    assert (p.family, p.segments, p.tiles, p.width, p.threads) == ("columns", 1, 1, 16, 256)


@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "width", "parts", "tiles", "segments"),
    [
        ((4096, 4096), 0, torch.float32, 8, 64, 4, 1),
        ((4097, 4096), 0, torch.float32, 8, 64, 8, 1),
        ((64, 512, 1000), 1, torch.float32, 125, 4, 8, 1),
        ((22370, 1500), 0, torch.float32, 32, 16, 8, 11),
        ((3356, 10000), 0, torch.float32, 19, 16, 16, 1),  # pieces of lines
        ((16384, 4096), 0, torch.float16, 16, 32, 8, 4),
        ((32, 512, 384), 1, torch.float64, 48, 8, 4, 1),
        ((100, 1000, 100), 1, torch.float32, 19, 16, 4, 1),
        ((335545, 100), 0, torch.float32, 16, 32, 16, 41),  # not all multiprocessors, but blocks share few sectors
        ((2**20, 33), 0, torch.float32, 33, 16, 16, 128),  # single columns
        ((2048, 1024), 0, torch.float32, 4, 128, 1, 1),  # little data
    ],
)
def test_waves_of_columns(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype, width: int, parts: int, tiles: int, segments: int
) -> None:
    p = plan(meta(*shape, dtype=dtype), dim)
    assert (p.family, p.width, p.threads // p.width, p.tiles, p.segments) == ("columns", width, parts, tiles, segments)


@pytest.mark.parametrize(
    ("shape", "dtype", "loads"),
    [
        ((2**20, 31), torch.float32, 32),
        ((2**20, 31), torch.int16, 32),
        ((2**20, 31), torch.float64, 16),  # as many bytes
        ((5_522_884, 11), torch.float32, 32),
        ((94_641, 909), torch.float32, 16),  # 348 blocks: three for some multiprocessors
        ((8192, 129), torch.float32, 16),  # little data, loaded at once
    ],
)
def test_rows_in_flight_of_single_columns(shape: tuple[int, int], dtype: torch.dtype, loads: int) -> None:
    p = plan(meta(*shape, dtype=dtype), 0)
    assert (p.family, p.vector, p.loads) == ("columns", 1, loads)


@pytest.mark.parametrize(
    ("shape", "dtype", "width"),
    [
        ((8, 2048, 4095), torch.int32, 128),
        ((16, 2048, 4097), torch.int32, 64),  # 513 blocks of 128 would make a short second wave
        ((12, 737, 9947), torch.int16, 64),
        ((7, 158, 31981), torch.int16, 128),
        ((5, 200, 4999), torch.float32, 64),
        ((134, 2090, 207), torch.int32, 32),  # of four parts two would have no rows
        ((200, 2048, 191), torch.int32, 32),
        ((8, 2048, 4095), torch.int64, 32),
    ],
)
def test_wide_blocks_of_many_single_columns(shape: tuple[int, ...], dtype: torch.dtype, width: int) -> None:
    p = plan(meta(*shape, dtype=dtype), 1)
    assert (p.family, p.vector, p.width, p.segments) == ("columns", 1, width, 1)
    assert p.loads == (16 if dtype == torch.int64 else 32)


@pytest.mark.parametrize("dtype", COLUMN_WAVE_DTYPES, ids=str)
def test_small_gpus_have_wide_blocks_of_many_single_columns(dtype: torch.dtype) -> None:
    """Or neighbours that begin anywhere, where that is much data for them."""
    plans = [plan(meta(*shape, dtype=dtype), 1, gpu) for shape in MANY_SINGLE_COLUMNS for gpu in (1, 2)]
    assert any(p.vector == 1 and p.loads == 32 and p.width >= 64 for p in plans) == (dtype.itemsize <= 4)
    integer = not (dtype.is_floating_point or dtype.is_complex)
    assert any(p.anywhere for p in plans) != integer
    assert all(p.anywhere == (p.vector > 1) for p in plans)


def test_wide_blocks_have_rows_enough_and_neighbours_side_by_side() -> None:
    assert plan(meta(18, 2_000_001, dtype=torch.int32), 0).loads == 16
    assert plan(meta(72, 2_000_001, dtype=torch.int32), 0).loads == 32
    # neighbours in memory that are none in the result
    apart = meta(100_001, 80, 3, dtype=torch.int32).permute(2, 1, 0).contiguous().permute(2, 1, 0)
    p = plan(apart, 1)
    assert (p.width, p.chunk) == (32, 16)


@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "parts"),
    [
        ((22, 23, 273, 304), 1, torch.bfloat16, 1),
        ((512, 64, 2048), 1, torch.bfloat16, 1),
        ((512, 64, 2048), 1, torch.int8, 1),
        ((512, 64, 2048), 1, torch.float64, 1),
        ((512, 64, 2048), 1, torch.float32, 4),  # as fast
        ((8, 128, 32, 2048), (0, 2), torch.float32, 1),
        ((64, 64, 4096), 1, torch.bfloat16, 2),
        ((64, 64, 2048), 1, torch.bfloat16, 4),
        ((64, 256, 2048), 1, torch.bfloat16, 4),
        ((512, 512, 2048), 1, torch.bfloat16, 1),
        ((32, 64, 2048), 1, torch.bfloat16, 4),  # few columns: as many parts as have rows
    ],
)
def test_parts_of_many_columns(shape: tuple[int, ...], dim: int | list[int], dtype: torch.dtype, parts: int) -> None:
    p = plan(meta(*shape, dtype=dtype), dim)
    assert (p.family, p.segments) == ("columns", 1)
    assert p.threads // p.width == parts


@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "anywhere"),
    [
        ((8192, 50_257), 0, torch.bfloat16, True),
        ((8192, 50_264), 0, torch.bfloat16, False),  # whole words
        ((8192, 50_257), 0, torch.int16, False),  # integers
        ((8192, 50_257), 0, torch.int8, False),
        ((8192, 50_257), 0, torch.complex128, False),  # of which each is a word
        ((100, 50_257), 0, torch.bfloat16, False),  # little data
        ((8, 2_000_001), 0, torch.bfloat16, False),  # few rows
        ((500_001, 63), 0, torch.bfloat16, False),  # short runs
        ((500_001, 65), 0, torch.bfloat16, False),  # in several segments
        ((40_001, 4999), 0, torch.bfloat16, True),  # in segments of long runs
        ((40_001, 4999), 0, torch.float32, False),
        ((100, 1000, 101), 1, torch.float32, False),  # narrow blocks of many parts,
        ((110, 700_001), 0, torch.float16, True),  # one part
        ((450, 76_601), 0, torch.float16, False),
        ((8, 2048, 4095), 1, torch.float32, True),
        ((8, 2048, 4095), 1, torch.float64, True),
        ((23, 23, 2, 44_485), (0, 2), torch.bfloat16, True),
        ((23, 23, 2, 44_485), (0, 2), torch.float32, True),
        ((23, 23, 2, 44_485), (0, 2), torch.float64, False),
        ((23, 23, 2, 4485), (0, 2), torch.bfloat16, True),  # little data, but rows in two dimensions
        ((23, 23, 2, 1485), (0, 2), torch.bfloat16, False),
    ],
)
def test_neighbours_that_begin_anywhere(
    shape: tuple[int, ...], dim: int | list[int], dtype: torch.dtype, anywhere: bool
) -> None:
    p = plan(meta(*shape, dtype=dtype), dim)
    assert p.anywhere == anywhere
    assert not anywhere or (p.family, p.vector) == ("columns", 16 // dtype.itemsize)


@pytest.mark.parametrize(
    ("shape", "dtype", "alone"),
    [
        ((16, 2048, 4096), torch.float32, True),
        ((32, 1024, 4096), torch.float32, True),
        ((16, 2047, 4096), torch.float32, False),  # the last part would have a row less
        ((4, 2048, 4096), torch.float32, False),  # not much data
        ((16, 2048, 4096), torch.float64, False),
        ((8, 4096, 4096), torch.float32, False),
    ],
)
def test_much_data_in_near_columns_is_no_wave(shape: tuple[int, ...], dtype: torch.dtype, alone: bool) -> None:
    p = plan(meta(*shape, dtype=dtype), 1)
    assert ((p.width, p.threads, p.segments, p.prefetching) == (8, 256, 1, H200)) == alone
    assert (p.threads > 256) != alone


@pytest.mark.parametrize("dtype", COLUMN_WAVE_DTYPES, ids=str)
def test_small_gpus_have_waves_of_columns(dtype: torch.dtype) -> None:
    """Or tests/test_sum_dims_cuda.py would not test what it says."""
    others = {shape for shape in COLUMN_WAVES if not any(is_wave(shape, dtype, gpu) for gpu in COLUMN_WAVE_GPUS)}
    too_many_tiles = {
        torch.int16: {(1, 130_000, 128), (1, 240_000, 128), (1, 4001, 1512)},  # for the counters of large sums
        torch.int32: {(1, 240_000, 128)},
    }
    too_little_data = {(1, 130_000, 128)} if dtype in (torch.float16, torch.bfloat16) else set()
    assert others == too_many_tiles.get(dtype, too_little_data)


def is_wave(shape: tuple[int, ...], dtype: torch.dtype, multiprocessors: int) -> bool:
    return plan(meta(*shape, dtype=dtype), 1, multiprocessors).threads > 256


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((401408, 64), torch.float32),  # 98 blocks of twice as many tiles
        ((4096, 4095), torch.float32),  # single columns of several blocks side by side
        ((8192, 1024), torch.float32),  # too little data
        ((4096, 65536), torch.int8),  # loads of four bytes
        ((2000, 260), torch.float32),  # 17 blocks
        ((2**17, 33), torch.float32),  # too little data
    ],
)
def test_columns_that_are_no_wave(shape: tuple[int, int], dtype: torch.dtype) -> None:
    p = plan(meta(*shape, dtype=dtype), 0)
    assert p.family == "columns"
    assert p.threads <= 256


@pytest.mark.parametrize("shape", [(6711, 5000), (839, 5000), (420, 10000)])
def test_more_than_a_wave_of_columns_that_begin_within_a_line(shape: tuple[int, int]) -> None:
    p = plan(meta(*shape), 0)
    assert p.width * p.vector * 4 >= 128
    assert p.segments > 1


@pytest.mark.parametrize(
    ("shape", "dim", "prefetching"),
    [
        ((2**14,), None, 0),  # one block
        ((2**17,), None, 8 * H200),
        ((2**18,), None, 4 * H200),
        ((2**20,), None, 4 * H200),
        ((2**21,), None, 4 * H200),
        ((2**21 + 1,), None, 2 * H200),
        ((2**22,), None, 0),
        ((2**23,), None, 0),
        ((2**24,), None, 2 * H200),
        ((4096, 4096), 1, 2 * H200),
        ((1024, 4096), 1, 0),
        ((131072, 256), 1, 0),  # two loads a lane
        ((131072, 512), 1, 8 * H200),
        ((64, 3, 224, 224), [0, 2, 3], 4 * H200),
        ((64, 3, 225, 225), [0, 2, 3], 0),  # element by element
        ((2**20, 32), 1, 4 * H200),
        ((2**16, 32), 1, 0),
        ((2**24, 3), 1, 4 * H200),
        ((131072, 257), 1, 0),
        ((2**22, 8), 0, 2 * H200),
        ((2**24, 3), 0, 0),  # three loads a lane
        ((4096, 4096), 0, H200),
        ((4096, 4095), 0, 0),  # single columns
        ((64, 256, 2000), 1, H200),
        ((100, 1000, 100), 1, 0),  # a wave of little data, in pieces of lines
        ((699051, 48), 0, 0),  # a wave that leaves multiprocessors free
        ((16, 4096, 2048), 1, 0),
        ((8, 2**22), 0, 0),
    ],
)
def test_who_prefetches(shape: tuple[int, ...], dim: int | list[int] | None, prefetching: int) -> None:
    assert plan(meta(*shape), dim).prefetching == prefetching


@pytest.mark.parametrize(
    ("shape", "dim", "let_next"),
    [
        ((4096, 4096), 0, "at_start"),  # a block for each multiprocessor
        ((100, 1000, 100), 1, "at_start"),
        ((2048, 1024), 0, "at_start"),  # 64 blocks
        ((100, 2000, 104), 1, "at_end"),  # 109
        ((16, 2048, 4096), [0, 1], "at_end"),  # of much data
        ((8192, 768), 0, "when_loaded"),  # 384, of two tiles
        ((32, 1024, 4096), 1, "when_loaded"),  # many
        ((32768, 1001), 0, "at_end"),  # 256, of 16 tiles
        ((2**22, 8), 0, "when_loaded"),  # narrow columns: two blocks for each multiprocessor
        ((2**24, 3), 0, "when_loaded"),  # one, as there is no room for more
        ((2**22, 3), 0, "when_loaded"),
        ((20, 1024, 8), 1, "when_loaded"),  # a single one each
        ((1_398_100, 8), 0, "when_loaded"),
        ((262_144, 16), 0, "at_end"),  # one, beside which there is room
        ((4_392_960, 8), 0, "at_end"),  # a wave and a little more would be two
        ((300, 3488, 32), 1, "at_end"),  # a few for each
        ((2**20,), None, "at_start"),  # little, of a full sum
        ((3 * 2**20,), None, "at_end"),  # 192 blocks of a tile
        ((2**22,), None, "when_loaded"),  # 256
        ((2**25,), None, "when_loaded"),
        ((32, 2**20), 1, "at_start"),  # small blocks of several waves
        ((500, 50_257), 1, "at_end"),
    ],
)
def test_who_lets_the_next_kernel_start(shape: tuple[int, ...], dim: int | list[int] | None, let_next: str) -> None:
    assert plan(meta(*shape), dim).let_next == let_next


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "segments"),
    [
        (2**22, 8, torch.float32, 256),
        (2**20, 32, torch.float32, 256),
        (2**22, 4, torch.float64, 256),
        (2**19, 8, torch.float32, 256),  # of one tile: little, but eight columns are soon folded
        (2**18, 32, torch.float32, 128),  # not so 32
        (2**19, 4, torch.float64, 128),
        (4_392_960, 8, torch.float32, 135),  # 270 would be a wave and a little more
        (5_870_080, 8, torch.float32, 359),
        (2**24, 3, torch.float32, 128),  # one block a multiprocessor
        (2**23, 8, torch.float16, 128),
    ],
)
def test_two_blocks_of_narrow_columns_a_multiprocessor(
    rows: int, columns: int, dtype: torch.dtype, segments: int
) -> None:
    assert plan(meta(rows, columns, dtype=dtype), 0).segments == segments


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_sums_of_one_element_in_another_order_are_a_copy(dtype: torch.dtype) -> None:
    x = meta(1, 13, 1538, 3325, dtype=dtype).permute(3, 2, 1, 0)
    assert plan(x, 3).family == "copy"
    assert plan(x.contiguous(), 3).family != "copy"
    assert plan(meta(1, 40, 50, dtype=dtype).permute(2, 1, 0), 1).family != "copy"


def test_rows_across_memory() -> None:
    """Full sums of 32 and 64 bits, of columns of a multiple of 32 elements."""
    for dtype in (torch.float32, torch.float64, torch.complex64):
        for length, window in ((4096, 4096), (4100, 0), (96, 32), (31, 0)):
            p = plan(meta(length, 4001, dtype=dtype).t())
            assert (p.family == "rows_across_memory") == (window > 0)
            assert window == 0 or p.window == window
    images = meta(64, 64, 56, 56, dtype=torch.float16).to(memory_format=torch.channels_last)
    assert plan(images).family == "rows_across_memory"
    assert plan(images, [1, 2, 3]).family == "rows_across_memory"


def test_rows_across_memory_are_kept_dimensions_of_a_sum() -> None:
    """Of which kernels take twelve: with more the input would be copied."""
    for kept, family in ((6, "rows_across_memory"), (7, "lines")):
        x, dim = rows_in_many_dimensions(meta(2 ** (16 + kept)), kept)
        assert plan(x, dim).family == family


@pytest.mark.parametrize("multiprocessors", [1, 132])
def test_more_outputs_than_a_grid_has_blocks(multiprocessors: int) -> None:
    """2^31 - 1: kernels that have a block for an output, or for four, are for fewer."""
    many = 2**31
    x = meta(64, 64, dtype=torch.float16).t()
    assert plan(x.expand(many - 1, *x.shape), [1, 2], multiprocessors).family == "word_tiles"
    assert plan(x.expand(many, *x.shape), [1, 2], multiprocessors).family in ("rows", "columns")
    short = meta(3 * 4 * many + 400, dtype=torch.float16)
    for step, pitch in ((1, 2), (2, 3)):
        for outputs, width in ((4 * (many - 1), 32), (4 * many, 0)):
            p = plan(short.as_strided((outputs, 200), (pitch, step)), 1, multiprocessors)
            assert (p.family, p.width) == ("rows", width), (step, outputs)


SOME_DTYPES = (torch.float32, torch.float16, torch.float64, torch.float8_e5m2, torch.int8, torch.int16, torch.uint16)
SOME_DTYPES += (torch.complex128,)


@given(data=st.data())
def test_contiguous_sums_are_one_launch(data: st.DataObject) -> None:
    """But for one in 150 that end in pieces, shorter than a cache line, of what is summed with other dimensions."""
    dtype = data.draw(st.sampled_from(SOME_DTYPES))
    large = st.integers(4, 16).flatmap(lambda bits: st.integers(2**bits, 2 ** (bits + 1)))
    shape = data.draw(st.lists(large, max_size=4)) + data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=2))
    dims = data.draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    assume(math.prod(shape) <= 2**33)
    p = plan(meta(*shape, dtype=dtype), dims)
    if p.window == 0:
        assert p.family != "copy"
        return
    assert p.family == "boxes"
    innermost = itertools.takewhile(lambda d: d in dims or shape[d] == 1, reversed(range(len(shape))))
    assert 1 < math.prod(shape[d] for d in innermost) < 128 // dtype.itemsize


def accumulated_size(dtype: torch.dtype) -> int:
    return 16 if dtype.is_complex else 4 if dtype.is_floating_point and dtype != torch.float64 else 8


@given(data=st.data())
def test_covers_every_element_once(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(SOME_DTYPES))
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 8, 33, 100, 257, 4096, 10**6]), min_size=1, max_size=4))
    dims = data.draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    step = data.draw(st.sampled_from([1, 2]))
    multiprocessors = data.draw(st.sampled_from([1, 8, 132, 188]))
    assume(math.prod(shape) <= 2**40)
    offset = data.draw(st.sampled_from([0, 1]))  # a base that is no multiple of 16 bytes
    x = meta(math.prod(shape) + offset, dtype=dtype)[offset:].view(shape)[..., ::step]
    x = x.permute(data.draw(st.permutations(range(x.dim()))))
    n = math.prod(x.shape[d] for d in dims)
    try:
        p = plan(x, dims, multiprocessors)
    except RuntimeError as error:
        if "more than one launch covers" not in str(error) or x.numel() <= 2**35:
            raise
        return
    outputs = x.numel() // n
    if p.family == "copy":
        assert n == 1
        return
    if p.family == "rows_across_memory":
        assert n % p.window == 0
        assert p.window >= 32 and p.window & (p.window - 1) == 0
        assert outputs * n // p.window * accumulated_size(dtype) <= max(
            7 * 2**20, math.prod(shape) * dtype.itemsize / 100
        )
        return
    assert 32 <= p.threads <= 1024
    elements = 16 // x.element_size()
    accumulated = accumulated_size(dtype)
    slots = SLOT_WORDS * 4 // accumulated
    if p.family == "rows":
        per_load = 1 if p.layout in ("pitched", "strided") else elements
        sharing = p.width or p.threads  # threads an output
        block = sharing * p.loads * per_load * p.tiles
        assert p.threads % 32 == 0
        at_work = math.ceil(n / block)
        collects = outputs == 1 and MAX_BLOCKS // 4 <= at_work < MAX_BLOCKS  # one more than have elements
        assert p.segments == at_work + collects
        assert p.segments == 1 or outputs * p.segments <= MAX_BLOCKS
        assert p.tiles == 1 or block // 2 * at_work < n
    elif p.family == "columns":
        block = p.threads // p.width * p.loads * p.tiles
        parts = p.threads // p.width
        assert p.threads % p.width == 0
        assert p.threads <= (768 if p.vector == 1 else 512)
        assert parts & (parts - 1) == 0
        assert p.tiles & (p.tiles - 1) == 0
        assert p.segments <= 65535
        at_once = max(1, (8 if p.vector == 1 else 16) * 4 // (p.vector * accumulated))  # segments
        levels = max(p.tiles, 2 * math.ceil(p.segments / parts) // at_once).bit_length()
        assert levels * p.threads * p.vector * accumulated <= COUNTER_BYTES
        assert block * (p.segments - 1) < n <= block * p.segments
        assert p.tiles == 1 or block // 2 * p.segments < n
        assert p.segments == 1 or p.segments * outputs <= slots
    elif p.family == "narrow_columns":
        assert p.width <= 32
        warps = p.threads // 32
        assert warps * 32 == p.threads
        assert warps & (warps - 1) == 0
        assert warps <= 16
        assert p.tiles & (p.tiles - 1) == 0
        block = p.threads * p.loads * elements // p.width * p.tiles
        assert block * (p.segments - 1) < n <= block * p.segments
        assert p.tiles == 1 or block // 2 * p.segments < n
        assert p.segments == 1 or p.segments * outputs <= slots
    elif p.family == "few_rows":
        assert n <= p.loads * 32 // p.width
        assert p.threads in (64, 256)
        assert 32 % p.width == 0
        assert p.anywhere or outputs % p.vector == 0
    elif p.family == "lines":
        assert n >= 128
        assert p.threads == 256
        assert p.window & (p.window - 1) == 0
        assert p.loads <= p.window <= 16 * p.loads
        assert p.tiles % p.window == 0
        assert p.tiles >= p.window
        places = (768 if x.element_size() <= 4 else 512) * multiprocessors  # of threads
        little = outputs * n < 64 * places / 2  # 64 elements a thread leave half of them free
        assert little or (p.tiles >= 2 * p.window and p.window >= 32)
    elif p.family == "boxes":
        assert n >= 128
        assert p.threads in (128, 256)
        assert p.window & (p.window - 1) == 0
        assert 32 <= p.window <= 32 * p.loads
        assert math.prod(p.ranges) * x.element_size() <= p.shared <= 44 * 2**10
    elif p.family == "word_tiles":
        assert n >= 4096
        assert p.threads in (128, 256)
        assert p.loads in (2, 4, 8)
        assert p.tiles & (p.tiles - 1) == 0
        if p.window > 0:
            assert p.window == p.loads * p.tiles
            assert 16 <= p.tiles <= 512 // x.element_size()
    elif p.family in ("staged_tiles", "tiles"):
        assert n >= 512
        assert p.threads in (64, 128, 256)
        assert p.window & (p.window - 1) == 0
        assert 32 <= p.window <= 512
        assert p.tiles % p.window == 0 or n % p.tiles == 0
    elif p.family == "staged_rows":
        assert n <= max(8 * p.width, 1024 if p.width == 32 else 0)
        assert (p.tiles * n + elements) * x.element_size() <= 12 * 1024 + 16
    elif p.family == "small_rows":
        assert n <= p.width * elements
    else:
        assert p.family == "tiny_rows"
        assert n == p.width <= 8
    across = ("lines", "word_tiles", "staged_tiles", "tiles", "boxes")
    whole = p.family == "word_tiles" and p.window == 0  # a tile is an output
    if whole:
        assert n * x.element_size() <= 2**16
        assert p.tiles // elements <= p.threads
    assert (p.window > 0) == (p.family in across and not whole)
    if p.window > 0:
        nodes = outputs * math.ceil(n / p.window) * accumulated
        assert nodes <= max(7 * 2**20, math.prod(shape) * dtype.itemsize / 100)
