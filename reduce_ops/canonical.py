"""Sums and means in the canonical order: the same bits on every GPU and CPU, at any stride and number of threads."""

import operator
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from reduce_ops import _library

_library.load("reduce_ops")
_sum = torch.ops.reduce.sum.default
_sum_dims = torch.ops.reduce.sum.dim_IntList
_sum_out = torch.ops.reduce.sum.IntList_out
# What an operator's own __call__ does, without that call: 0.2 us of 1.3. Dynamo knows the operators only.
_eager_sum = getattr(_sum, "_op", _sum)
_eager_sum_dims = getattr(_sum_dims, "_op", _sum_dims)
_mean_dims = torch.ops.reduce.mean.dim_IntList
_mean_out = torch.ops.reduce.mean.IntList_out
_eager_mean_dims = getattr(_mean_dims, "_op", _mean_dims)
_nansum = torch.ops.reduce.nansum.default
_nansum_out = torch.ops.reduce.nansum.out
_eager_nansum = getattr(_nansum, "_op", _nansum)


def sum(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Sum a tensor, or dimensions of it, like ``torch.sum``, in an order that depends on nothing but their sizes.

    The elements of one output, in row-major order of the index of the reduced dimensions, are the leaves of a balanced
    binary tree; each node is the sum of its two children, or its left child where there is no right one::

        def tree_sum(x):
            while len(x) > 1:
                even = len(x) // 2 * 2
                x = np.concatenate([x[0:even:2] + x[1:even:2], x[even:]])
            return x[0]

    That is what ``sum_v0`` and ``sum_v1`` compute too. The result has the same bits on every device, in every run and
    at any strides, alignment, batch and number of threads (NaN payloads aside); its error grows with the logarithm of
    the number of elements. Strided input is not copied, but for what is named below.

    Args:
        x: Dense tensor of any shape and strides, on a CPU or a CUDA device: bool, any integer dtype, float8_e4m3fn,
            float8_e5m2, float16, bfloat16, float32, float64 or complex. Conjugated and negated views, complex32, and
            tensors of more than twelve dimensions that cannot be merged are copied on a GPU.
        dim: The dimension or dimensions to sum over; all of them if None or empty. Of a tensor of more than 64 none can
            be named, but ``keepdim`` keeps all of them, which ``torch.sum`` refuses unless ``dim`` is empty.
        keepdim: Whether the result keeps the dimensions that were summed, with size 1.
        dtype: The dtype that elements are converted to before they are added, and the dtype of the result. They are
            converted as they are read from floats up to 32 bits to float32 or float64, from bool and integers to int64,
            float32 or float64, and from complex64 to complex128; into a new tensor for any other pair.
        out: Tensor for the result, on the device of ``x``; it is resized, and may share memory with ``x`` or be ``x``.
            Without ``dtype`` the elements are converted to its dtype, with ``dtype`` it must have that one.

    Returns:
        A tensor of the kept dimensions on the device of ``x``, or ``out``. Its dtype is ``dtype``, or else int64 for
        bool and integers, float32 for float8, and the dtype of ``x`` for everything else. 16-bit floats are added in
        float32 and rounded once; integers wrap. The sum of no elements is 0.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``dim`` names a dimension twice, ``dtype`` is real and ``x`` complex, or an integer's where ``x``
            requires a gradient, ``out`` has another dtype or device, memory ran out, or an argument is of a type that
            the operator does not take.
    """
    if out is not None:
        return _sum_out(x, dims(dim), keepdim, dtype=dtype, out=out)  # type: ignore[no-any-return]
    if dtype is not None:
        return _sum_dims(x, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]
    if keepdim:
        return _sum_dims(x, dims(dim), keepdim)  # type: ignore[no-any-return]
    # What is left out need not be checked and converted: 0.1 us an argument.
    if is_dynamo_compiling():
        return _sum(x) if dim is None else _sum_dims(x, dims(dim))  # type: ignore[no-any-return]
    if dim is None:
        return _eager_sum(x)  # type: ignore[no-any-return]
    kind = type(dim)  # most often one of two that operators take as they are
    return _eager_sum_dims(x, dim if kind is int or kind is tuple else dims(dim))  # type: ignore[no-any-return]


def mean(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Take the mean of a tensor, or of dimensions of it, like ``torch.mean``: `sum`, divided by the number of elements.

    The sum is that of the canonical order, in its accumulate dtype (float32 for floats of 8 and 16 bits). There it is
    divided by the number of elements, and the quotient is rounded to the dtype of the result. So the mean of float16
    does not overflow where its sum would, and has the same bits wherever the sum has. It takes the time of the sum.

    Args:
        x: Tensor, as `sum` takes it. Integers and bool need a ``dtype``.
        dim: The dimension or dimensions to take the mean over; all of them if None or empty.
        keepdim: Whether the result keeps them, with size 1.
        dtype: A floating point or complex dtype, that elements are converted to before they are added, and the dtype of
            the result.
        out: Tensor for the result, as for `sum`.

    Returns:
        A tensor of the kept dimensions on the device of ``x``, or ``out``. Its dtype is ``dtype``, or else float32 for
        float8 and the dtype of ``x`` for everything else. The mean of no elements is NaN.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``x`` has integers and no ``dtype`` is given, ``dtype`` is an integer's, or what is an error of
            `sum`, too.
    """
    if out is not None:
        return _mean_out(x, dims(dim), keepdim, dtype=dtype, out=out)  # type: ignore[no-any-return]
    if dtype is not None or keepdim or is_dynamo_compiling():
        return _mean_dims(x, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]
    return _eager_mean_dims(x, dims(dim))  # type: ignore[no-any-return]


def nansum(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Sum a tensor, or dimensions of it, like ``torch.nansum``: `sum` with 0 in the place of each NaN, in one pass.

    Args:
        x: Tensor of a real dtype, as `sum` takes it.
        dim: The dimension or dimensions to sum over; all of them if None or empty.
        keepdim: Whether the result keeps them, with size 1.
        dtype: A real dtype, as for `sum`.
        out: Tensor for the result, as for `sum`.

    Returns:
        What `sum` returns. The gradient of an element that is NaN is 0.

    Raises:
        IndexError: ``x`` has no such ``dim``.
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``x`` or ``dtype`` is complex, or what is an error of `sum`, too.
    """
    if out is not None:
        return _nansum_out(x, dims(dim), keepdim, dtype=dtype, out=out)  # type: ignore[no-any-return]
    if dtype is not None or is_dynamo_compiling():
        return _nansum(x, dims(dim), keepdim, dtype=dtype)  # type: ignore[no-any-return]
    return _eager_nansum(x, dims(dim), keepdim)  # type: ignore[no-any-return]


def dims(dim: int | Sequence[int] | None) -> int | Sequence[int] | None:
    """Return dim as operators take it: while a graph is traced it may be symbolic, which they take in a list only."""
    if isinstance(dim, int):
        return [dim] if is_dynamo_compiling() else dim
    if hasattr(dim, "__index__"):  # NumPy's integers, 0-dim tensors
        return operator.index(dim)  # type: ignore[arg-type]
    return dim
