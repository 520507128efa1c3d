"""The bits of every rung: against the oracle, and against facts worked out by hand (the oracle as well)."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

import oracle
from reduce_ops import LADDER, Rung
from support import (
    COMPLEX,
    DTYPES,
    FLOATS,
    INTEGERS,
    SIZED,
    assert_same_bits,
    each_rung,
    each_sized_rung,
    ladder_block_sums,
    ladder_sum,
    memory_bytes,
    random_values,
)

INF, NAN = math.inf, math.nan

# Around warps, block sizes, what blocks cover, and where v6 to v8 begin a second element a thread or the
# block sums need a second or third pass.
EDGES = (32, 64, 128, 256, 512, 1024, 2048, 256**2, 512**2, 1024 * 256, 1024 * 512, 1024 * 1024)
SIZES = sorted({0, 1, 2, *(edge + d for edge in EDGES for d in (-1, 0, 1)), 3 * 1024 * 256 + 77, 2**21 + 3})


def compare(rung: Rung, block_size: int, x: torch.Tensor, dtype: torch.dtype | None = None) -> None:
    """Check the sum and the block sums of `x` against the oracle."""
    what = f"{rung.name}, block_size={block_size}, {x.numel()} x {x.dtype}, dtype={dtype}"
    expected = oracle.expected_block_sums(x, rung.number, dtype, block_size)
    assert_same_bits(ladder_block_sums(rung, x, dtype, block_size), expected, f"block sums of {what}")
    expected = oracle.expected_sum(x, rung.number, dtype, block_size)
    assert_same_bits(ladder_sum(rung, x, dtype, block_size), expected, what)


# ---- the oracle itself ----


def tree_sum(x: np.ndarray) -> np.generic:
    """The definition of the canonical order, word for word."""
    while len(x) > 1:
        even = len(x) // 2 * 2
        x = np.concatenate([x[0:even:2] + x[1:even:2], x[even:]])
    return x[0]


@pytest.mark.parametrize("n", [n for n in SIZES if n > 0])
def test_oracle_v0_and_v1_are_the_balanced_tree(n: int) -> None:
    x = random_values(n, torch.float32, seed=n).numpy()
    assert oracle.ladder_sum(x, 0).tobytes() == tree_sum(x).tobytes()
    assert oracle.ladder_sum(x, 1).tobytes() == tree_sum(x).tobytes()


def test_oracle_and_data_tell_the_orders_apart() -> None:
    """Rungs that only schedule the same tree otherwise agree; others differ, so a wrong order cannot hide."""
    orders: dict[tuple[float, ...], set[str]] = {}
    inputs = [random_values(300_001, torch.float32, seed).numpy() for seed in range(8)]
    for rung, block_size in SIZED:
        sums = tuple(oracle.ladder_sum(x, rung.number, block_size).item() for x in inputs)
        orders.setdefault(sums, set()).add(f"v{rung.number}-{block_size}")
    several = [names for names in orders.values() if len(names) > 1]
    assert several == [
        {"v0-256", "v1-256"},
        {"v2-256", "v5-128"},  # 256 elements, first those 128 apart
        {"v3-256", "v4-256", "v5-256"},
        {"v6-256", "v8-256"},
    ]


@pytest.mark.parametrize("rung, block_size", SIZED)
def test_oracle_adds_everything_once(rung: Rung, block_size: int) -> None:
    x = np.arange(1, 5001, dtype=np.float32)  # every partial sum below 2**24: exact in any order
    assert oracle.ladder_sum(x, rung.number, block_size) == 5000 * 5001 // 2


@pytest.mark.parametrize("rung, block_size", SIZED)
def test_oracle_number_of_blocks(rung: Rung, block_size: int) -> None:
    covers = {0: 256, 1: 256, 2: 256, 3: 512, 4: 512, 5: 2 * block_size}
    for n in (1, 1000, 2**20 - 1, 2**20 + 1):
        blocks = len(oracle.block_sums(np.zeros(n, np.float32), rung.number, block_size))
        if rung.number < 6:
            assert blocks == math.ceil(n / covers[rung.number])
        else:
            m = math.ceil(n / (1024 * block_size))
            assert blocks == math.ceil(n / (m * block_size)) <= 1024


def test_oracle_reference_size() -> None:
    """n = 32 * 2**20: a block of v6, v7 and v8 covers 32768 elements, 1024 blocks."""
    x = np.zeros(32 * 2**20, np.float32)
    x[32768 * 5 - 1 : 32768 * 5 + 1] = 1, 2
    for version in (6, 7, 8):
        sums = oracle.block_sums(x, version)
        assert len(sums) == 1024
        assert (sums[4], sums[5], sums.sum()) == (1, 2, 3)


# ---- who meets whom, by hand, for the oracle and the operators ----

TREE, HALVES = [0, 1], [2, 3, 4, 5, 6, 8]
# (rungs, block size, n, i, j, k, x[i] and x[j] add up before x[k] joins one of them)
MEETINGS = [
    (TREE, 256, 256, 0, 1, 2, True),
    (TREE, 256, 256, 0, 2, 1, False),
    (TREE, 256, 256, 0, 128, 64, False),
    (TREE, 256, 512, 0, 255, 256, True),  # the same block first
    (TREE, 256, 512, 0, 256, 255, False),
    (TREE, 256, 2**17, 0, 256, 512, True),  # block sums of block sums: neighbours again
    (TREE, 256, 2**17, 0, 512, 256, False),
    (HALVES, 256, 256, 0, 128, 64, True),
    (HALVES, 256, 256, 0, 64, 128, False),
    (HALVES, 256, 256, 0, 32, 16, True),
    (HALVES, 256, 256, 0, 16, 32, False),
    (HALVES, 256, 256, 0, 2, 1, True),
    (HALVES, 256, 256, 0, 1, 2, False),
    ([2], 256, 512, 0, 1, 256, True),  # another block for v2, the first addition for v3 to v5
    ([3, 4, 5], 256, 512, 0, 256, 128, True),
    ([3, 4, 5], 256, 512, 0, 128, 256, False),
    ([3, 4, 5], 256, 1024, 0, 511, 512, True),
    ([3, 4, 5], 256, 1024, 0, 512, 511, False),
    ([5], 128, 256, 0, 128, 64, True),
    ([5], 128, 512, 0, 255, 256, True),
    ([5], 128, 512, 0, 256, 255, False),
    ([5], 512, 1024, 0, 512, 256, True),
    ([5], 512, 1024, 0, 256, 128, True),
    ([5], 512, 1024, 0, 128, 256, False),
    # v6 to v8: a thread's own elements first, left to right; 3 a thread here
    ([6, 7, 8], 256, 3 * 2**18, 0, 256, 512, True),
    ([6, 7, 8], 256, 3 * 2**18, 0, 512, 256, False),
    ([6, 7, 8], 256, 3 * 2**18, 256, 512, 0, False),
    ([6, 7, 8], 256, 3 * 2**18, 0, 512, 128, True),
    ([6, 7, 8], 256, 3 * 2**18, 0, 767, 768, True),  # the same block first
    ([6, 7, 8], 256, 3 * 2**18, 0, 768, 767, False),
    ([7], 256, 256, 0, 16, 8, True),
    ([7], 256, 256, 0, 8, 16, False),
    ([7], 256, 256, 0, 1, 32, True),  # a warp among itself before it meets the others
    ([7], 256, 256, 0, 32, 1, False),
    ([7], 256, 256, 0, 128, 64, True),  # 8 warps: offsets 4, 2, 1
    ([7], 256, 256, 0, 64, 128, False),
    ([7], 64, 64, 0, 31, 32, True),
    ([7], 64, 64, 0, 32, 31, False),
    ([7], 1024, 1024, 0, 512, 256, True),  # 32 warps: offsets 16, 8, 4, 2, 1
    ([7], 1024, 1024, 0, 256, 512, False),
]


@pytest.mark.parametrize("rungs, block_size, n, i, j, k, meet_first", MEETINGS)
def test_who_meets_first(
    rungs: list[int], block_size: int, n: int, i: int, j: int, k: int, meet_first: bool, device: torch.device
) -> None:
    """2**30 and -2**30 cancel and leave the 1, unless it joins one of them first and is lost to rounding."""
    x = torch.zeros(n)
    x[i], x[j], x[k] = 2.0**30, -(2.0**30), 1.0
    expected = torch.tensor(1.0 if meet_first else 0.0)
    for version in rungs:
        assert_same_bits(oracle.expected_sum(x, version, None, block_size), expected, f"oracle v{version}")
        assert_same_bits(ladder_sum(LADDER[version], x.to(device), None, block_size), expected, f"v{version}")


# ---- the operators against the oracle ----


@functools.lru_cache(maxsize=8)
def values(n: int, dtype: torch.dtype) -> torch.Tensor:
    """The same for all rungs, which come one after the other: making them takes longer than to sum them."""
    return random_values(n, dtype, seed=n)


@each_sized_rung
@pytest.mark.parametrize("n", SIZES)
def test_float32_at_every_edge(rung: Rung, block_size: int, n: int, device: torch.device) -> None:
    compare(rung, block_size, values(n, torch.float32).to(device))


@each_sized_rung
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(rung: Rung, block_size: int, dtype: torch.dtype, device: torch.device) -> None:
    for n in (0, 1, 33, 1000, 3 * 1024 * block_size + 5):
        compare(rung, block_size, values(n, dtype).to(device))


@each_rung
def test_shape_does_not_matter(rung: Rung, device: torch.device) -> None:
    x = random_values(3 * 7 * 500, torch.float32).to(device)
    expected = ladder_sum(rung, x)
    assert_same_bits(ladder_sum(rung, x.view(3, 7, 500)), expected)
    assert_same_bits(ladder_sum(rung, x.view(1, 10500, 1, 1)), expected)
    assert_same_bits(ladder_sum(rung, x[7]), x[7])  # 0-dim


# ---- dtype= ----


def values_for_every_dtype(dtype: torch.dtype) -> torch.Tensor:
    """With fractions where there are any, and small enough for int8 and float8_e4m3fn."""
    values = torch.rand(700, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 100
    return (values * (values > 20)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_argument(dtype: torch.dtype, device: torch.device) -> None:
    """Every pair of dtypes, complex to real aside."""
    x = values_for_every_dtype(dtype).to(device)
    for wanted in DTYPES:
        if not dtype.is_complex or wanted.is_complex:
            for rung in LADDER:
                compare(rung, rung.block_sizes[0], x, wanted)


@each_rung
def test_dtype_argument_converts_each_element_first(rung: Rung, device: torch.device) -> None:
    halves = torch.full((1000,), 0.75, device=device)
    assert_same_bits(ladder_sum(rung, halves, torch.int64), torch.tensor(0))  # each is truncated
    assert_same_bits(ladder_sum(rung, halves, torch.bool), torch.tensor(True))
    bytes_ = torch.full((1000,), 257, dtype=torch.int32, device=device)
    assert_same_bits(ladder_sum(rung, bytes_, torch.uint8), torch.tensor(1000 % 256, dtype=torch.uint8))
    assert_same_bits(ladder_block_sums(rung, bytes_[:3], torch.uint8), torch.tensor([3]))
    fine = torch.full((1024,), 1 + 2**-11, device=device)  # half way in float16: each becomes 1
    assert_same_bits(ladder_sum(rung, fine, torch.float16), torch.tensor(1024, dtype=torch.float16))
    assert_same_bits(ladder_sum(rung, fine), torch.tensor(1024.5))


@each_rung
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_dtype_argument_wraps_integers(rung: Rung, dtype: torch.dtype, device: torch.device) -> None:
    x = random_values(2000, torch.int64).to(device)
    compare(rung, 256, x, dtype)


@each_rung
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dtype_argument_rounds_floats(rung: Rung, dtype: torch.dtype, device: torch.device) -> None:
    for source in FLOATS:
        compare(rung, 256, random_values(2000, source).to(device), dtype)


# ---- rounding, NaN, Inf, signs of zero, wrapping ----


@each_rung
@pytest.mark.parametrize(
    "dtype, values, total",
    [
        # Added in float16, 2048 + 1 would stay 2048 and lose both ones.
        (torch.float16, {0: 2048, 1: 1, 2: 1}, 2050),
        # The same across blocks: were block sums stored in float16, 2049 would become 2048.
        (torch.float16, {0: 2048, 1: 1, 9000: 1}, 2050),
        # 2049 is half way between 2048 and 2050: only the last bits, kept until the end, say that it is more.
        (torch.float16, {0: 2048, 1: 1}, 2048),
        (torch.float16, {0: 2048, 1: 1, 9000: 2**-11}, 2050),
        (torch.float16, {0: 65504, 1: 15}, 65504),
        (torch.float16, {0: 65504, 1: 16}, INF),
        (torch.float16, {0: 65504, 1: 65504, 9000: -65504}, 65504),
        (torch.bfloat16, {0: 256, 1: 1, 2: 1}, 258),
        (torch.bfloat16, {0: 256, 1: 1, 9000: 1}, 258),
        (torch.bfloat16, {0: 256, 1: 1}, 256),
        (torch.bfloat16, {0: 256, 1: 1, 9000: 2**-11}, 258),
        (torch.float8_e4m3fn, {0: 448, 1: 448, 9000: 2**-9}, 896 + 2**-9),  # the result is float32
        (torch.float8_e5m2, {0: 57344, 1: 57344, 9000: -(2**-6)}, 114688 - 2**-6),
        (torch.complex32, {0: 2048 + 65504j, 1: 1 + 65504j, 9000: 1 - 65504j}, 2050 + 65504j),
    ],
    ids=str,
)
def test_narrow_floats_are_rounded_once(
    rung: Rung, dtype: torch.dtype, values: dict[int, complex], total: complex, device: torch.device
) -> None:
    x = torch.zeros(10_000, dtype=dtype)
    for index, value in values.items():
        x[index] = value
    expected = torch.tensor(total, dtype=oracle.result_dtype(dtype))
    assert_same_bits(oracle.expected_sum(x, rung.number), expected, "oracle")
    assert_same_bits(ladder_sum(rung, x.to(device)), expected)


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype != torch.float8_e4m3fn], ids=str)
@each_rung
@pytest.mark.parametrize(
    "values, total",
    [
        ((1, NAN, 1), NAN),
        ((1, INF, 1), INF),
        ((1, -INF, 1), -INF),
        ((INF, 1, -INF), NAN),
        ((INF, NAN, -INF), NAN),
        ((INF, INF, INF), INF),
    ],
)
def test_not_a_number_and_infinity(
    rung: Rung, dtype: torch.dtype, values: tuple[float, ...], total: float, device: torch.device
) -> None:
    for positions in ((0, 1, 2), (0, 500, 999), (0, 5000, 9999)):  # a warp, the first blocks, all over
        x = random_values(10_000, dtype)
        for position, value in zip(positions, values, strict=True):
            x[position] = value
        expected = torch.tensor(total, dtype=oracle.result_dtype(dtype))
        assert_same_bits(ladder_sum(rung, x.to(device)), expected)
        compare(rung, 256, x.to(device))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@each_rung
def test_complex_components_are_added_apart(rung: Rung, dtype: torch.dtype, device: torch.device) -> None:
    x = torch.ones(700, 2, dtype=dtype.to_real())
    x[3, 0], x[600, 1], x[699, 1] = NAN, INF, -0.0
    x = torch.view_as_complex(x).to(device)
    assert_same_bits(ladder_sum(rung, x), torch.tensor(complex(NAN, INF), dtype=dtype))
    compare(rung, 256, x)


@each_rung
def test_overflow_depends_on_the_order(rung: Rung, device: torch.device) -> None:
    largest = torch.finfo(torch.float32).max
    x = torch.tensor([largest, largest, -largest, -largest], device=device)
    # Neighbours first: Inf + -Inf. The upper half onto the lower half first: 0 + 0.
    assert_same_bits(ladder_sum(rung, x), torch.tensor(NAN if rung.number in TREE else 0.0))


@each_sized_rung
@pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=str)
def test_signs_of_zero(rung: Rung, block_size: int, dtype: torch.dtype, device: torch.device) -> None:
    """Negative zeros sum to negative zero, wherever elements are missing; one positive zero changes that."""
    negative = complex(-0.0, -0.0) if dtype.is_complex else -0.0
    for n in (1, 31, 257, 1025, 1024 * block_size + 1):
        x = torch.full((n,), negative, dtype=dtype, device=device)
        expected = torch.tensor(negative, dtype=oracle.result_dtype(dtype))
        assert_same_bits(oracle.expected_sum(x, rung.number, None, block_size), expected, "oracle")
        result = ladder_sum(rung, x, None, block_size)
        assert_same_bits(result, expected, n)
        sums = ladder_block_sums(rung, x, None, block_size)
        assert_same_bits(sums, torch.full_like(sums, negative), n)
        if n > 1:
            x[n // 2] = 0
            assert_same_bits(ladder_sum(rung, x, None, block_size), torch.zeros_like(result), n)


@each_rung
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty(rung: Rung, dtype: torch.dtype, device: torch.device) -> None:
    x = torch.empty(3, 0, 2, dtype=dtype, device=device)
    assert_same_bits(ladder_sum(rung, x), torch.zeros((), dtype=oracle.result_dtype(dtype)))
    assert_same_bits(ladder_sum(rung, x, torch.complex32), torch.zeros((), dtype=torch.complex32))
    assert_same_bits(ladder_block_sums(rung, x), torch.empty(0, dtype=oracle.accumulate_dtype(dtype)))


@each_rung
def test_integers_wrap(rung: Rung, device: torch.device) -> None:
    largest = 2**63 - 1
    x = torch.tensor([largest, 1], device=device)
    assert_same_bits(ladder_sum(rung, x), torch.tensor(-(2**63)))
    x = torch.full((10_000,), largest, device=device)
    assert_same_bits(ladder_sum(rung, x), torch.tensor((10_000 * largest + 2**63) % 2**64 - 2**63))
    x = torch.full((3,), 2**64 - 1, dtype=torch.uint64, device=device)
    assert_same_bits(ladder_sum(rung, x), torch.tensor(-3))
    assert_same_bits(ladder_sum(rung, x, torch.uint64), torch.tensor(2**64 - 3, dtype=torch.uint64))
    x = torch.full((1000,), -128, dtype=torch.int8, device=device)  # 64-bit throughout: nothing wraps
    assert_same_bits(ladder_sum(rung, x), torch.tensor(-128_000))
    x = torch.full((5,), 2**31 - 1, dtype=torch.int32, device=device)
    assert_same_bits(ladder_sum(rung, x), torch.tensor(5 * (2**31 - 1)))


# ---- past the range of 32-bit indices ----


LARGE = 2**32 + 5
LANDMARKS = {0: 1, 5: 2, 2**31 - 1: 4, 2**31: 8, 2**31 + 1: 16, 2**32 - 1: 32, 2**32: 64, LARGE - 1: 128}
"""Value by index, everything else being 0: at the ends and where signed and unsigned 32-bit indices wrap."""


def check_large_block_sums(x: torch.Tensor, rung: Rung) -> None:
    covers = oracle.elements_per_thread(rung.number, LARGE, 256) * 256
    expected = torch.zeros(math.ceil(LARGE / covers))
    for place, value in LANDMARKS.items():
        expected[place // covers] += value
    assert_same_bits(ladder_block_sums(rung, x), expected, rung.name)


@pytest.mark.slow
def test_past_32_bits_on_cpu() -> None:
    """One and many elements a thread; all rungs would take long."""
    zeros = np.zeros(LARGE, np.int16)  # unlike PyTorch's, takes no memory where nothing is written
    x = torch.from_numpy(zeros).view(torch.bfloat16)  # whose conversion takes a quarter of the time of float16's
    for place, value in LANDMARKS.items():
        x[place] = value
    check_large_block_sums(x, LADDER[0])
    check_large_block_sums(x, LADDER[7])
    assert ladder_sum(LADDER[7], x).item() == sum(LANDMARKS.values())


@pytest.mark.gpu
def test_past_32_bits_on_cuda() -> None:
    x = torch.zeros(LARGE, dtype=torch.float16, device="cuda")
    for place, value in LANDMARKS.items():
        x[place] = value
    for rung in LADDER:
        check_large_block_sums(x, rung)
        assert ladder_sum(rung, x).item() == sum(LANDMARKS.values()), rung.name


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(memory_bytes() < 64 * 2**30, reason="needs 64 GiB of free memory on the host")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_past_31_bits_cuda_equals_cpu(dtype: torch.dtype) -> None:
    x = torch.randn(2**31 + 5, device="cuda", dtype=dtype)
    on_cpu = x.cpu()
    for rung in LADDER:
        assert_same_bits(ladder_block_sums(rung, x), ladder_block_sums(rung, on_cpu), rung.name)
        assert_same_bits(ladder_sum(rung, x), ladder_sum(rung, on_cpu), rung.name)
