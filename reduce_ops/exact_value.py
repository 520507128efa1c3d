"""The sum of a tensor as a Python fraction, and how far a rounded sum is from it: what `bench exact` checks by.

Nothing here comes from the operators. An element is an integer times a power of two that its exponent field names, so
the integers of each exponent are added up, then shifted and added as Python integers. `torch.bincount` adds in float64,
which is exact here: 2**24 parts of 27 bits stay below 2**51.
"""

import math
from fractions import Fraction

import torch
from torch import Tensor

_CHUNK = 2**24
_PART = 27  # bits


def exact_sum(x: Tensor) -> Fraction:
    """Return the sum of all elements of a float tensor, none of which is an infinity or a NaN."""
    x = x.flatten()
    if x.dtype.itemsize < 4:
        x = x.float()
    stored = 23 if x.dtype == torch.float32 else 52  # bits of the significand
    width = torch.int32 if x.dtype == torch.float32 else torch.int64
    fields = 2 ** (8 * x.dtype.itemsize - 1 - stored)
    total = 0
    for chunk in x.split(_CHUNK):
        bits = chunk.view(width)
        field = (bits >> stored) & (fields - 1)
        significand = (bits & (2**stored - 1)) | ((field != 0).to(width) << stored)
        sign = 1 - 2 * (bits < 0).to(width)
        for low in range(0, stored + 1, _PART):
            part = sign * ((significand >> low) & (2**_PART - 1))
            sums = torch.bincount(field, part.double(), minlength=fields).tolist()
            total += sum(int(value) << (max(e, 1) - 1 + low) for e, value in enumerate(sums) if value)
    return Fraction(total, 2 ** (fields // 2 - 2 + stored))  # over 2**149, 2**1074: the unit of subnormal numbers


def spacing(value: Fraction, dtype: torch.dtype) -> Fraction:
    """Return the unit in the last place of numbers of a dtype that are about as large as a value."""
    info = torch.finfo(dtype)
    least = Fraction(info.smallest_normal) * Fraction(info.eps)
    if not value:
        return least
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    return max(least, Fraction(2) ** exponent * Fraction(info.eps))


def nearest(value: Fraction, dtype: torch.dtype) -> float:
    """Return a value rounded to a dtype, to nearest, ties to even: an infinity from half a unit past the largest on."""
    unit = spacing(value, dtype)
    rounded = round(value / unit) * unit
    if abs(rounded) > Fraction(torch.finfo(dtype).max):
        return math.copysign(math.inf, rounded)
    return float(rounded)


def error_in_ulps(result: float, value: Fraction, dtype: torch.dtype) -> float | None:
    """Return how far a result is from a value, in units in the last place of the value; None if it is not finite."""
    return float(abs(Fraction(result) - value) / spacing(value, dtype)) if math.isfinite(result) else None
