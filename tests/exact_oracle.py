"""Exact sums in Python integers, and how a real number is rounded to any format.

Written from IEEE 754 and the docstrings alone: nothing here comes from csrc/. A finite float is an integer times
2**-1074, so a sum of them is one too, whatever the dtype; `round_to` makes the bits of a format from such an integer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from oracle import result_dtype

UNIT = -1074  # every finite float of up to 64 bits is an integer times 2**UNIT


@dataclass(frozen=True)
class Format:
    """Precision with the leading bit, least and most exponent, and what a number beyond the largest becomes."""

    precision: int
    least: int
    most: int
    overflow: float = math.inf

    @property
    def largest(self) -> int:
        """In units; float8_e4m3fn has a NaN in place of what would be its largest number."""
        significand = 2**self.precision - (1 if self.overflow == math.inf else 2)
        return significand << (self.most - self.precision + 1 - UNIT)


FORMATS = {
    # It has no infinity; PyTorch 2.11 makes a NaN of one, newer ones the largest finite number.
    torch.float8_e4m3fn: Format(4, -6, 8, float(torch.tensor(math.inf).to(torch.float8_e4m3fn))),
    torch.float8_e5m2: Format(3, -14, 15),
    torch.float16: Format(11, -14, 15),
    torch.bfloat16: Format(8, -126, 127),
    torch.float32: Format(24, -126, 127),
    torch.float64: Format(53, -1022, 1023),
}
PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The dtype of the parts of a complex number."""


def total(x: np.ndarray) -> int:
    """The sum of finite float64 in units.

    Fewer than 100 are added one by one, which is faster; more by exponents: each significand has 53 bits, added up as
    two integers.
    """
    if len(x) < 100:
        ratios = map(float.as_integer_ratio, x.tolist())  # denominators are powers of two
        return sum(numerator << 1 - denominator.bit_length() - UNIT for numerator, denominator in ratios)
    fraction, exponent = np.frexp(x)
    significand = (fraction * 2.0**53).astype(np.int64)
    place = exponent + (-UNIT - 53)  # may be negative: a subnormal's last bits are zeros then
    sums = np.zeros((2, 2200), np.int64)
    np.add.at(sums[0], place + 60, significand >> 26)
    np.add.at(sums[1], place + 60, significand & (2**26 - 1))
    used = np.flatnonzero(sums.any(axis=0))
    return sum(((int(sums[0, i]) << 26) + int(sums[1, i])) << int(i) for i in used) >> 60


def nearest(number: int, step: int) -> int:
    """The multiple of `step` that is nearest to `number`, the even one of two."""
    quotient, rest = divmod(number, step)
    if 2 * rest > step or (2 * rest == step and quotient % 2 == 1):
        quotient += 1
    return quotient * step


def round_to(format: Format, number: int) -> float:
    """A number of units as the nearest of the format; not for 0, whose sign it does not have."""
    exponent = max(abs(number).bit_length() - 1 + UNIT, format.least)
    step = exponent - format.precision + 1 - UNIT  # log2 of the distance of neighbours, in units
    rounded = number if step <= 0 else nearest(number, 1 << step)
    sign = -1.0 if number < 0 else 1.0
    if abs(rounded) > format.largest:
        return math.copysign(format.overflow, sign)
    # Dividing integers rounds once; here nothing is left to round. A number that is rounded to 0 keeps its sign.
    return math.copysign(abs(rounded) / 2**-UNIT, sign)


def exact_sum(x: np.ndarray, dtype: torch.dtype) -> float:
    """The sum of float64, rounded to dtype once, with the special values of IEEE 754."""
    finite = np.isfinite(x)
    if not finite.all():
        specials = set(x[~finite].tolist())
        if len(specials) > 1 or math.isnan(*specials):
            return math.nan
        return math.copysign(FORMATS[dtype].overflow, *specials)
    number = total(x)
    if number == 0:
        return -0.0 if len(x) > 0 and (np.signbit(x) & (x == 0)).all() else 0.0
    return round_to(FORMATS[dtype], number)


def exact_sums(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """exact_sum of each row of a matrix of floats or integers, or of the parts of complex numbers."""
    if x.is_complex():
        parts = torch.view_as_real(x.resolve_conj().resolve_neg())
        sums = [exact_sums(part, PARTS[dtype]) for part in parts.unbind(-1)]
        return torch.view_as_complex(torch.stack(sums, -1))
    if dtype.is_complex:
        real = exact_sums(x, PARTS[dtype])
        return torch.view_as_complex(torch.stack([real, torch.zeros_like(real)], -1))
    if x.dtype.is_floating_point:
        sums = [exact_sum(row, dtype) for row in x.cpu().resolve_neg().double().numpy()]
    else:
        totals = [sum(row) for row in x.cpu().tolist()]
        sums = [round_to(FORMATS[dtype], number << -UNIT) if number else 0.0 for number in totals]
    return torch.tensor(sums, dtype=torch.float64).to(dtype)


def exact_sum_along(
    x: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """What reduce.sum_exact computes of floats, and of anything if dtype is none of integers."""
    dims = [dim] if isinstance(dim, int) else list(dim or range(x.dim()))
    reduced = sorted(d % x.dim() for d in dims) if x.dim() else []
    kept = [d for d in range(x.dim()) if d not in reduced]
    sizes = [x.shape[d] for d in kept]
    rows = x.permute(kept + reduced).reshape(math.prod(sizes), math.prod(x.shape[d] for d in reduced))
    sums = exact_sums(rows, dtype or result_dtype(x.dtype)).view(sizes)
    for d in reduced if keepdim else []:
        sums = sums.unsqueeze(d)
    return sums
