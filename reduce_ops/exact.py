"""Exact sums, means and norms: those of real numbers, rounded once, and the states in which sums can be merged."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from reduce_ops import _library
from reduce_ops.canonical import dims

_library.load("reduce_ops")
_sum_exact_dims = torch.ops.reduce.sum_exact.dim_IntList
_mean_exact_dims = torch.ops.reduce.mean_exact.dim_IntList
_norm_exact = torch.ops.reduce.vector_norm_exact.default
_norm_exact_out = torch.ops.reduce.vector_norm_exact.out
_state_dims = torch.ops.reduce.exact_state.dim_IntList
_round = torch.ops.reduce.exact_round.default


def sum_exact(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Sum a tensor, or dimensions of it, exactly: add as real numbers do, then round to nearest even once.

    There is no order of addition to choose, so the result has the same bits on every device, in every run and at any
    strides, batch, number of threads or permutation of the elements (NaN payloads aside), and an error of at most half
    a unit in the last place. Special values are those of an IEEE 754 sum: a NaN, or both infinities, make a NaN; one
    infinity stays; the result overflows only if the exact sum, rounded, does; a sum of nothing but -0.0 is -0.0, and
    any other sum of 0, also that of no elements, is +0.

    >>> reduce_ops.sum_exact(torch.tensor([1e30, 1.0, -1e30]))
    tensor(1.)

    Args:
        x: Dense tensor of any shape and strides, on a CPU or a CUDA device: bool, any integer dtype, float8_e4m3fn,
            float8_e5m2, float16, bfloat16, float32, float64 or complex. The two parts of a complex number are two sums.
            Conjugated and negated views are copied, and so are integers if ``dtype`` is a float or complex.
        dim: The dimension or dimensions to sum over; all of them if None or empty.
        keepdim: Whether the result keeps the dimensions that were summed, with size 1.
        dtype: The dtype of the result. Elements are not converted to it before they are added: it says what the exact
            sum is rounded to. (Beyond its largest number float8_e4m3fn has no infinity, but what ``Tensor.to`` makes of
            one.) If it is an integer dtype, or bool, the result is that of ``reduce_ops.sum``.

    Returns:
        A tensor of the kept dimensions on the device of ``x``. Its dtype is ``dtype``, or else int64 for bool and
        integers (a sum that wraps, as that of ``reduce_ops.sum``), float32 for float8, and the dtype of ``x`` for
        everything else. Its gradient is that of any sum, the gradient of the result for each element.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``dim`` names a dimension twice, ``dtype`` is real and ``x`` complex, or an integer's where ``x``
            requires a gradient, or memory ran out.
    """
    return _sum_exact_dims(x, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]


def mean_exact(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Take the mean of a tensor, or of dimensions of it, exactly: that of real numbers, rounded to nearest even once.

    It is the exact sum divided by the number of elements, in integers, before it is rounded. So nothing overflows or
    underflows on the way, and the result has the same bits wherever that of `sum_exact` has.

    >>> reduce_ops.mean_exact(torch.tensor([3e38, 3e38, 3e38, -3e38]))
    tensor(1.5000e+38)

    Args:
        x: Tensor, as `sum_exact` takes it. Integers and bool need a ``dtype``, and do not wrap.
        dim: The dimension or dimensions to take the mean over; all of them if None or empty.
        keepdim: Whether the result keeps them, with size 1.
        dtype: The dtype of the result, a floating point or complex one. Elements are not converted to it.

    Returns:
        A tensor of the kept dimensions on the device of ``x``. Its dtype is ``dtype``, or else float32 for float8 and
        the dtype of ``x`` for everything else. The mean of no elements is NaN. Its gradient is that of any mean.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``x`` has integers and no ``dtype`` is given, ``dtype`` is an integer's, or what is an error of
            `sum_exact`, too.
    """
    return _mean_exact_dims(x, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]


def vector_norm_exact(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute the norm of a tensor, or of dimensions of it, exactly: that of real numbers, rounded once.

    For ``ord=2`` it is the square root of the exact sum of squares, for ``ord=1`` the exact sum of absolute values.
    Squares are integers of twice the bits, so nothing overflows or underflows on the way, and the result has the same
    bits wherever that of `sum_exact` has: on every device, for any order or split of the elements.

    >>> reduce_ops.vector_norm_exact(torch.tensor([3e30, 4e30]))
    tensor(5.0000e+30)

    Args:
        x: Tensor, as `sum_exact` takes it. Bool and integers of up to 32 bits need a ``dtype``; those of 64 bits are
            refused.
        ord: 2 or 1. Complex numbers have ``ord=2`` only: the squares of both parts are added up.
        dim: The dimension or dimensions to take the norm over; all of them if None or empty.
        keepdim: Whether the result keeps them, with size 1.
        dtype: What the norm is rounded to: a floating point dtype or, if ``x`` is complex, a complex one, of which the
            result has the real one. Elements are not converted to it.
        out: Tensor for the result, as for `sum`.

    Returns:
        A tensor of the kept dimensions on the device of ``x``, or ``out``. Its dtype is the real one of ``dtype``, or
        else float32 for float8 and the real one of the dtype of ``x`` for everything else. A NaN makes a NaN, an
        infinity without one an infinity; of no elements it is 0. Its gradient is that of `vector_norm`.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``ord`` is another number, ``x`` has integers of 64 bits, or others and no ``dtype`` is given,
            ``dtype`` is complex and ``x`` is not, or the other way round, or what is an error of `sum_exact`, too.
    """
    if type(ord) is not int and type(ord) is not float:  # NumPy's numbers, 0-dim tensors
        ord = float(ord)
    if out is not None:
        return _norm_exact_out(x, ord, dims(dim), keepdim, dtype=dtype, out=out)  # type: ignore[no-any-return]
    return _norm_exact(x, ord, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]


Terms = Literal["elements", "magnitudes", "squares"]
"""What a state is the sum of."""


def exact_state(
    x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, of: Terms = "elements"
) -> Tensor:
    """Return the exact sum of a tensor, or of dimensions of it, before it is rounded.

    States are merged by adding them as the integers that they are: ``a + b``, ``running += state`` over micro-batches
    and ``torch.distributed.all_reduce(state)`` lose nothing, in whatever order. ``exact_round`` of the result is
    ``sum_exact`` of all elements. A running sum starts from zeros, which are the state of no elements::

        total = torch.zeros_like(state_of_first_batch)
        for batch in batches:
            total += reduce_ops.exact_state(batch)
        reduce_ops.exact_round(total, dtype=torch.float32)

    Up to 2**30 states may be added up before a word could overflow; ``exact_round`` refuses more. A state is a row of W
    int64 words:

    ===== ===============================================================================================
    word  holds
    ===== ===============================================================================================
    0     how many tensors with elements were added up, times ``(tag << 32) + 1``
    1     how many of them have a sum of NaN
    2, 3  how many have a sum of +Inf, of -Inf
    4     how many hold an element other than -0.0
    5..   limbs, low to high: their sum, limb k times ``2**(32 * k + lowest)``, is that of the tensors with finite sums;
          of a tensor whose sum is no number all are 0
    ===== ===============================================================================================

    ================================================ === ====== ===== ==
    dtype of ``x``                                   tag lowest limbs W
    ================================================ === ====== ===== ==
    float8, float16, bfloat16, float32, and complex  1   -150   11    16
    float64, and complex128                          2   -1075  68    73
    bool and integers: word 1 is the int64 sum       3                2
    squares of float32 and less, and complex64       4   -300   20    25
    squares of float64, and complex128               4   -2150  134   139
    ================================================ === ====== ===== ==

    As it is returned, every limb but the last is in ``[0, 2**32)``, and the last, which is signed, holds the rest. So a
    state has the same bits however it was computed; after additions it may not be in that form.

    The state of integers is their int64 sum, wrapped, so what ``exact_round`` makes of it for a float ``dtype`` is that
    sum rounded. ``sum_exact(x, dtype=...)`` rounds the sum of the integers themselves; where states are wanted and sums
    may leave int64, convert first: ``exact_state(x.double())``, exact for integers of up to 53 bits.

    Args:
        x: As for ``sum_exact``.
        dim: The dimension or dimensions to sum over; all of them if None or empty.
        keepdim: Whether the result keeps the dimensions that were summed, with size 1.
        of: What is added up: the ``"elements"``, their ``"magnitudes"``, absolute values of real floats, whose states
            are those of such elements, or the ``"squares"`` of floats, in states of their own. A complex number counts
            as the squares of its two parts.

    Returns:
        int64, of the kept dimensions and W, on the device of ``x``. The states of complex elements are those of their
        parts: before W comes a dimension of size 2, the real part first. There is no gradient.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or its dtype has no sum.
        RuntimeError: ``dim`` names a dimension twice, or memory ran out.
        ValueError: ``of`` is something else, or what integers, or complex numbers, do not have.
    """
    return _state_dims(x, dims(dim), keepdim, of=of)  # type: ignore[no-any-return]


def exact_round(state: Tensor, *, dtype: torch.dtype, count: int = 1, root: bool = False) -> Tensor:
    """Round the sums that ``exact_state`` returned, or that were added up from such, to nearest even.

    With ``count``, the number of elements that were added up, the result is their mean, rounded once: ``mean_exact`` of
    all of them. With ``root`` it is the square root of a sum of squares, rounded once: ``vector_norm_exact``.

    >>> states = [reduce_ops.exact_state(torch.tensor(x)) for x in ([1e30, 1.0], [-1e30])]
    >>> reduce_ops.exact_round(states[0] + states[1], dtype=torch.float32)
    tensor(1.)

    Args:
        state: int64, of any shape and strides up to the last dimension, whose size says what was summed: 2 words for
            integers, 16 for floats of up to 32 bits, 73 for float64, 25 and 139 for the squares of these. For a complex
            ``dtype`` the dimension before it has size 2, as ``exact_state`` of complex numbers has it.
        dtype: Any dtype that ``sum_exact`` takes, whatever the states were computed from; an integer dtype for states
            of integers only, and a complex one for states of complex numbers only. A real ``dtype`` rounds the two
            parts of a complex number as two sums. A float or complex ``dtype`` for states of integers rounds their
            int64 sum, which may have wrapped; ``sum_exact`` of the integers with that ``dtype`` does not wrap.
        count: What the sums are divided by before they are rounded, up to 2**63 - 1. Other than 1 for a float or
            complex ``dtype`` only.
        root: Whether to take the square root, for states of squares and a ``count`` of 1.

    Returns:
        The sums, of the sizes of ``state`` without the last dimension (the last two if ``dtype`` is complex). On a GPU,
        where looking at a state would mean to wait for it, one of floats whose word 0 is none that up to 2**30 states
        of this layout add up to rounds to NaN, instead of the error, and one of integers is not checked.

    Raises:
        NotImplementedError: ``state`` is sparse, nested or quantized, or ``dtype`` has no sum.
        ValueError: ``count`` is less than 1, or not 1 with ``root`` or for an integer ``dtype``; ``state`` is not
            int64, its sizes are not those of states, or not of states for ``dtype`` or ``root``; or, on a CPU, word 0
            is none that up to 2**30 states of this layout add up to.
    """
    return _round(state, dtype=dtype, count=count, root=root)  # type: ignore[no-any-return]
