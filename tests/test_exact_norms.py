"""``reduce::vector_norm_exact`` and states of squares against Python integers: the root of their sum, rounded once."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import reduce_ops
from exact_oracle import FORMATS, PARTS, UNIT, Format, exact_sum
from oracle import result_dtype
from reduce_ops import exact_round, exact_state, vector_norm_exact
from support import COMPLEX, assert_same_bits, moved, not_dense, random_values
from test_exact import HIGHEST, data, each_float, each_kind, each_wide, fields

OPS = torch.ops.reduce
inf, nan = math.inf, math.nan
WORDS = {torch.float64: 139, torch.complex128: 139}


def round_root(format: Format, square: int) -> float:
    """The nearest number of the format to the root of so many units of 2**(2 * UNIT), the even one of two."""
    exponent = (square.bit_length() - 1) // 2 + UNIT
    step = max(exponent, format.least) - format.precision + 1 - UNIT  # log2 of the distance of neighbours, in units
    # In steps, the root is that of square / 4**step. It is compared with the middle between q and q + 1 by squares.
    over, under = (square, 4**step) if step >= 0 else (square * 4**-step, 1)
    q = math.isqrt(over // under)
    twice = (2 * q + 1) ** 2 * under
    if 4 * over > twice or (4 * over == twice and q % 2 == 1):
        q += 1
    if step + UNIT + q.bit_length() > 1024 or q * 2 ** max(step, 0) > format.largest * 2 ** max(-step, 0):
        return format.overflow
    return math.ldexp(q, step + UNIT)


def square(x: np.ndarray) -> int:
    """The sum of squares of finite float64, in units."""
    total = 0
    for value in x.tolist():
        numerator, denominator = value.as_integer_ratio()
        total += (numerator << 1 - denominator.bit_length() - UNIT) ** 2
    return total


def norm(x: np.ndarray, ord: int, dtype: torch.dtype) -> float:
    if ord == 1:
        return exact_sum(np.abs(x), dtype)
    if not np.isfinite(x).all():
        return nan if np.isnan(x).any() else FORMATS[dtype].overflow
    total = square(x)
    return round_root(FORMATS[dtype], total) if total else 0.0


def norms(x: torch.Tensor, dtype: torch.dtype, ord: int = 2) -> torch.Tensor:
    """Of each row of a matrix of floats."""
    rows = torch.view_as_real(x.resolve_conj()).flatten(1) if x.is_complex() else x
    values = [norm(row, ord, dtype) for row in rows.cpu().resolve_neg().double().numpy()]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def from_state(x: torch.Tensor, dim: int | None, dtype: torch.dtype, ord: int = 2) -> torch.Tensor:
    state = exact_state(x, dim, of="squares" if ord == 2 else "magnitudes")
    return exact_round(state, dtype=dtype, root=ord == 2)


def check_rows(x: torch.Tensor, dtype: torch.dtype, device: torch.device, what: object = "") -> None:
    """The norms of rows and columns, and the states of these, have the bits of the oracle."""
    for ord in (2,) if x.is_complex() else (2, 1):
        expected = norms(x, dtype, ord)
        asked = dtype.to_complex() if x.is_complex() else dtype
        on_device = x.to(device)
        across = on_device.t().contiguous()
        assert_same_bits(vector_norm_exact(on_device, ord, 1, dtype=asked), expected, (ord, what))
        assert_same_bits(vector_norm_exact(across, ord, 0, dtype=asked), expected, (ord, what))
        assert_same_bits(from_state(on_device, 1, dtype, ord), expected, (ord, what))
        states = exact_state(across, 0, of="squares" if ord == 2 else "magnitudes")
        assert torch.equal(states, exact_state(on_device, 1, of="squares" if ord == 2 else "magnitudes")), what


def test_oracle_rounds_to_the_nearest_number_there_is() -> None:
    """Between neighbours of bfloat16: the square of the middle, and the integers beside it."""
    format = FORMATS[torch.bfloat16]
    numbers = torch.arange(1, 0x7F80, dtype=torch.int16).view(torch.bfloat16).double().tolist()
    for low, high in list(itertools.pairwise(numbers))[::97]:
        middle = int(low * 2.0**200) + int(high * 2.0**200) << -UNIT - 201
        even = low if int(low / (high - low)) % 2 == 0 else high
        assert round_root(format, middle**2) == even
        assert round_root(format, middle**2 - 1) == low
        assert round_root(format, middle**2 + 1) == high
    edge = format.largest + (1 << format.most - format.precision - UNIT)
    assert round_root(format, edge**2) == inf and round_root(format, edge**2 - 1) == numbers[-1]


@each_wide
@each_kind
def test_rows(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    for n in (1, 2, 3, 7, 17, 40):
        x = data(kind, dtype, 60, n, seed=n)
        for target in FORMATS:
            check_rows(x, target, device, (n, target))


@each_wide
@pytest.mark.parametrize("kind", ["randn", "mixed", "every exponent", "subnormal", "outlier", "everything special"])
def test_long_norms(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    """Of several tiles and threads; in whole, by rows and by columns."""
    x = data(kind, dtype, 100_003)
    for ord in (1, 2):
        expected = norms(x[None], dtype, ord)[0]
        assert_same_bits(vector_norm_exact(x.to(device), ord), expected)
        assert_same_bits(from_state(x.to(device), None, dtype, ord), expected)
    for shape in ((12, 5000), (5000, 12)):
        check_rows(x[:60_000].view(shape), dtype, device, shape)


@pytest.mark.parametrize("n", [0, 1, 2, *range(31, 34), *range(255, 258), *range(1023, 1026), 2049, 4097, 8193])
def test_sizes(n: int, device: torch.device) -> None:
    for kind in ("randn", "every exponent"):
        for dtype in (torch.float32, torch.float64):
            check_rows(data(kind, dtype, 3, n, seed=n), dtype, device, (kind, n))


@each_float
def test_every_float(dtype: torch.dtype, device: torch.device) -> None:
    """All bit patterns of a format, or many; each target."""
    if dtype.itemsize <= 2:
        bits = torch.arange(2 ** (8 * dtype.itemsize)).to(torch.uint8 if dtype.itemsize == 1 else torch.int16)
        patterns = bits.view(dtype)
        finite = patterns[patterns.double().isfinite()]
        finite = finite[: len(finite) // 4 * 4]
    else:
        patterns = data("everything special", dtype, 1000)
        finite = data("every exponent", dtype, 4000)
    for target in FORMATS:
        check_rows(patterns[None], target, device, target)
        check_rows(finite.view(4, -1), target, device, target)
    # Each element by itself: its norm is its magnitude, in whatever dtype.
    assert_same_bits(vector_norm_exact(finite[:, None].to(device), dim=1, dtype=torch.float64), finite.double().abs())
    assert vector_norm_exact(finite[:, None].to(device), dim=1).dtype == result_dtype(dtype)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex(dtype: torch.dtype, device: torch.device) -> None:
    real = PARTS[dtype]
    for kind in ("mixed", "everything special"):
        x = torch.view_as_complex(data(kind, torch.float64, 9, 50, 2)).to(dtype)
        for target in (torch.float16, torch.float32, torch.float64):
            check_rows(x, target, device, (kind, target))
        expected = norms(x, real)
        y = x.to(device)
        negated = [] if dtype == torch.complex32 else [torch._neg_view(y.conj())]  # which PyTorch cannot resolve
        for view in (y, y.conj(), *negated):
            assert_same_bits(vector_norm_exact(view, dim=1), expected)
        assert_same_bits(vector_norm_exact(y), norms(x.reshape(1, -1), real)[0])
        assert exact_state(y, 1, of="squares").shape == (9, WORDS.get(dtype, 25))
        assert exact_state(y, 1, True, of="squares").shape == (9, 1, WORDS.get(dtype, 25))


def test_integers(device: torch.device) -> None:
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint32):
        x = random_values(3000, dtype).view(3, 1000)
        for target in (torch.float16, torch.float32, torch.float64):
            for ord in (1, 2):
                expected = norms(x.double(), target, ord)
                assert_same_bits(vector_norm_exact(x.to(device), ord, 1, dtype=target), expected, (dtype, target))


@each_float
def test_views(dtype: torch.dtype, device: torch.device) -> None:
    x = random_values(3 * 40 * 70, dtype).view(3, 40, 70)
    target = result_dtype(dtype)
    for view in (x, x.transpose(0, 2), x[:, ::2, 1:], x[:, :, None], x.expand(2, 3, 40, 70), torch._neg_view(x)):
        if view.is_neg() and dtype.itemsize == 1:
            continue
        on_device = moved(view, device) if not view.is_neg() else torch._neg_view(x.to(device))
        for dim in (0, 1, (0, -1), None):
            dims = list(range(view.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
            reduced = sorted(d % view.dim() for d in dims)
            kept = [d for d in range(view.dim()) if d not in reduced]
            sizes = [view.shape[d] for d in kept]
            rows = view.permute(kept + reduced).reshape(math.prod(sizes), -1)
            if rows.shape[0] > 200:
                continue
            for ord in (1, 2):
                expected = norms(rows, target, ord).view(sizes)
                assert_same_bits(vector_norm_exact(on_device, ord, dim), expected, (view.shape, dim))
                for d in reduced:
                    expected = expected.unsqueeze(d)
                assert_same_bits(vector_norm_exact(on_device, ord, dim, True), expected, (view.shape, dim))


# ---- rounding ----


def pythagorean(bits: int, generator: np.random.Generator) -> tuple[int, int]:
    """Integers whose squares add up to that of an odd integer of so many bits."""
    while True:
        p, q = (int(n) for n in generator.integers(1, math.isqrt(2**bits), 2))
        c = p * p + q * q
        if (p + q) % 2 == 1 and c.bit_length() == bits:
            return abs(p * p - q * q), 2 * p * q


@pytest.mark.parametrize("target", FORMATS, ids=str)
@each_wide
def test_ties_of_the_root(target: torch.dtype, dtype: torch.dtype, device: torch.device) -> None:
    """Norms halfway between two numbers, by themselves and beside the smallest number, or one that is just seen.

    The root of a**2 + b**2 has one bit more than the target. (a and b that dtype cannot hold are taken as they round.)
    """
    precision = FORMATS[target].precision
    if precision > FORMATS[dtype].precision:
        pytest.skip("all that is halfway needs more bits than dtype has")
    generator = np.random.default_rng(0)
    least = 2.0**-149 if dtype == torch.float32 else 2.0**-1074
    rows = []
    for _ in range(60):
        a, b = pythagorean(precision + 1, generator)
        scale = 2.0 ** int(generator.integers(-4, 5))
        for more in (0.0, least, scale * 2.0**-20):
            rows.append([a * scale, b * scale, more])
        rows.append([a * scale, (b - 1) * scale, scale])  # a little less
    x = torch.tensor(rows, dtype=torch.float64).to(dtype)
    check_rows(x, target, device)
    assert int((x.double() == torch.tensor(rows, dtype=torch.float64)).all(1).sum()) > 20


def test_ties_are_where_they_are_said_to_be(device: torch.device) -> None:
    """A single float64 is its own norm, so every middle of two float32 can be had; a tiny square beside it decides."""
    low = fields(torch.float32, 1, HIGHEST[torch.float32] - 1, (500,), torch.Generator().manual_seed(0)).abs()
    high = (low.view(torch.int32) + 1).view(torch.float32)
    middle = (low.double() + high.double()) / 2
    even = torch.where(low.view(torch.int32) % 2 == 0, low, high)
    zero = torch.zeros_like(middle)
    tiny = torch.full_like(middle, 2.0**-1074)
    for second, expected in ((zero, even), (tiny, high)):
        x = torch.stack([middle, second], 1).to(device)
        assert_same_bits(vector_norm_exact(x, dim=1, dtype=torch.float32), expected)
        assert_same_bits(from_state(x, 1, torch.float32), expected)
    below = torch.from_numpy(np.nextafter(middle.numpy(), 0.0))[:, None].to(device)
    assert_same_bits(vector_norm_exact(below, dim=1, dtype=torch.float32), low)


def test_roots_of_any_integer(device: torch.device) -> None:
    """Of states that were written by hand: squares of integers of 32 and 64 bits, what lies beside them, and below."""
    generator = np.random.default_rng(0)
    ends = [2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1, 2**63, 2**63 + 1, 2**64 - 2**32, 2**64 - 2, 2**64 - 1]
    roots = [*ends, *(int(root) for root in generator.integers(2**31, 2**63, 200)), 3 << 62, (3 << 62) + 1]
    integers = [root**2 + more for root in roots for more in (-1, 0, 1)]
    integers += [root * 2**32 + more for root in ends for more in (-1, 0, 1)]
    integers += [
        2**128 - 1,
        2**128 - 2**64,
        2**127 - 1,
        2**126,
        *(int(n) << 63 for n in generator.integers(1, 2**63, 99)),
    ]
    place = 40  # of the lowest limb: there is room for more below
    rows, values = [], []
    for n in integers:
        for below in (0, 1):
            limbs = [0] * 134
            limbs[place : place + 5] = [n >> 32 * k & 0xFFFFFFFF for k in range(5)]
            limbs[3] = below
            rows.append([(4 << 32) + 1, 0, 0, 0, 1, *limbs])
            values.append(
                (n << 32 * place | below << 96) >> 2
            )  # in units of 2**(2 * UNIT), of which limb 0 has fractions
    states = torch.tensor(rows, device=device)
    for target in FORMATS:
        expected = torch.tensor([round_root(FORMATS[target], value) for value in values], dtype=torch.float64)
        assert_same_bits(exact_round(states, dtype=target, root=True), expected.to(target), target)
    minus = torch.cat([states[:1, :5], -states[:1, 5:]], 1)
    assert exact_round(minus, dtype=torch.float32, root=True).isnan()


def test_subnormal_norms(device: torch.device) -> None:
    """Whose last bit is the least number: roots of n times its square, and of small float64 to narrower dtypes."""
    for dtype, least in ((torch.float32, 2.0**-149), (torch.float64, 2.0**-1074)):
        for n in (1, 2, 3, 5, 6, 7, 12, 13, 20, 21, 30, 31, 1000):
            x = torch.full((1, n), least, dtype=dtype)
            check_rows(x, dtype, device, n)
            assert vector_norm_exact(x.to(device)) == round(math.sqrt(n)) * least
    for target in (torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32):
        format = FORMATS[target]
        unit = 2.0 ** (format.least - format.precision + 1)
        x = torch.tensor([[k * unit / 4, j * unit / 8] for k in range(1, 30) for j in (0, 1, 2)], dtype=torch.float64)
        check_rows(x, target, device, target)


def test_overflow(device: torch.device) -> None:
    """Only where the norm, rounded, is beyond the largest number: from half a unit above it on."""
    for target in (torch.float16, torch.bfloat16, torch.float32):
        format = FORMATS[target]
        largest = torch.finfo(target).max
        edge = largest + math.ldexp(1.0, format.most - format.precision)
        rows = [[edge, 0.0], [np.nextafter(edge, 0.0), 0.0], [largest, 1.0], [largest, largest], [edge, 2.0**-1074]]
        x = torch.tensor(rows, dtype=torch.float64)
        check_rows(x, target, device, target)
        assert vector_norm_exact(x.to(device), dim=1, dtype=target).tolist() == [inf, largest, largest, inf, inf]
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.full((1, 4), torch.finfo(dtype).max / 2, dtype=dtype)
        check_rows(x, dtype, device, dtype)
        assert vector_norm_exact(x.to(device)) == torch.finfo(dtype).max
        assert vector_norm_exact((x * 2).to(device)) == inf
        small = torch.full((1, 4), torch.finfo(dtype).smallest_normal, dtype=dtype)
        assert vector_norm_exact(small.to(device)) == 2 * torch.finfo(dtype).smallest_normal
    assert vector_norm_exact(torch.tensor([3e30, 4e30], device=device)) == torch.tensor(5e30)


def test_special_values(device: torch.device) -> None:
    for dtype in (torch.float16, torch.float32, torch.float64):
        for values, expected in (
            ([nan, 1.0], nan),
            ([inf, nan], nan),
            ([inf, -inf], inf),
            ([-inf, 1.0], inf),
            ([-0.0, -0.0], 0.0),
            ([0.0], 0.0),
            ([-2.0], 2.0),
        ):
            x = torch.tensor(values, dtype=dtype, device=device)
            for ord in (1, 2):
                wanted = torch.tensor(expected, dtype=dtype)
                assert_same_bits(vector_norm_exact(x, ord), wanted, (values, ord))
                assert_same_bits(from_state(x, None, dtype, ord), wanted, (values, ord))
                assert_same_bits(vector_norm_exact(x, ord).cpu(), torch.linalg.vector_norm(x, ord).cpu(), (values, ord))
        for ord in (1, 2):
            empty = torch.empty(2, 0, dtype=dtype, device=device)
            assert_same_bits(vector_norm_exact(empty, ord, 1), torch.zeros(2, dtype=dtype))
            assert_same_bits(vector_norm_exact(empty, ord), torch.zeros((), dtype=dtype))
            assert vector_norm_exact(empty, ord, 0).shape == (0,)


def test_subnormal_numbers_count_where_a_thread_flushes_them() -> None:
    x = data("subnormal", torch.float32, 50_001)
    expected = [(vector_norm_exact(x, ord), exact_state(x, of="squares")) for ord in (1, 2)]
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    try:
        flushed = [(vector_norm_exact(x, ord), exact_state(x, of="squares")) for ord in (1, 2)]
    finally:
        torch.set_flush_denormal(False)
    for (norm, state), (wanted, words) in zip(flushed, expected, strict=True):
        assert_same_bits(norm, wanted)
        assert torch.equal(state, words)


# ---- states ----


@each_float
@pytest.mark.parametrize("of", ["magnitudes", "squares"])
def test_any_split_merges_to_the_same_sum(of: str, dtype: torch.dtype, device: torch.device) -> None:
    x = random_values(5003, dtype).to(device)
    whole = exact_state(x, of=of)  # type: ignore[arg-type]
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).to(device)]
    assert torch.equal(exact_state(x, of=of), whole)  # type: ignore[arg-type]
    target, root = result_dtype(dtype), of == "squares"
    assert_same_bits(exact_round(whole, dtype=target, root=root), vector_norm_exact(x, 2 if of == "squares" else 1))
    generator = np.random.default_rng(0)
    for parts in (2, 3, 17):
        cuts = [0, *sorted(generator.integers(0, len(x) + 1, parts - 1).tolist()), len(x)]
        states = [exact_state(x[a:b], of=of) for a, b in itertools.pairwise(cuts)]  # type: ignore[arg-type]
        state = torch.stack(states)[generator.permutation(parts)].sum(0)
        for to in FORMATS:
            assert_same_bits(exact_round(state, dtype=to, root=root), exact_round(whole, dtype=to, root=root))
        limbs = [int(word) for word in state[5:]]
        value = sum(limb << (32 * k) for k, limb in enumerate(limbs))
        assert value == sum(int(word) << (32 * k) for k, word in enumerate(whole[5:]))


@each_wide
def test_words_of_a_state(dtype: torch.dtype, device: torch.device) -> None:
    x = data("every exponent", dtype, 1000)
    state = exact_state(x.to(device), of="squares").cpu()
    lowest = -300 if dtype == torch.float32 else -2150
    assert state.shape == (WORDS.get(dtype, 25),)
    assert state[:5].tolist() == [(4 << 32) + 1, 0, 0, 0, 1]
    assert ((state[5:-1] >= 0) & (state[5:-1] < 2**32)).all()
    value = sum(int(word) << (32 * k) for k, word in enumerate(state[5:]))
    assert value << (lowest + 2150) == square(x.double().numpy()) << (2 * UNIT + 2150)
    for values, kinds in (([nan, 1.0], [1, 0, 0]), ([inf, -inf], [0, 1, 0]), ([-inf], [0, 1, 0])):
        special = exact_state(torch.tensor(values, dtype=dtype, device=device), of="squares")
        assert special[1:4].tolist() == kinds and not special[5:].any()
    assert not exact_state(x[:0].to(device), of="squares").any()
    # As a sum of squares it can be rounded, and divided, too.
    assert exact_round(exact_state(torch.tensor([3.0, 4.0], device=device), of="squares"), dtype=torch.float32) == 25
    pair = exact_state(torch.tensor([3.0, 4.0], dtype=dtype, device=device), of="squares")
    assert exact_round(pair, dtype=torch.float32, count=2) == 12.5


# ---- the operator among others ----


def test_errors(device: torch.device) -> None:
    x = torch.ones(3, 4, device=device)
    for ord in (0, 3, inf, -inf, 0.5):
        with pytest.raises(RuntimeError, match=r"vector_norm_exact: ord is .*; accepted are 1 and 2$"):
            OPS.vector_norm_exact(x, ord)
    with pytest.raises(RuntimeError, match="vector_norm_exact: self is Int; accepted are floating point and complex"):
        OPS.vector_norm_exact(x.int())
    for wide in (x.long(), x.long().to(torch.uint64)):
        with pytest.raises(RuntimeError, match="vector_norm_exact: self is U?I?n?t?L?o?n?g?6?4?; accepted are"):
            OPS.vector_norm_exact(wide, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="vector_norm_exact: dtype is Long; accepted are floating point and complex"):
        OPS.vector_norm_exact(x, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="dtype is ComplexFloat, but self is Float; accepted are floating point"):
        OPS.vector_norm_exact(x, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match="vector_norm_exact: dtype is Float"):
        OPS.vector_norm_exact(x + 1j, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="ord is 1 and self is ComplexFloat, .*; accepted is ord=2"):
        OPS.vector_norm_exact(x + 1j, 1)
    with pytest.raises(IndexError):
        OPS.vector_norm_exact(x, 2, 2)
    for tensor in not_dense(device).values():
        with pytest.raises((NotImplementedError, RuntimeError), match="vector_norm_exact: self is"):
            OPS.vector_norm_exact(tensor)
    with pytest.raises(ValueError, match="exact_state: of is 'cubes'; accepted are 'elements', 'magnitudes' and"):
        exact_state(x, of="cubes")  # type: ignore[arg-type]
    for of in ("magnitudes", "squares"):
        with pytest.raises(ValueError, match=f"exact_state: of is '{of}' and self is Int; accepted are floating"):
            exact_state(x.int(), of=of)
    with pytest.raises(ValueError, match="exact_state: of is 'magnitudes' and self is ComplexFloat"):
        exact_state(x + 1j, of="magnitudes")
    with pytest.raises(ValueError, match="exact_round: root asks for a state of squares, but state has sizes"):
        exact_round(exact_state(x), dtype=torch.float32, root=True)
    squares = exact_state(x, of="squares")
    with pytest.raises(ValueError, match="exact_round: count is 12; accepted is 1 with root"):
        exact_round(squares, dtype=torch.float32, root=True, count=12)
    for dtype, words in ((torch.int64, "cannot hold a sum of floats"), (torch.complex64, "one of squares")):
        with pytest.raises(ValueError, match=f"exact_round: dtype=.*{words}"):
            exact_round(squares, dtype=dtype)
    if device.type == "cpu":
        with pytest.raises(ValueError, match="exact_round: state has a first word of"):
            exact_round(squares - 1, dtype=torch.float32, root=True)


@pytest.mark.parametrize("ord", [1, 2])
@pytest.mark.parametrize("dim, keepdim", [(None, False), (0, True), ((0, 2), False)])
def test_derivatives(dim: int | tuple[int, ...] | None, keepdim: bool, ord: int, device: torch.device) -> None:
    ours = partial(OPS.vector_norm_exact, ord=ord, dim=dim, keepdim=keepdim)
    theirs = partial(reduce_ops.vector_norm, ord=ord, dim=dim, keepdim=keepdim)
    for dtype in (torch.float64, torch.complex128)[:ord]:
        x = random_values(60, dtype).view(3, 4, 5).to(device).requires_grad_()
        assert gradcheck(ours, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
        assert gradgradcheck(lambda t: ours(t).square(), x)
        gradients = [torch.autograd.grad(f(x).sin().sum(), x)[0] for f in (ours, theirs)]
        torch.testing.assert_close(*gradients)
    zero = torch.zeros(4, device=device, requires_grad=True)
    assert torch.autograd.grad(OPS.vector_norm_exact(zero, ord), zero)[0].tolist() == [0, 0, 0, 0]
    large = torch.tensor([3e30, 4e30], device=device, requires_grad=True)
    if ord == 2:
        torch.testing.assert_close(
            torch.autograd.grad(OPS.vector_norm_exact(large), large)[0].cpu(), torch.tensor([0.6, 0.8])
        )


def test_out(device: torch.device) -> None:
    x = random_values(6 * 70, torch.float32).view(6, 70).to(device)
    for dtype in (torch.float16, torch.float32, torch.float64):
        for ord in (1, 2):
            expected = OPS.vector_norm_exact(x, ord, 1, dtype=dtype)
            for out in (
                torch.empty(0, dtype=dtype, device=device),
                torch.zeros(6, 3, dtype=dtype, device=device)[:, 1],
            ):
                assert OPS.vector_norm_exact(x, ord, 1, out=out) is out
                assert_same_bits(out, expected)
                assert_same_bits(vector_norm_exact(x, ord, 1, dtype=dtype, out=out), expected)
    y = x[0].clone()
    assert_same_bits(OPS.vector_norm_exact(y, 2, 0, True, out=y[:1]), OPS.vector_norm_exact(x[0], 2, 0, True))
    z = torch.view_as_complex(x.view(6, 35, 2))
    assert_same_bits(
        OPS.vector_norm_exact(z, out=torch.empty((), dtype=torch.float64, device=device)),
        OPS.vector_norm_exact(z, dtype=torch.complex128),
    )
    ints = torch.tensor([3, 4], dtype=torch.int32, device=device)
    assert OPS.vector_norm_exact(ints, out=torch.empty((), device=device)) == 5
    with pytest.raises(RuntimeError, match="vector_norm_exact: out is Long; accepted are floating point and complex"):
        OPS.vector_norm_exact(x, out=torch.empty(0, dtype=torch.int64, device=device))
    with pytest.raises(RuntimeError, match="vector_norm_exact: expected out to have dtype Double, but it has Float"):
        OPS.vector_norm_exact(x, dtype=torch.float64, out=torch.empty(0, device=device))
    with pytest.raises(RuntimeError, match="out=.* arguments don't support automatic differentiation"):
        OPS.vector_norm_exact(x.clone().requires_grad_(), out=torch.empty(0, device=device))
    meta = torch.empty(3, 5, device="meta")
    assert OPS.vector_norm_exact(meta, 2, 0, out=torch.empty(0, device="meta")).shape == (5,)


def test_vmap_meta_and_compile(device: torch.device) -> None:
    x = random_values(5 * 6 * 70, torch.float32).view(5, 6, 70).to(device)
    for in_dim in (0, 1, 2):
        for dim in (None, 0, (0, 1)):
            for function in (
                partial(vector_norm_exact, dim=dim),
                partial(vector_norm_exact, ord=1, dim=dim),
                partial(exact_state, dim=dim, of="squares"),
            ):
                samples = torch.stack([function(sample) for sample in x.unbind(in_dim)])
                assert_same_bits(torch.func.vmap(function, in_dims=in_dim)(x), samples)
    states = exact_state(x, 2, of="squares")
    rounded = partial(exact_round, dtype=torch.float32, root=True)
    assert_same_bits(torch.vmap(rounded)(states), rounded(states))
    meta = OPS.vector_norm_exact(torch.empty(2, 3, 2**40, device="meta", dtype=torch.complex64), 2, (0, 2), True)
    assert meta.shape == (1, 3, 1) and meta.dtype == torch.float32
    assert OPS.exact_state(torch.empty(2, 3, device="meta", dtype=torch.complex128), 1, of="squares").shape == (2, 139)
    for operator, arguments, options in (
        (OPS.vector_norm_exact.default, (x,), {}),
        (OPS.vector_norm_exact.default, (x, 1, [1], True), {"dtype": torch.float64}),
        (OPS.exact_state.dim_IntList, (x, [1]), {"of": "squares"}),
        (OPS.exact_round.default, (states,), {"dtype": torch.float32, "root": True}),
    ):
        torch.library.opcheck(operator, arguments, options)

    def both(t: torch.Tensor) -> torch.Tensor:
        return vector_norm_exact(t.sin(), 2, 1) + exact_round(exact_state(t, 1, of="squares"), dtype=t.dtype, root=True)

    def into(t: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        OPS.vector_norm_exact(t, 2, 1, out=out)
        return out + 1

    assert_same_bits(torch.compile(both, backend="aot_eager", fullgraph=True)(x), both(x))
    out, expected = (torch.zeros(5, 70, device=device) for _ in range(2))
    compiled = torch.compile(into, backend="aot_eager", fullgraph=True)(x, out)
    assert_same_bits(compiled, into(x, expected))
    assert_same_bits(out, expected)


@pytest.mark.gpu
def test_autocast() -> None:
    x = random_values(1000, torch.float16).cuda()
    with torch.autocast("cuda"):
        assert_same_bits(OPS.vector_norm_exact(x), OPS.vector_norm_exact(x, dtype=torch.float32))
