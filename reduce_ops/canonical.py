"""Sums in the canonical order: the same bits on every GPU and CPU, at any alignment, stride and number of threads."""

import torch
from torch import Tensor

from reduce_ops import _library

_library.load("reduce_ops")
_sum = torch.ops.reduce.sum.default
_sum_out = torch.ops.reduce.sum.out


def sum(x: Tensor, *, dtype: torch.dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sum all elements of ``x``, like ``torch.sum(x)``, in an order that depends on their number alone.

    The elements, in row-major order of their index, are the leaves of a balanced binary tree; each node is the sum of
    its two children, or its left child where there is no right one::

        def tree_sum(x):
            while len(x) > 1:
                even = len(x) // 2 * 2
                x = np.concatenate([x[0:even:2] + x[1:even:2], x[even:]])
            return x[0]

    That is what ``sum_v0`` and ``sum_v1`` compute too. The result has the same bits on every device, in every run and
    at any strides, alignment and number of threads (NaN payloads aside); its error grows with the logarithm of the
    number of elements. On a GPU one kernel launch reads every element once, without a copy of strided input.

    Args:
        x: Dense tensor of any shape and strides, on a CPU or a CUDA device: bool, any integer dtype, float8_e4m3fn,
            float8_e5m2, float16, bfloat16, float32, float64 or complex. Conjugated and negated views, complex32, and
            tensors of more than twelve dimensions that cannot be merged are copied on a GPU.
        dtype: The dtype that elements are converted to before they are added, and the dtype of the result.
        out: Tensor for the result, of the result's dtype and on the device of ``x``; it is resized to 0-dim, and may
            share memory with ``x``.

    Returns:
        A 0-dim tensor on the device of ``x``, or ``out``. Its dtype is ``dtype``, or else int64 for bool and integers,
        float32 for float8, and the dtype of ``x`` for everything else. 16-bit floats are added in float32 and rounded
        once; integers wrap. The sum of an empty tensor is 0.

    Raises:
        NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
        RuntimeError: ``dtype`` is real and ``x`` complex, ``out`` has another dtype or device, memory ran out, or ``x``
            is strided with more than 2**34 elements on a GPU.
    """
    if out is None:
        return _sum(x, dtype=dtype)  # type: ignore[no-any-return]
    return _sum_out(x, dtype=dtype, out=out)  # type: ignore[no-any-return]
