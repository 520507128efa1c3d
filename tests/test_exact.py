"""``reduce::sum_exact``, ``exact_state`` and ``exact_round``: every bit against Python integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

import reduce_ops
from exact_oracle import FORMATS, UNIT, exact_sum, exact_sum_along, exact_sums, round_to, total
from oracle import canonical_sum
from reduce_ops import exact_round, exact_state, sum_exact
from support import COMPLEX, DTYPES, FLOATS, INTEGERS, assert_same_bits, moved, random_values

OPS = torch.ops.reduce
inf, nan = math.inf, math.nan
WIDE = (torch.float32, torch.float64)
HIGHEST = {torch.float32: 254, torch.float64: 2046}
"""Exponent field of the largest finite numbers."""
WORDS = {torch.float64: 73, torch.complex128: 73}

each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
each_wide = pytest.mark.parametrize("dtype", WIDE, ids=str)


def words_of(dtype: torch.dtype) -> int:
    return 2 if dtype in INTEGERS else WORDS.get(dtype, 16)


def check(x: torch.Tensor, dim: object = None, dtype: torch.dtype | None = None, what: object = "") -> None:
    """The sum, and the rounded state, have the bits of the oracle."""
    expected = exact_sum_along(x, dim, dtype=dtype)
    assert_same_bits(sum_exact(x, dim, dtype=dtype), expected, what)
    if dtype is None or x.is_complex() == dtype.is_complex:
        state = exact_state(x, dim)
        parts = [2] if x.is_complex() else []
        assert state.shape == (*expected.shape, *parts, words_of(x.dtype)), what
        assert_same_bits(exact_round(state, dtype=expected.dtype), expected, what)


# ---- the oracle itself ----


def neighbours(format_dtype: torch.dtype) -> tuple[Fraction, ...]:
    """All finite numbers of a small format, in order."""
    bits = torch.arange(2 ** (8 * format_dtype.itemsize), dtype=torch.int32)
    same_size = {1: torch.uint8, 2: torch.int16}[format_dtype.itemsize]
    values = bits.to(same_size).view(format_dtype).double()
    return tuple(sorted({Fraction(value) for value in values[values.isfinite()].tolist()}))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16], ids=str)
def test_oracle_rounds_to_the_nearest_number_there_is(dtype: torch.dtype) -> None:
    """Between any two neighbours of the format: the middle, a little to either side, and the neighbours."""
    numbers = neighbours(dtype)
    format = FORMATS[dtype]
    pairs = list(itertools.pairwise(numbers))
    for low, high in pairs[:: max(1, len(pairs) // 3000)] + pairs[:3] + pairs[-3:]:
        middle = (low + high) / 2
        even = min(low, high, key=lambda x: x / abs(high - low) % 2)
        little = Fraction(1, 2**1074)
        for x, expected in ((low, low), (middle - little, low), (middle, even), (middle + little, high), (high, high)):
            if x:
                assert round_to(format, int(x * 2**-UNIT)) == expected, (low, high, x)
    step = numbers[-1] - numbers[-2]
    edge = int((numbers[-1] + step / 2) * 2**-UNIT)
    beyond = FORMATS[dtype].overflow
    if beyond == inf:  # else the last number is even, and a tie stays there
        assert round_to(format, edge) == inf and round_to(format, -edge) == -inf
    assert round_to(format, edge - 1) == numbers[-1] and round_to(format, 1 - edge) == -numbers[-1]
    np.testing.assert_equal(round_to(format, edge + 1), beyond)


def test_oracle_adds_as_fractions_and_fsum_do() -> None:
    generator = np.random.default_rng(0)
    for n in (1, 2, 30, 1000):
        for scale in (0, 10, 500, 1074):
            x = generator.standard_normal(n) * 2.0 ** generator.integers(-scale, min(scale, 900) + 1, n)
            assert Fraction(total(x), 2**-UNIT) == sum(Fraction(value) for value in x.tolist())
            assert exact_sum(x, torch.float64) == math.fsum(x.tolist())


# ---- kinds of data ----


def signs(generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, 2, shape, generator=generator) * 2 - 1


def fields(dtype: torch.dtype, low: int, high: int, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Floats of any sign and significand, with exponent fields from low to high."""
    mantissa = 23 if dtype == torch.float32 else 52
    field = torch.randint(low, high + 1, shape, generator=generator)
    bits = field << mantissa | torch.randint(0, 2**mantissa, shape, generator=generator)
    if dtype == torch.float32:
        return (bits - (signs(generator, shape) < 0) * 2**31).to(torch.int32).view(dtype)
    return (bits | torch.where(signs(generator, shape) < 0, -(2**63), 0)).view(dtype)


Kind = Callable[[torch.dtype, tuple[int, ...], torch.Generator], torch.Tensor]


def kind_of(function: Callable[[torch.Tensor, torch.Generator], torch.Tensor]) -> Kind:
    """What becomes of normal numbers."""

    def kind(dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        return function(torch.randn(shape, dtype=torch.float64, generator=generator), generator).to(dtype)

    return kind


def specials(*values: float) -> Kind:
    """Normal numbers, some of which are one of `values`."""

    def function(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        which = torch.randint(0, 5 * x.shape[-1] // 2 + 1, x.shape, generator=generator)
        for i, value in enumerate(values):
            x = torch.where(which == i, value, x)
        return x

    return kind_of(function)


def cancelling(dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Each number with its negative, and in every other row something small besides."""
    x = fields(dtype, 0, HIGHEST[dtype], shape, generator)
    half = shape[-1] // 2
    x[..., half : 2 * half] = -x[..., :half]
    x[..., 2 * half :] = 0
    if shape[-1] > 2:
        x[..., -1] = fields(dtype, 0, 3, shape[:-1], generator) * (torch.rand(shape[:-1], generator=generator) < 0.5)
    order = torch.rand(shape, generator=generator).argsort(-1)
    return x.gather(-1, order)


KINDS: dict[str, Kind] = {
    "randn": kind_of(lambda x, g: x),
    "rand": kind_of(lambda x, g: torch.rand(x.shape, generator=g)),
    "mixed": kind_of(lambda x, g: x * 10 ** (torch.rand(x.shape, generator=g) * 8 - 4)),
    "0 to 230": lambda dtype, shape, g: fields(dtype, 0, 230, shape, g),
    "every exponent": lambda dtype, shape, g: fields(dtype, 0, HIGHEST[dtype], shape, g),
    "two exponents": lambda dtype, shape, g: fields(dtype, 100, 101, shape, g),
    "highest exponents": lambda dtype, shape, g: fields(dtype, HIGHEST[dtype] - 6, HIGHEST[dtype], shape, g),
    "outlier": kind_of(lambda x, g: torch.where(torch.rand(x.shape, generator=g) < 0.05, x * 1e30, x)),
    "scale per run": kind_of(lambda x, g: x * 2.0 ** (100 * signs(g, (*x.shape[:-1], 1)))),
    "relu": kind_of(lambda x, g: x.relu()),
    "subnormal": lambda dtype, shape, g: fields(dtype, 0, 0, shape, g),
    "zeros": kind_of(lambda x, g: torch.zeros_like(x)),
    "-0.0": kind_of(lambda x, g: torch.full_like(x, -0.0)),
    "zeros of both signs": kind_of(lambda x, g: torch.where(torch.rand(x.shape, generator=g) < 0.9, -0.0, 0.0)),
    "nan": specials(nan),
    "inf": specials(inf),
    "-inf": specials(-inf),
    "both inf": specials(inf, -inf),
    "everything special": specials(inf, -inf, nan, 0.0, -0.0),
    "cancelling": cancelling,
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def data(kind: str, dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return KINDS[kind](dtype, shape, torch.Generator().manual_seed(seed))


@each_wide
@each_kind
def test_rows(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    """Thousands of short sums, as rows and as columns, rounded to every dtype."""
    for n in (1, 2, 3, 7, 17, 40):
        x = data(kind, dtype, 100, n, seed=n)
        for target in FORMATS:
            expected = exact_sums(x, target)
            assert_same_bits(sum_exact(x.to(device), 1, dtype=target), expected, (n, target))
            assert_same_bits(sum_exact(x.to(device).t().contiguous(), 0, dtype=target), expected, (n, target))
            state = exact_state(x.to(device), 1)
            assert_same_bits(exact_round(state, dtype=target), expected, (n, target))


@each_wide
@each_kind
def test_long_sums(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    """Of several tiles, threads and flushes; in whole, by rows and by columns."""
    x = data(kind, dtype, 300_007)
    if dtype == torch.float32 or kind not in ("highest exponents", "every exponent"):
        assert_same_bits(sum_exact(x.to(device), dtype=torch.float64), exact_sums(x[None], torch.float64)[0])
    for view, dim in ((x, 0), (x[:300_000].view(60, 5000), 1), (x[:300_000].view(5000, 60), 0)):
        check(view.to(device), dim, what=(view.shape, dim))


@pytest.mark.parametrize("n", [*range(1, 40), 63, 64, 65, 2047, 2048, 2049, 4095, 4096, 4097, 8193, 32_769, 65_537])
def test_sizes(n: int, device: torch.device) -> None:
    for kind, dtype in itertools.product(("randn", "0 to 230", "cancelling"), WIDE):
        x = data(kind, dtype, n, 3, seed=n).to(device)
        check(x[:, 0], what=(n, kind))
        check(x.t().contiguous(), 1, what=(n, kind))
        check(x, 0, what=(n, kind))


@each_float
def test_every_float(dtype: torch.dtype, device: torch.device) -> None:
    """All bit patterns of a format, or many; each target."""
    if dtype.itemsize <= 2:
        bits = torch.arange(2 ** (8 * dtype.itemsize)).to(torch.uint8 if dtype.itemsize == 1 else torch.int16)
        patterns = bits.view(dtype)[torch.randperm(len(bits), generator=torch.Generator().manual_seed(0))]
        finite = patterns[patterns.double().isfinite()]
        finite = finite[: len(finite) // 4 * 4].view(4, -1)
    else:
        patterns = data("everything special", dtype, 1000)
        finite = data("every exponent", dtype, 1000, 4).sort(0).values.t()
    for target in FORMATS:
        check(patterns.to(device), None, target)
        check(finite.to(device), 0, target)
        check(finite.to(device), 1, target)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex(dtype: torch.dtype, device: torch.device) -> None:
    parts = torch.stack([data(kind, torch.float64, 6, 50) for kind in ("mixed", "everything special")], -1)
    x = torch.view_as_complex(parts).to(dtype).to(device)
    for view in (x, x.conj(), x.conj().mT.mT[..., 1:], x.t(), x.conj()[:, :0], x[0, 0]):
        for dim in (None, -1):
            check(view, dim)
            check(view, dim, torch.complex64)
            check(view, dim, torch.complex128)
    for view in (x.real, x.imag, x.conj().imag, torch._neg_view(x.real)):
        check(view, 0)
        check(view, 0, dtype)
    assert exact_state(x, 1).shape == (6, 2, words_of(dtype))
    parts_apart = exact_round(exact_state(x, 1), dtype=torch.float64)
    assert_same_bits(parts_apart[:, 1], sum_exact(x.imag, 1, dtype=torch.float64))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype: torch.dtype, device: torch.device) -> None:
    x = random_values(3000, dtype).view(3, 1000).to(device)
    for dim in (None, 0, 1):
        assert_same_bits(sum_exact(x, dim), canonical_sum(x, dim))
        for target in (torch.int32, torch.bool, torch.uint64):
            assert_same_bits(sum_exact(x, dim, dtype=target), canonical_sum(x, dim, dtype=target))
        for target in (*FORMATS, torch.complex32, torch.complex128):
            assert_same_bits(sum_exact(x, dim, dtype=target), exact_sum_along(x, dim, dtype=target), (dim, target))
        state = exact_state(x, dim)
        assert state.shape[-1] == 2
        assert_same_bits(exact_round(state, dtype=torch.int64), canonical_sum(x, dim))
        rounded = exact_sum_along(canonical_sum(x, dim).unsqueeze(-1), -1, dtype=torch.bfloat16)
        assert_same_bits(exact_round(state + 0, dtype=torch.bfloat16), rounded)


def test_integers_as_floats_do_not_wrap(device: torch.device) -> None:
    for dtype, value in ((torch.int64, 2**63 - 1), (torch.int64, -(2**63)), (torch.uint64, 2**64 - 1)):
        x = torch.full((9,), value, dtype=dtype, device=device)
        assert sum_exact(x, dtype=torch.float64) == float(9 * value)
        assert sum_exact(x, dtype=torch.float32) == float(np.float32(9 * value))
    x = torch.tensor([2**62, 2**62, 2**62, 2**62, 1 - 2**62], device=device)
    assert sum_exact(x, dtype=torch.float64) == 3 * 2.0**62
    # Halfway between two bfloat16, and one above: a rounding to float32 in between would lose the one.
    x = torch.tensor([2**40 + 2**32, 1], device=device)
    assert sum_exact(x, dtype=torch.bfloat16) == 2.0**40 + 2.0**33


@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_floats_to_integers_are_those_of_sum(target: torch.dtype, device: torch.device) -> None:
    x = torch.tensor([[1.7, 2.6], [3.5, 4.9]], device=device)
    for dim in (None, 0, 1):
        assert_same_bits(sum_exact(x, dim, dtype=target), reduce_ops.sum(x, dim, dtype=target))


# ---- edges of rounding ----


def fsum_of(values: list[float], dtype: torch.dtype, target: torch.dtype, device: torch.device) -> float:
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    assert x.double().tolist() == values
    check(x.to(device), None, target)
    return float(sum_exact(x.to(device), dtype=target))


@each_wide
@pytest.mark.parametrize("target", FORMATS, ids=str)
def test_ties(target: torch.dtype, dtype: torch.dtype, device: torch.device) -> None:
    """Halfway between two numbers, with nothing, or the least that there is, to either side."""
    precision = FORMATS[target].precision
    least = 2.0**-149 if dtype == torch.float32 else 2.0**-1074
    ulp = 2.0 ** (1 - precision)
    assert fsum_of([1.0, ulp / 2], dtype, target, device) == 1
    assert fsum_of([1.0, ulp, ulp / 2], dtype, target, device) == 1 + 2 * ulp
    assert fsum_of([1.0, ulp / 2, least], dtype, target, device) == 1 + ulp
    assert fsum_of([1.0, ulp, ulp / 2, -least], dtype, target, device) == 1 + ulp
    assert fsum_of([-1.0, -ulp / 2, -least], dtype, target, device) == -1 - ulp
    big = 2.0**126 if dtype == torch.float32 else 2.0**1020
    assert fsum_of([big, 1.0, -big, ulp / 2, least], dtype, target, device) == 1 + ulp
    # A neighbour below a power of two is half as far.
    assert fsum_of([1.0, -ulp / 4], dtype, target, device) == 1
    assert fsum_of([1.0, -ulp / 4, -least], dtype, target, device) == 1 - ulp / 2


@pytest.mark.parametrize(
    "target, dtype",
    [
        *itertools.product((torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32), WIDE),
        (torch.float64, torch.float64),
    ],
    ids=str,
)
def test_overflow(target: torch.dtype, dtype: torch.dtype, device: torch.device) -> None:
    """Only where the exact sum rounds beyond the largest number: from half an ulp above it, and by nothing less."""
    largest = torch.finfo(target).max
    half = math.ldexp(1.0, FORMATS[target].most - FORMATS[target].precision)  # of a unit in the last place of it
    least = 2.0**-149 if dtype == torch.float32 else 2.0**-1074
    for sign in (1.0, -1.0):
        assert fsum_of([largest * sign, half * sign], dtype, target, device) == inf * sign
        assert fsum_of([largest * sign, half * sign, -least * sign], dtype, target, device) == largest * sign
        assert fsum_of([largest * sign] * 5 + [-largest * sign] * 4, dtype, target, device) == largest * sign
        assert fsum_of([largest * sign] * 2, dtype, target, device) == inf * sign


def test_half_is_rounded_once(device: torch.device) -> None:
    """Through float32, 2^-40 would be lost and the tie go to even."""
    x = torch.tensor([1.0, 2.0**-11, 2.0**-40], device=device)
    assert sum_exact(x, dtype=torch.float16) == 1 + 2.0**-10
    assert sum_exact(x.double(), dtype=torch.float32) == 1 + 2.0**-11
    x = torch.tensor([65504.0, 15.9990234375, 2.0**-30], device=device)
    assert sum_exact(x, dtype=torch.float16) == 65504
    assert sum_exact(torch.full((70_000,), 1.0, dtype=torch.float16, device=device)) == inf
    assert sum_exact(torch.full((70_000,), 1.0, dtype=torch.float16, device=device), dtype=torch.float32) == 70_000


@pytest.mark.parametrize("n", [2**14 - 1, 2**14, 2**14 + 1, 3 * 2**14 + 1, 2**19 + 1])
@pytest.mark.parametrize("columns", [1, 33])
def test_many_additions_to_one_bin(n: int, columns: int, device: torch.device) -> None:
    """The largest number of a bin of 16 exponents, n times; beside it what keeps tiles from being of few binades."""
    for field in (15, 143, 255 - 16, 254):
        x = torch.empty(n, columns, device=device)
        largest = math.ldexp(2 - 2.0**-23, field - 127)
        x[:] = largest
        x[::1000] = 2.0**-149
        many, few = n - (n + 999) // 1000, (n + 999) // 1000
        number = many * int(Fraction(largest) * 2**-UNIT) + few * 2 ** (-UNIT - 149)
        expected = round_to(FORMATS[torch.float64], number)
        assert_same_bits(sum_exact(x, 0, dtype=torch.float64), torch.full((columns,), expected, dtype=torch.float64))
        assert_same_bits(sum_exact(-x, 0, dtype=torch.float64), torch.full((columns,), -expected, dtype=torch.float64))


@each_wide
@pytest.mark.parametrize("n", [1, 2, 3, 100, 2047, 4000, 4096])
def test_every_span_of_exponents(n: int, dtype: torch.dtype, device: torch.device) -> None:
    """The largest numbers of an exponent, and one that lies 0 to 70 exponents below: where 64 bits are just enough."""
    significand = 2 - 2.0 ** (1 - FORMATS[dtype].precision)
    rows = torch.tensor([[math.ldexp(significand, span)] * n + [1.0] for span in range(71)], dtype=torch.float64)
    x = torch.cat([rows, -rows]).to(dtype)
    expected = exact_sums(x, torch.float64)
    assert_same_bits(sum_exact(x.to(device), 1, dtype=torch.float64), expected)
    for row, total_of_row in zip(x.to(device), expected, strict=True):
        columns = row[:, None].repeat(1, 3)
        assert_same_bits(sum_exact(columns, 0, dtype=torch.float64), total_of_row.expand(3))


@each_wide
def test_one_among_many(dtype: torch.dtype, device: torch.device) -> None:
    """A single special number, or +0.0, in one place of a sum that many threads or blocks share."""
    for value in (0.0, inf, -inf, nan, 1.0):
        for at in (0, 123_456, -1):
            x = torch.full((500_000,), -0.0, dtype=dtype, device=device)
            x[at] = value
            expected = torch.tensor(value, dtype=dtype)
            assert_same_bits(sum_exact(x), expected, (value, at))
            assert_same_bits(sum_exact(x.view(-1, 2), 0)[at % 2], expected, (value, at))
            assert_same_bits(exact_round(exact_state(x), dtype=dtype), expected, (value, at))


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_more_additions_than_an_integer_takes(device: torch.device) -> None:
    """2^27 numbers of 39 bits, which would be beyond 64 bits even in four bins; memory is that of 4096."""
    x = torch.full((4096,), math.ldexp(2 - 2.0**-23, 16), device=device)
    x[-1] = 2.0**-149
    copies = 2**15 + 8
    number = copies * total(x.cpu().double().numpy())
    expected = torch.tensor(round_to(FORMATS[torch.float64], number), dtype=torch.float64)
    assert_same_bits(sum_exact(x.expand(copies, 4096), dtype=torch.float64), expected)
    assert_same_bits(sum_exact(-x.expand(copies, 4096), dtype=torch.float64), -expected)


def test_empty(device: torch.device) -> None:
    for dtype in DTYPES:
        x = torch.empty(3, 0, dtype=dtype, device=device)
        for dim in (None, 0, 1):
            assert_same_bits(sum_exact(x, dim), canonical_sum(x, dim), (dtype, dim))
            assert not exact_state(x, dim).any()
        for target in (*FORMATS, torch.complex64):
            if not dtype.is_complex or target.is_complex:
                assert_same_bits(sum_exact(x, 1, dtype=target), torch.zeros(3, dtype=target), (dtype, target))
    for count, words in ((4, 16), (4, 73), (0, 73)):
        states = torch.zeros(count, words, dtype=torch.int64, device=device)
        assert_same_bits(exact_round(states, dtype=torch.half), torch.zeros(count).half())


# ---- layouts of tensors ----


@each_float
@pytest.mark.parametrize("offset", [1, 2, 3, 5])
def test_misaligned(dtype: torch.dtype, offset: int, device: torch.device) -> None:
    for kind, n in itertools.product(("randn", "mixed"), (3, 1000, 5003)):
        x = data(kind, torch.float32, n + offset).to(dtype).to(device)[offset:]
        check(x)
        check(x[: n // 3 * 3].view(-1, 3), 0)
        check(x[: n // 3 * 3].view(3, -1), 1)


@each_wide
def test_orders_of_memory(dtype: torch.dtype, device: torch.device) -> None:
    for kind, shape in (("randn", (3, 30, 90)), ("0 to 230", (40, 5, 33)), ("0 to 230", (2, 3, 700))):
        x = data(kind, dtype, *shape).to(device)
        for order in itertools.permutations(range(3)):
            view = x.permute(order)
            for dim in (None, 0, 1, 2, (0, 2), (1, 2), (0, 1)):
                assert_same_bits(sum_exact(view, dim), exact_sum_along(view, dim), (shape, order, dim))
        for view in (x[:, ::2], x[..., 1:], x[::2, 1::3, ::5], x[:, :1].expand(shape), x.expand(2, *shape), x[0, 0, 0]):
            for dim in (None, 0, -1):
                if view.dim() or dim is None:
                    assert_same_bits(sum_exact(view, dim), exact_sum_along(view, dim), (view.shape, view.stride(), dim))


def test_columns_of_different_scale(device: torch.device) -> None:
    """Each is of few binades, together they are not; specials and -0.0 stay in their columns."""
    x = data("randn", torch.float64, 200, 64) * torch.logspace(-38, 36, 64, dtype=torch.float64)
    x[:, 5] = -0.0
    x[7, 6], x[8, 6], x[9, 7], x[10, 8], x[11, 9], x[12, 9] = inf, inf, -inf, nan, inf, -inf
    for dtype in WIDE:
        check(x.to(dtype).to(device), 0)
        check(x.to(dtype).t().contiguous().to(device), 1)


def test_permutations_do_not_matter(device: torch.device) -> None:
    for kind, dtype in itertools.product(KINDS, WIDE):
        x = data(kind, dtype, 5000)
        expected = exact_state(x.to(device))
        for seed in range(3):
            order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
            assert torch.equal(exact_state(x[order].to(device)), expected), kind


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_number_of_cpu_threads_does_not_matter(threads: int) -> None:
    before = torch.get_num_threads()
    x = data("mixed", torch.float32, 1_000_003)
    expected = exact_state(x)
    columns = exact_state(x[:1_000_000].view(-1, 4), 0)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(exact_state(x), expected)
        assert torch.equal(exact_state(x[:1_000_000].view(-1, 4), 0), columns)
    finally:
        torch.set_num_threads(before)


def test_flushed_subnormals_do_not_matter() -> None:
    x = data("subnormal", torch.float32, 5000)
    subnormal = data("subnormal", torch.float64, 5000)
    expected = [exact_sums(values[None], torch.float64)[0] for values in (x, subnormal)]
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush subnormals")
    try:
        actual = [sum_exact(x, dtype=torch.float64), exact_round(exact_state(subnormal), dtype=torch.float64)]
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(torch.stack(actual), torch.stack(expected))


@st.composite
def views(draw: st.DrawFn) -> tuple[torch.Tensor, tuple[int, ...]]:
    """A view of 0 to 4 dimensions on numbers of some kind, and dimensions of it."""
    dtype = draw(st.sampled_from(FLOATS), "dtype")
    sizes = draw(st.lists(st.integers(0, 7) | st.just(70), max_size=4), "sizes")
    assume(math.prod(sizes) <= 20_000)
    made_as = torch.float64 if dtype == torch.float64 else torch.float32
    x = data(draw(st.sampled_from([*KINDS]), "kind"), made_as, math.prod(sizes) + 3)
    offset = draw(st.integers(0, 3), "offset")
    x = x.to(dtype)[offset : offset + math.prod(sizes)].view(sizes)
    for dim in range(x.dim()):
        x = x[(slice(None),) * dim + (slice(draw(st.integers(0, 1), "start"), None, draw(st.integers(1, 3), "step")),)]
    x = x.permute(draw(st.permutations(range(x.dim())), "permutation"))
    if draw(st.booleans(), "expand"):
        at = draw(st.integers(0, x.dim()), "at")
        x = x.unsqueeze(at).expand(*x.shape[:at], draw(st.integers(0, 5), "copies"), *x.shape[at:])
    return x, tuple(draw(st.sets(st.integers(0, max(0, x.dim() - 1))), "dims"))


@settings(max_examples=200)
@given(view=views(), keepdim=st.booleans(), target=st.sampled_from([None, *FORMATS, torch.complex64]))
def test_any_view(
    view: tuple[torch.Tensor, tuple[int, ...]], keepdim: bool, target: torch.dtype | None, device: torch.device
) -> None:
    x, dims = view
    expected = exact_sum_along(x, dims, keepdim, dtype=target)
    on_device = moved(x, device)
    assert_same_bits(sum_exact(on_device, dims, keepdim, dtype=target), expected)
    if target != torch.complex64:
        state = exact_state(on_device, tuple(d - x.dim() for d in dims) if x.dim() else dims, keepdim)
        assert_same_bits(exact_round(state, dtype=expected.dtype), expected)


# ---- states ----


def number_of(state: torch.Tensor) -> Fraction:
    """The real number that a state holds, from the docstring."""
    lowest = -150 if len(state) == 16 else -1075
    return sum((int(limb) * Fraction(2) ** (32 * k + lowest) for k, limb in enumerate(state[5:])), Fraction(0))


@each_wide
@each_kind
def test_what_a_state_holds(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    for n in (1, 5, 3000):
        x = data(kind, dtype, n)
        words = exact_state(x.to(device)).cpu()
        finite = x.isfinite().all()
        assert number_of(words) == (Fraction(total(x.double().numpy()), 2**-UNIT) if finite else 0)
        assert ((words[5:-1] >= 0) & (words[5:-1] < 2**32)).all()
        other = ((x != 0) | ~x.signbit()).any()
        tag = 1 if dtype == torch.float32 else 2
        value = x.double().sum().item() if not finite else 0.0
        kinds = [math.isnan(value), value == inf, value == -inf]
        assert words[:5].tolist() == [(tag << 32) + 1, *kinds, other]


def test_a_state_of_integers(device: torch.device) -> None:
    x = torch.tensor([5, -7], device=device)
    assert exact_state(x).tolist() == [(3 << 32) + 1, -2]
    assert exact_state(x.bool(), 0, True).tolist() == [[(3 << 32) + 1, 2]]


@each_wide
@each_kind
def test_states_merge_in_any_tree(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    x = data(kind, dtype, 3000)
    generator = torch.Generator().manual_seed(1)
    cuts = torch.randint(0, len(x) + 1, (40,), generator=generator).sort().values.tolist()  # some pieces are empty
    states = [exact_state(x[a:b].to(device)) for a, b in itertools.pairwise([0, *cuts, len(x)])]
    all_at_once = torch.stack(states).sum(0)
    while len(states) > 1:
        at = torch.randperm(len(states), generator=generator)[:2].sort().values.tolist()
        states.append(states.pop(at[1]) + states.pop(at[0]))
    assert torch.equal(states[0], all_at_once)
    for target in FORMATS:
        assert_same_bits(exact_round(states[0], dtype=target), exact_sums(x[None], target)[0], target)


@each_wide
def test_as_many_states_as_may_be_added(dtype: torch.dtype, device: torch.device) -> None:
    """2^30 times the state of which every limb is as large as it can be."""
    x = torch.full((1000,), torch.finfo(dtype).max, dtype=dtype)
    x = torch.cat([x, -data("every exponent", dtype, 1000).abs(), torch.full((1,), -torch.finfo(dtype).tiny * 2**-20)])
    number = total(x.double().numpy())
    for values, total_of_one in ((x, number), (-x, -number)):
        state = exact_state(values.to(device)) * 2**30
        assert number_of(state.cpu()) == Fraction(total_of_one * 2**30, 2**-UNIT)
        expected = round_to(FORMATS[torch.float64], total_of_one * 2**30)
        assert_same_bits(exact_round(state, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64))
    header = exact_state(x.to(device)) * (2**30 + 1)
    if device.type == "cpu":
        with pytest.raises(ValueError, match=r"first word.*2\^30"):
            exact_round(header, dtype=torch.float64)
    else:
        assert exact_round(header, dtype=torch.float64).isnan()


def test_running_sum(device: torch.device) -> None:
    x = data("mixed", torch.bfloat16, 50, 3, 100).to(device)
    running = torch.zeros(3, 16, dtype=torch.int64, device=device)
    for batch in x:
        running += exact_state(batch, 1)
    assert_same_bits(exact_round(running, dtype=torch.bfloat16), exact_sum_along(x, (0, 2)))


def test_states_of_any_strides(device: torch.device) -> None:
    x = data("mixed", torch.float32, 4, 5, 30).to(device)
    states = exact_state(x, 2)
    for view in (states.transpose(0, 1), states[::2], states.transpose(0, 2).contiguous().transpose(0, 2)):
        expected = torch.stack([exact_round(state, dtype=torch.float32) for state in view.reshape(-1, 16)])
        assert_same_bits(exact_round(view, dtype=torch.float32), expected.view(view.shape[:-1]))


def test_header_of_another_layout(device: torch.device) -> None:
    good = exact_state(torch.ones(3, device=device))
    for header in (0, 1, (1 << 32) + 2, (2 << 32) + 1, (2 << 32) + 2, (3 << 32) + 1, -1, -(1 << 32) - 1, 2**62):
        for words, tag in ((16, 1), (73, 2), (2, 3)):
            state = torch.zeros(words, dtype=torch.int64, device=device)
            state[0] = header
            count = header & (2**32 - 1)
            if header == count * ((tag << 32) + 1):
                exact_round(state, dtype=torch.float32)
            elif device.type == "cpu":
                with pytest.raises(ValueError, match=f"state has a first word of {header},.*accepted"):
                    exact_round(state, dtype=torch.float32)
            elif words > 2:
                assert exact_round(state, dtype=torch.float32).isnan()
    assert exact_round(good, dtype=torch.float32) == 3


@pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu), "meta"])
def test_what_is_no_state(place: str) -> None:
    def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=place)

    for dtype in (torch.float64, torch.int32, torch.uint64, torch.complex64):
        with pytest.raises(ValueError, match="exact_round: state has dtype.*accepted is int64"):
            exact_round(zeros(16, dtype=dtype), dtype=torch.float32)
    for shape in ((), (0,), (15,), (16, 17), (74,), (73, 16, 0)):
        with pytest.raises(ValueError, match=r"exact_round: state has sizes.*2 \(integers\), 16 .* 73 \(float64\)"):
            exact_round(zeros(*shape), dtype=torch.float32)
    for words in (16, 73):
        for dtype in INTEGERS:
            with pytest.raises(ValueError, match="exact_round: dtype=.* cannot hold a sum of floats"):
                exact_round(zeros(words), dtype=dtype)
        for shape in ((words,), (3, words), (2, 1, words)):
            with pytest.raises(ValueError, match="exact_round: dtype=.* asks for a state of complex numbers"):
                exact_round(zeros(*shape), dtype=torch.complex64)
    with pytest.raises(ValueError, match="complex"):
        exact_round(zeros(2, 2), dtype=torch.complex64)
    with pytest.raises(NotImplementedError, match="exact_round: dtype has dtype"):
        exact_round(zeros(16), dtype=torch.bits8)
    with pytest.raises(TypeError, match="dtype"):
        exact_round(zeros(16))  # type: ignore[call-arg]


# ---- errors, as reduce.sum has them ----


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_refused(device: torch.device) -> None:
    x = torch.ones(4, 6, device=device)
    ops = (sum_exact, exact_state)
    for bad in (x.to_sparse(), x.to_sparse_csr(), torch.quantize_per_tensor(x, 1.0, 0, torch.quint8)):
        for op in ops:
            with pytest.raises(NotImplementedError, match=f"{op.__name__}: self is.*accepted is a dense"):
                op(bad)
    with pytest.raises(NotImplementedError, match="exact_round: state is not strided"):
        exact_round(torch.zeros(3, 16, dtype=torch.int64, device=device).to_sparse(), dtype=torch.float32)
    for op in ops:
        with pytest.raises(NotImplementedError, match=f"{op.__name__}: self has dtype"):
            op(torch.empty(8, dtype=torch.bits8, device=device))
        for place in (device, "meta"):
            on = x.to(place)
            for dim in (2, -3, (0, 5)):
                with pytest.raises(IndexError, match="Dimension out of range"):
                    op(on, dim)
            with pytest.raises(RuntimeError, match="multiple times"):
                op(on, (0, 0))
    for place in (device, "meta"):
        with pytest.raises(RuntimeError, match="sum_exact: dtype.*cannot hold.*complex"):
            sum_exact(x.to(torch.complex64).to(place), dtype=torch.float32)
    with pytest.raises(NotImplementedError, match="sum_exact: dtype has dtype"):
        sum_exact(x, dtype=torch.bits8)
    for dtype in (torch.complex64, torch.int64):
        with pytest.raises(RuntimeError, match="up to 63"):
            sum_exact(torch.ones((1,) * 64, dtype=dtype, device=device), 0, dtype=torch.complex64)
        assert sum_exact(torch.ones((1,) * 64, dtype=dtype, device=device)) == 1
    assert sum_exact(torch.ones((1,) * 64, device=device)) == 1


# ---- PyTorch around it ----

DIMS = ((None, False), (0, False), (1, True), (-1, False), ((0, 2), False), ((2, 0), True), ((), False))


@pytest.mark.parametrize("dim, keepdim", DIMS)
def test_shapes(dim: object, keepdim: bool, device: torch.device) -> None:
    x = data("mixed", torch.float32, 3, 4, 5).to(device)
    assert_same_bits(sum_exact(x, dim, keepdim), exact_sum_along(x, dim, keepdim))
    assert_same_bits(exact_round(exact_state(x, dim, keepdim), dtype=x.dtype), exact_sum_along(x, dim, keepdim))
    assert_same_bits(OPS.sum_exact.default(x), exact_sum_along(x))
    assert_same_bits(OPS.exact_state.default(x), exact_state(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("dim, keepdim", DIMS)
def test_gradients(dim: object, keepdim: bool, dtype: torch.dtype, device: torch.device) -> None:
    x = torch.randn(3, 2, 4, dtype=dtype, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()

    def function(x: torch.Tensor) -> torch.Tensor:
        return OPS.sum_exact(x, dim, keepdim) ** 2

    assert gradcheck(function, (x,), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(function, (x,), check_fwd_over_rev=True, check_rev_over_rev=True)
    ours, theirs = (f(x, dim, keepdim) for f in (sum_exact, reduce_ops.sum))
    cotangent = torch.arange(1.0, ours.numel() + 1, device=device).to(dtype).view(ours.shape)
    assert_same_bits(*(torch.autograd.grad(y, x, cotangent)[0] for y in (ours, theirs)))


def test_states_have_no_gradient(device: torch.device) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    for state in (exact_state(x), OPS.exact_state.default(x)):
        assert not state.requires_grad
        assert not exact_round(state, dtype=torch.float32).requires_grad
    with pytest.raises(RuntimeError, match="Autograd not support dtype: "):  # as torch.sum, instead of dropping it
        sum_exact(x, dtype=torch.int64)
    for dtype in (torch.float16, torch.float64, torch.complex64):
        (grad,) = torch.autograd.grad(sum_exact(x, dtype=dtype).real, x)
        assert_same_bits(grad, torch.ones(3))


def test_inference_mode(device: torch.device) -> None:
    x = torch.ones(3, 4, device=device, requires_grad=True)
    with torch.inference_mode():
        results = sum_exact(x, 0), exact_state(x), exact_round(exact_state(x), dtype=torch.float64)
    for result in results:
        assert result.is_inference() and not result.requires_grad


@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("dim, keepdim", [(None, False), (0, True), (-1, False), ((0, 1), True), ((), False)])
def test_vmap(dim: object, keepdim: bool, in_dim: int, device: torch.device) -> None:
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.int64):
        x = random_values(5 * 6 * 70, dtype).view(5, 6, 70).to(device)
        for op in (partial(sum_exact, dim=dim, keepdim=keepdim), partial(exact_state, dim=dim, keepdim=keepdim)):
            expected = torch.stack([op(sample) for sample in x.unbind(in_dim)])
            assert_same_bits(torch.vmap(op, in_dims=in_dim)(x), expected)
    samples = torch.ones(6, device=device)
    op = partial(sum_exact, dim=dim if dim in (None, ()) else 0, keepdim=keepdim)
    assert_same_bits(torch.vmap(op)(samples), samples)
    assert_same_bits(torch.vmap(OPS.exact_state.default)(samples), exact_state(samples[:, None], 1))


def test_vmap_of_rounding(device: torch.device) -> None:
    states = exact_state(data("mixed", torch.float32, 4, 2, 30).to(device), 2)
    for dtype in (torch.float16, torch.complex64):
        function = partial(exact_round, dtype=dtype)
        assert_same_bits(torch.vmap(function)(states), function(states))
    to_half = partial(exact_round, dtype=torch.half)
    assert_same_bits(torch.vmap(to_half, in_dims=1)(states), to_half(states).t())
    with pytest.raises(ValueError, match="state has sizes"):
        torch.vmap(to_half)(states[0, 0])  # a batch of 16 is no state
    with pytest.raises(ValueError, match="complex"):
        torch.vmap(partial(exact_round, dtype=torch.complex64))(states[0])


OPERATORS = (
    (OPS.sum_exact.default, ()),
    (OPS.sum_exact.dim_IntList, (1,)),
    (OPS.exact_state.default, ()),
    (OPS.exact_state.dim_IntList, ((0, 1), True)),
)


@pytest.mark.parametrize("op, arguments", OPERATORS, ids=str)
def test_opcheck(op: torch._ops.OpOverload, arguments: tuple[object, ...], device: torch.device) -> None:
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    for dtype in DTYPES:
        x = random_values(35, dtype).view(5, 7).to(device)
        one_byte = dtype.is_floating_point and dtype.itemsize == 1  # the check of the schema has no allclose for it
        torch.library.opcheck(op, (x, *arguments), test_utils=checks[1:] if one_byte else checks)
    for dtype in (torch.float16, torch.float32, torch.complex64):
        x = random_values(35, dtype).view(5, 7).to(device).requires_grad_()
        torch.library.opcheck(op, (x, *arguments), test_utils=checks)


def test_opcheck_of_rounding(device: torch.device) -> None:
    states = exact_state(data("mixed", torch.float32, 2, 30).to(device), 1)
    for dtype in (torch.float64, torch.float16, torch.complex64):
        torch.library.opcheck(OPS.exact_round.default, (states,), {"dtype": dtype})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_meta_and_fake_tensors(dtype: torch.dtype, device: torch.device) -> None:
    real = random_values(60, dtype).view(3, 4, 5).to(device)
    targets = (None, torch.complex32) if dtype.is_complex else (None, torch.bfloat16, torch.complex32, torch.int32)
    rounded = torch.complex64 if dtype.is_complex else torch.float64

    def results(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for dim, keepdim in DIMS:
            yield from (sum_exact(x, dim, keepdim, dtype=target) for target in targets)
            state = exact_state(x, dim, keepdim)
            yield state
            yield exact_round(state, dtype=rounded)

    with FakeTensorMode() as mode:
        fake = list(results(mode.from_tensor(real)))
    for expected, on_meta, faked in zip(results(real), results(real.to("meta")), fake, strict=True):
        assert on_meta.is_meta and faked.device.type == device.type
        for actual in (on_meta, faked):
            assert (actual.shape, actual.dtype, actual.stride()) == (expected.shape, expected.dtype, expected.stride())


def test_compile(device: torch.device) -> None:
    """One graph without a break for all sizes, with gradients."""
    graphs = []

    def count(module: torch.fx.GraphModule, _: list) -> Callable:
        graphs.append(module)
        return module

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state = exact_state(x, -1) + exact_state(x * 2, -1)
        return sum_exact(x), sum_exact(x, 0, dtype=torch.float64), exact_round(state, dtype=torch.float16)

    torch.compiler.reset()
    compiled = torch.compile(function, backend=count, fullgraph=True, dynamic=True)
    for n in (30, 400, 5000):
        x = data("mixed", torch.float32, 7, n).to(device)
        for actual, expected in zip(compiled(x), function(x), strict=True):
            assert_same_bits(actual, expected)
    assert len(graphs) == 1
    torch.compiler.reset()
    traced = torch.compile(lambda x: sum_exact(x * 2, 0) ** 2, backend="aot_eager", fullgraph=True)
    x = torch.rand(5, 6, device=device, requires_grad=True)
    (actual,) = torch.autograd.grad(traced(x).sum(), x)
    (expected,) = torch.autograd.grad((sum_exact(x * 2, 0) ** 2).sum(), x)
    assert_same_bits(actual, expected)


def test_autocast(device: torch.device) -> None:
    """As reduce.sum, and so as torch.sum: float32 on CUDA, and nothing on a CPU."""
    x = torch.ones(30, dtype=torch.float16, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        for op in (sum_exact, OPS.sum_exact.default):
            assert op(x).dtype == (torch.float32 if device.type == "cuda" else torch.float16)
            assert op(x, dtype=torch.float64).dtype == torch.float64
