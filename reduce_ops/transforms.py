"""Sums of what is computed of several tensors: expressions, dot products, variances. The same bits everywhere."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.compiler import assume_constant_result

from reduce_ops import _library
from reduce_ops.canonical import dims
from reduce_ops.formulas import parse, word_of

_library.load("reduce_ops")
_transform_sum = torch.ops.reduce.transform_sum.default
_transform_sum_out = torch.ops.reduce.transform_sum.out
_vecdot, _vecdot_out = torch.ops.reduce.vecdot.default, torch.ops.reduce.vecdot.out
_var, _var_out = torch.ops.reduce.var.default, torch.ops.reduce.var.out
_std, _std_out = torch.ops.reduce.std.default, torch.ops.reduce.std.out
_var_mean, _std_mean = torch.ops.reduce.var_mean.default, torch.ops.reduce.std_mean.default


@assume_constant_result  # type: ignore[untyped-decorator]
def _formula_of(expression: str, tensors: tuple[str, ...], numbers: tuple[tuple[str, str], ...]) -> str:
    """Parse it; a function of its own, as Dynamo looks into one that has a cache."""
    return parse(expression, tensors, numbers)


def transform_sum(
    expression: str,
    /,
    *,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
    **operands: Tensor | float,
) -> Tensor:
    """Sum an expression of named tensors, or dimensions of it, in one pass: nothing of its size is stored.

    >>> import torch, reduce_ops
    >>> x, y = torch.arange(4.0), torch.ones(4)
    >>> reduce_ops.transform_sum("x * y + x", x=x, y=y)
    tensor(12.)
    >>> reduce_ops.transform_sum("where(x > limit, x, 0)", x=x, limit=1.5)
    tensor(5.)

    The expression is one of Python, of the names of ``operands``, numbers, ``+ - * /``, unary minus, comparisons,
    ``where(condition, x, y)``, ``abs``, ``sqrt``, ``square``, ``isnan``, and ``min`` and ``max`` of two. Every
    operation is rounded once, in the accumulate dtype of `sum`: float32 for floats of 8 and 16 bits. A comparison is 1
    or 0, and a condition holds if it is not 0. ``min`` and ``max`` of a NaN are NaN. Integers wrap; with ``/``,
    ``sqrt`` or a number that is a float they are computed in the default dtype. The values are added in the canonical
    order of `sum`, so the result has the same bits on every device, at any strides. On a GPU a new expression is
    compiled when it is first needed, in half a second; another number in it, as another size, needs no new kernel.

    Args:
        expression: The expression, of up to 2,000 characters.
        dim: The dimension or dimensions to sum over, of what the tensors broadcast to; all of them if None or empty.
        keepdim: Whether the result keeps them, with size 1.
        dtype: The dtype of the result, in whose accumulate dtype the expression is computed.
        out: Tensor for the result, of its dtype; it is resized.
        **operands: One to six tensors of real dtypes but uint64, on one device, which broadcast against each other, and
            numbers of Python, of which the expression has up to eight that differ. No name may be one of the arguments
            above. Compiled code is compiled again for another number; a tensor without dimensions is none.

    Returns:
        A tensor of the kept dimensions on the device of the tensors, or ``out``. Its dtype is ``dtype``, or else int64
        for bool and integers, float32 for float8, and what the tensors' dtypes promote to for everything else, those of
        tensors without dimensions, too.

    Raises:
        IndexError: There is no such ``dim``.
        NotImplementedError: A tensor is sparse, nested or quantized, or its dtype has no sum.
        RuntimeError: The tensors do not broadcast, are on several devices, are complex, or too many, or ``dtype`` is
            complex, or an integer's though the expression has floats.
        TypeError: An operand is neither a tensor nor a number.
        ValueError: The expression has something that is not accepted, and the error shows the column; or it has more
            than 256 operations, operands and numbers, or more than 12 values at a time.
    """
    tensors = tuple(name for name, operand in operands.items() if isinstance(operand, Tensor))
    numbers = []
    for name, number in operands.items():
        if isinstance(number, Tensor):
            continue
        if not isinstance(number, (int, float)):
            raise TypeError(
                f"transform_sum: {name} is of type {type(number).__name__}; accepted are tensors and Python's numbers"
            )
        word = word_of(number)
        if word is None:
            raise ValueError(f"transform_sum: {name} is {number}; accepted are integers below 2**53 and finite floats")
        numbers.append((name, word))
    if not tensors:  # the dispatcher would not know where to go
        raise RuntimeError("transform_sum: there are 0 tensors; accepted are 1 to 6")
    formula = _formula_of(expression, tensors, tuple(numbers))
    values = [operands[name] for name in tensors]
    if out is not None:
        return _transform_sum_out(values, formula, dims(dim), keepdim, dtype=dtype, out=out)  # type: ignore[no-any-return]
    return _transform_sum(values, formula, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]


def vecdot(x: Tensor, y: Tensor, dim: int | None = -1, *, out: Tensor | None = None) -> Tensor:
    """Compute dot products along a dimension, like ``torch.linalg.vecdot``, in one pass.

    Each product is rounded in the accumulate dtype of `sum`, and they are added in its order, so a dot product has the
    same bits wherever the sum has. That of complex numbers conjugates ``x``.

    Args:
        x: Tensor, as `sum` takes it, but not of uint64.
        y: Tensor of the same dtype, of a shape that broadcasts with that of ``x``.
        dim: The dimension, of what they broadcast to; None for the dot product of all of both.
        out: Tensor for the result, of its dtype; it is resized.

    Returns:
        A tensor of the other dimensions on the device of ``x``, or ``out``. Its dtype is that of ``x``; int64 for
        integers, float32 for float8.

    Raises:
        IndexError: There is no such ``dim``.
        NotImplementedError: A tensor is sparse, nested or quantized, or its dtype has no sum.
        RuntimeError: The dtypes differ, or the shapes do not broadcast.
    """
    if out is not None:
        return _vecdot_out(x, y, dim, out=out)  # type: ignore[no-any-return]
    return _vecdot(x, y, dim)  # type: ignore[no-any-return]


def var(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = 1,
    keepdim: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the variance of a tensor, or along dimensions of it, like ``torch.var``, with the same bits everywhere.

    Of the differences ``d`` from the mean it is ``(sum(d * d) - sum(d) * sum(d) / n) / (n - correction)``, and no less
    than 0: the corrected two-pass form, whose second term makes up for the rounding of the mean. Sums are in the order
    of `sum`, in its accumulate dtype, in which all else is computed and rounded, too. Elements are read twice.

    Args:
        x: Tensor of a floating point or complex dtype, as `sum` takes it.
        dim: The dimension or dimensions to take the variance over; all of them if None or empty.
        correction: What the number of elements is reduced by to get the degrees of freedom. If these are not positive
            there is a warning (in PyTorch 2.11 on the standard error), and the result is what ``torch.var`` gives: NaN
            or infinity.
        keepdim: Whether the result keeps them, with size 1.
        out: Tensor for the result, of its dtype; it is resized.

    Returns:
        A tensor of the kept dimensions and the dtype of ``x`` (the real one of a complex dtype, float32 for float8) on
        its device, or ``out``.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or its dtype has no sum.
        RuntimeError: ``x`` has integers, or what is an error of `sum`.
    """
    if out is not None:
        return _var_out(x, dims(dim), correction=correction, keepdim=keepdim, out=out)  # type: ignore[no-any-return]
    return _var(x, dims(dim), correction=correction, keepdim=keepdim)  # type: ignore[no-any-return]


def std(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    correction: float | None = 1,
    keepdim: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the standard deviation, the square root of `var`, like ``torch.std``.

    The root is of the variance in the accumulate dtype, so that only the root is rounded to the dtype of ``x``.
    """
    if out is not None:
        return _std_out(x, dims(dim), correction=correction, keepdim=keepdim, out=out)  # type: ignore[no-any-return]
    return _std(x, dims(dim), correction=correction, keepdim=keepdim)  # type: ignore[no-any-return]


def var_mean(
    x: Tensor, dim: int | Sequence[int] | None = None, *, correction: float | None = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute `var` and `mean`, like ``torch.var_mean``; the mean is one that `var` needs anyway."""
    return _var_mean(x, dims(dim), correction=correction, keepdim=keepdim)  # type: ignore[no-any-return]


def std_mean(
    x: Tensor, dim: int | Sequence[int] | None = None, *, correction: float | None = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute `std` and `mean`, like ``torch.std_mean``; the mean is one that `std` needs anyway."""
    return _std_mean(x, dims(dim), correction=correction, keepdim=keepdim)  # type: ignore[no-any-return]
