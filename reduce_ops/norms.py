"""Norms, largest and smallest elements: the same bits on every GPU and CPU, at any stride and number of threads."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from reduce_ops import _library
from reduce_ops.canonical import dims

_library.load("reduce_ops")
_norm = torch.ops.reduce.vector_norm.default
_norm_out = torch.ops.reduce.vector_norm.out
_amax, _amax_out = torch.ops.reduce.amax.default, torch.ops.reduce.amax.out
_amin, _amin_out = torch.ops.reduce.amin.default, torch.ops.reduce.amin.out
# What an operator's own __call__ does, without that call, as in canonical.py.
_eager_norm, _eager_amax, _eager_amin = (getattr(op, "_op", op) for op in (_norm, _amax, _amin))


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Compute a vector norm of a tensor, or of dimensions of it, like ``torch.linalg.vector_norm``, in one pass.

    ==========  ================================================
    ``ord``     result
    ==========  ================================================
    2           ``sqrt(sum(x * x))``
    1           ``sum(abs(x))``
    0           ``sum(x != 0)``, a number of the result's dtype
    inf, -inf   ``amax(abs(x))``, ``amin(abs(x))``
    ==========  ================================================

    Sums are in the canonical order of `sum`, in its accumulate dtype (float32 for floats of 8 and 16 bits). Each
    product and the square root are rounded there, and the root once more to the dtype of the result. So the norm has
    the same bits wherever the sum has. Squares of large elements overflow. The absolute value of a complex number is
    the norm of its two components, whose squares overflow, too, where PyTorch scales them. For ``ord=2`` components are
    added in one tree; for other orders the absolute values are stored first, in a tensor of the size of ``x``.

    Args:
        x: Tensor, as `sum` takes it. Integers and bool need a ``dtype``.
        ord: One of these five numbers. Others would need powers, of which no library promises the same bits.
        dim: The dimension or dimensions to take the norm over; all of them if None or empty.
        keepdim: Whether the result keeps them, with size 1.
        dtype: The dtype that elements are converted to first: a floating point one, or, if ``x`` is complex, a complex
            one.
        out: Tensor for the result, as for `sum`.

    Returns:
        A tensor of the kept dimensions on the device of ``x``, or ``out``. Its dtype is the real one of ``dtype``, or
        else float32 for float8 and the real one of the dtype of ``x`` for everything else. Of no elements it is 0.

    Raises:
        IndexError: ``x`` has no such ``dim``, or no elements along it and ``ord`` is inf or -inf. (A RuntimeError if it
            is empty and ``dim`` is not given.)
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``ord`` is another number, ``x`` has integers and no ``dtype`` is given, ``dtype`` is complex and
            ``x`` is not, or the other way round, or what is an error of `sum`, too.
    """
    if type(ord) is not int and type(ord) is not float:  # NumPy's numbers, 0-dim tensors
        ord = float(ord)
    if out is not None:
        return _norm_out(x, ord, dims(dim), keepdim, dtype=dtype, out=out)  # type: ignore[no-any-return]
    if dtype is not None or is_dynamo_compiling():
        return _norm(x, ord, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]
    return _eager_norm(x, ord, dims(dim), keepdim)  # type: ignore[no-any-return]


def amax(x: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Find the largest element of a tensor, or along dimensions of it, like ``torch.amax``.

    If one of the elements is NaN the result is NaN. ``torch.amax`` does not say which zero it returns; here 0.0 is
    larger than -0.0, so that the result has the same bits on every device and in any layout (NaN payloads aside).

    Args:
        x: Tensor of a real dtype but uint64, as `sum` takes it.
        dim: The dimension or dimensions to reduce; all of them if empty.
        keepdim: Whether the result keeps them, with size 1.
        out: Tensor of the dtype of ``x`` for the result, as for `sum`.

    Returns:
        A tensor of the kept dimensions and the dtype of ``x``, on its device, or ``out``. Its gradient goes to the
        elements that are equal to it, the same share to each.

    Raises:
        IndexError: ``x`` has no such ``dim``, or no elements along it.
        NotImplementedError: ``x`` is sparse, nested or quantized, or its dtype has no sum.
        RuntimeError: ``x`` is complex or of uint64, it is empty and ``dim`` is not given, or what is an error of `sum`.
    """
    if out is not None:
        return _amax_out(x, _listed(dim), keepdim, out=out)  # type: ignore[no-any-return]
    if is_dynamo_compiling():
        return _amax(x, _listed(dim), keepdim)  # type: ignore[no-any-return]
    return _eager_amax(x, _listed(dim), keepdim)  # type: ignore[no-any-return]


def amin(x: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Find the smallest element of a tensor, or along dimensions of it, like ``torch.amin``.

    As `amax` in all else: -0.0 is smaller than 0.0.
    """
    if out is not None:
        return _amin_out(x, _listed(dim), keepdim, out=out)  # type: ignore[no-any-return]
    if is_dynamo_compiling():
        return _amin(x, _listed(dim), keepdim)  # type: ignore[no-any-return]
    return _eager_amin(x, _listed(dim), keepdim)  # type: ignore[no-any-return]


def _listed(dim: int | Sequence[int]) -> int | Sequence[int]:
    listed = dims(dim)
    return () if listed is None else listed
