"""``reduce::mean_exact`` and ``exact_round(count=)`` against fractions: the quotient of integers, rounded once."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import reduce_ops
from exact_oracle import FORMATS, UNIT, Format, exact_sum, total
from reduce_ops import exact_round, exact_state, mean_exact
from support import COMPLEX, FLOATS, INTEGERS, assert_same_bits, not_dense, random_values
from test_exact import KINDS, data

OPS = torch.ops.reduce


def nearest(format: Format, x: Fraction) -> float:
    """The nearest number of the format, the even one of two; x is not 0."""
    magnitude = abs(x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, format.least) - format.precision + 1)
    rounded = round(magnitude / step) * step  # of a Fraction, to nearest even
    largest = Fraction(format.largest) * Fraction(2) ** UNIT
    return math.copysign(format.overflow if rounded > largest else float(rounded), 1 if x > 0 else -1)


def expected(x: torch.Tensor, dtype: torch.dtype, count: int | None = None) -> torch.Tensor:
    """Of each row of a matrix of floats or integers: its sum, divided by the number of its elements or another one."""
    means = []
    for row in x.cpu():
        values = row.double().numpy() if row.dtype.is_floating_point else np.array(row.tolist(), dtype=object)
        if row.dtype.is_floating_point and not np.isfinite(values).all():
            means.append(exact_sum(values, dtype))
            continue
        number = total(values) * Fraction(2) ** UNIT if row.dtype.is_floating_point else Fraction(int(values.sum()))
        zero = exact_sum(values, dtype) if row.dtype.is_floating_point and number == 0 else 0.0
        means.append(nearest(FORMATS[dtype], number / (count or len(row))) if number else zero)
    return torch.tensor(means, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_kinds(kind: str, dtype: torch.dtype, device: torch.device) -> None:
    for rows, n in ((60, 3), (30, 7), (10, 100), (3, 5001)):
        x = data(kind, dtype, rows, n, seed=n)
        for target in FORMATS:
            wanted = expected(x, target)
            assert_same_bits(mean_exact(x.to(device), 1, dtype=target), wanted, (n, target))
            assert_same_bits(exact_round(exact_state(x.to(device), 1), dtype=target, count=n), wanted, (n, target))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dtypes_and_layouts(dtype: torch.dtype, device: torch.device) -> None:
    result = torch.float32 if dtype.itemsize == 1 else dtype
    for shape in ((1, 1), (40, 33), (2, 20_001), (3, 2**20 + 1)):
        x = random_values(shape[0] * shape[1], dtype).view(shape)
        wanted = expected(x, result)
        assert_same_bits(OPS.mean_exact(x.to(device), 1), wanted, shape)
        assert_same_bits(OPS.mean_exact(x.t().contiguous().to(device), 0), wanted, shape)
        assert_same_bits(OPS.mean_exact(x[0].to(device)), wanted[0], shape)
        assert_same_bits(OPS.mean_exact(x.to(device), 1, True), wanted[:, None], shape)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_do_not_wrap(dtype: torch.dtype, device: torch.device) -> None:
    for n in (3, 1000):
        x = random_values(4 * n, dtype).view(4, n)
        for target in (torch.float32, torch.float64, torch.float16):
            assert_same_bits(OPS.mean_exact(x.to(device), 1, dtype=target), expected(x, target), (n, target))
    most = torch.full((5,), 2**63 - 1, device=device)
    assert OPS.mean_exact(most, dtype=torch.float64) == 2.0**63
    ints = exact_state(torch.tensor([1, 2, 4], device=device))
    assert_same_bits(exact_round(ints, dtype=torch.float32, count=3), torch.tensor(7 / 3))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex(dtype: torch.dtype, device: torch.device) -> None:
    x = random_values(7 * 31, dtype).view(7, 31)
    means = torch.view_as_real(OPS.mean_exact(x.to(device), 1))
    for part in (0, 1):
        row = torch.view_as_real(x)[..., part]
        assert_same_bits(means[:, part], expected(row, row.dtype))
    state = exact_state(x.to(device), 1)
    assert_same_bits(exact_round(state, dtype=dtype, count=31), OPS.mean_exact(x.to(device), 1))
    assert_same_bits(OPS.mean_exact(x.real.to(device), 1, dtype=torch.complex64).real, expected(x.real, torch.float32))


def test_divisors(device: torch.device) -> None:
    """Of up to 63 bits; quotients that lie half way, or a little beside it, and subnormal ones."""
    values = [1.0, 3.0, 2.0**-149, 2.0**127, 2.0**24 + 1, 1 + 2.0**-23, 2.0**-126, 5e-324, 1e308, -7.0]
    x = torch.tensor(values, dtype=torch.float64)[:, None]
    for wide in (x, torch.cat([x, torch.full_like(x, 2.0**-1074), torch.full_like(x, 2.0**-200)], 1)):
        state = exact_state(wide.to(device), 1)
        for count in (1, 2, 3, 5, 7, 2**24, 2**24 + 1, 2**31 - 1, 2**32, 2**53 + 1, 3 * 2**61, 2**62, 2**63 - 1):
            for target in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                assert_same_bits(
                    exact_round(state, dtype=target, count=count), expected(wide, target, count), (count, target)
                )


def test_nothing_overflows_on_the_way(device: torch.device) -> None:
    largest = torch.finfo(torch.float32).max
    assert OPS.mean_exact(torch.full((1000,), largest, device=device)) == largest
    assert OPS.mean_exact(torch.full((999,), 2.0**-149, device=device)) == 2.0**-149
    x = torch.tensor([1e30, 3.0, -1e30], device=device)
    assert OPS.mean_exact(x) == 1


def test_means_of_parts(device: torch.device) -> None:
    x = random_values(10_001, torch.float32).to(device)
    state = exact_state(x[:77]) + exact_state(x[77:5000]) + exact_state(x[5000:])
    assert_same_bits(exact_round(state, dtype=torch.float32, count=x.numel()), OPS.mean_exact(x))


def test_of_nothing(device: torch.device) -> None:
    for dtype in (torch.float16, torch.float32, torch.float8_e5m2, torch.complex64):
        for mean in (
            OPS.mean_exact(torch.empty(0, dtype=dtype, device=device)),
            OPS.mean_exact(torch.empty(2, 0, dtype=dtype, device=device), 1),
        ):
            parts = torch.view_as_real(mean) if mean.is_complex() else mean
            assert parts.isnan().all()
    assert OPS.mean_exact(torch.empty(0, 3, device=device), 1).shape == (0,)


def test_errors(device: torch.device) -> None:
    x = torch.ones(3, 4, device=device)
    with pytest.raises(
        RuntimeError, match="mean_exact: self is Int; accepted are floating point and complex dtypes, or"
    ):
        OPS.mean_exact(x.int())
    with pytest.raises(RuntimeError, match="mean_exact: dtype is Long; accepted are floating point and complex dtypes"):
        OPS.mean_exact(x, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="mean_exact: dtype is Float, which cannot hold"):
        OPS.mean_exact(x + 1j, dtype=torch.float32)
    with pytest.raises(IndexError):
        OPS.mean_exact(x, 2)
    for tensor in not_dense(device).values():
        with pytest.raises((NotImplementedError, RuntimeError), match="mean_exact: self is"):
            OPS.mean_exact(tensor)
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"exact_round: count is {count}; accepted are 1 and more"):
            exact_round(exact_state(x), dtype=torch.float32, count=count)
    with pytest.raises(ValueError, match="cannot hold a mean"):
        exact_round(exact_state(x.int()), dtype=torch.int64, count=2)


@pytest.mark.parametrize("dim, keepdim", [(None, False), (0, True), ((0, 2), False)])
def test_derivatives(dim: int | tuple[int, ...] | None, keepdim: bool, device: torch.device) -> None:
    mean = partial(OPS.mean_exact, dim=dim, keepdim=keepdim)
    for dtype in (torch.float64, torch.complex128):
        x = random_values(60, dtype).view(3, 4, 5).to(device).requires_grad_()
        assert gradcheck(mean, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
        assert gradgradcheck(lambda t: mean(t).square(), x)
        (ours,), (theirs,) = (
            torch.autograd.grad(f(x).abs().sum(), x) for f in (mean, partial(reduce_ops.mean, dim=dim, keepdim=keepdim))
        )
        torch.testing.assert_close(ours, theirs)


def test_vmap_meta_and_compile(device: torch.device) -> None:
    x = random_values(5 * 6 * 70, torch.float32).view(5, 6, 70).to(device)
    for in_dim in (0, 1, 2):
        for dim in (None, 0, (0, 1)):
            function = partial(mean_exact, dim=dim)
            samples = torch.stack([function(sample) for sample in x.unbind(in_dim)])
            assert_same_bits(torch.func.vmap(function, in_dims=in_dim)(x), samples)
    states = exact_state(x, 2)
    rounded = partial(exact_round, dtype=torch.float32, count=70)
    assert_same_bits(torch.vmap(rounded)(states), rounded(states))
    meta = OPS.mean_exact(torch.empty(2, 3, 2**40, device="meta", dtype=torch.bfloat16), (0, 2), True)
    assert meta.shape == (1, 3, 1) and meta.dtype == torch.bfloat16
    for operator, arguments in ((OPS.mean_exact.default, (x,)), (OPS.mean_exact.dim_IntList, (x, 1))):
        torch.library.opcheck(operator, arguments)
    torch.library.opcheck(OPS.exact_round.default, (states,), {"dtype": torch.float32, "count": 70})
