"""The reduction ladder: nine ways to sum, from the textbook baseline to registers and shuffles."""

import torch
from torch import Tensor

from reduce_ops import _library
from reduce_ops.rungs import LADDER, Rung

_library.load("reduce_ops")


_DOC = """Sum all elements of ``x`` with rung v{number}, "{title}".

{summary_sentence}.

Every block of threads turns its elements into one block sum; the same rung then sums the block sums, until one value
is left. The order of the additions depends on nothing but the number of elements{and_block_size}, so the CPU and every
GPU return the same bits (NaN payloads aside).

Args:
    x: Dense tensor of any shape and strides, on a CPU or a CUDA device: bool, any integer dtype, float8_e4m3fn,
        float8_e5m2, float16, bfloat16, float32, float64 or complex. At most 2**31 - 1 blocks' worth of elements.
    dtype: The dtype that elements are converted to before they are added, and the dtype of the result.{block_size_doc}

Returns:
    A 0-dim tensor on the device of ``x``. Its dtype is ``dtype``, or else int64 for bool and integers, float32 for
    float8, and the dtype of ``x`` for everything else. 16-bit floats are added in float32 and rounded once; integers
    wrap. The sum of an empty tensor is 0.

Raises:
    NotImplementedError: ``x`` is sparse, nested or quantized, or a dtype has no sum.
    RuntimeError: ``dtype`` is real and ``x`` complex, or an integer's where ``x`` requires a gradient, or memory ran
        out.{value_error_doc}

The schedule, round by round, is in ``csrc/ladder/schedule.cpp``, the kernel in ``csrc/ladder/v{number}_{file}.cuh``.
"""


def _make_sum(rung: Rung):  # type: ignore[no-untyped-def]  # ladder.pyi types the results
    op = getattr(torch.ops.reduce, rung.name)

    if len(rung.block_sizes) > 1:

        def function(x: Tensor, *, dtype: torch.dtype | None = None, block_size: int = 256) -> Tensor:
            return op(x, dtype=dtype, block_size=block_size)
    else:

        def function(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:  # type: ignore[misc]
            return op(x, dtype=dtype)

    sized = len(rung.block_sizes) > 1
    sizes = ", ".join(map(str, rung.block_sizes))
    function.__name__ = function.__qualname__ = rung.name
    function.__doc__ = _DOC.format(
        number=rung.number,
        title=rung.title,
        file=rung.title.replace(" ", "_"),
        summary_sentence=rung.summary[0].upper() + rung.summary[1:],
        and_block_size=" and ``block_size``" if sized else "",
        block_size_doc=f"\n    block_size: Threads a block, one of {sizes}." if sized else "",
        value_error_doc=f"\n    ValueError: ``block_size`` is not one of {sizes}." if sized else "",
    )
    return function


for _rung in LADDER:
    globals()[_rung.name] = _make_sum(_rung)


def block_sums(x: Tensor, version: int, *, dtype: torch.dtype | None = None, block_size: int | None = None) -> Tensor:
    """Return the block sums of rung ``version``: one pass of the ladder.

    Args:
        x: As for ``sum_v0 .. sum_v8``.
        version: The rung, 0 to 8.
        dtype: The dtype that elements are converted to before they are added.
        block_size: Threads a block, for the rungs that take it (``LADDER[version].block_sizes``).

    Returns:
        A 1-dim tensor with a sum for each block, in the dtype that sums accumulate in: float32 for 16-bit floats and
        float8, int64 for bool and integers, complex64 for complex32, else ``dtype`` or the dtype of ``x``. Empty if
        ``x`` is empty.

    Raises:
        ValueError: There is no such rung, or it does not take this ``block_size``.
        NotImplementedError, RuntimeError: As for ``sum_v0 .. sum_v8``.
    """
    if not isinstance(version, int) or not 0 <= version < len(LADDER):
        raise ValueError(f"block_sums: version={version!r} is not a rung; accepted are 0 to {len(LADDER) - 1}")
    rung = LADDER[version]
    op = getattr(torch.ops.reduce, f"block_sums_v{version}")
    if len(rung.block_sizes) > 1:
        return op(x, dtype=dtype, block_size=256 if block_size is None else block_size)  # type: ignore[no-any-return]
    if block_size not in (None, *rung.block_sizes):
        raise ValueError(f"block_sums: block_size={block_size!r} is not accepted by v{version}, which always has 256")
    return op(x, dtype=dtype)  # type: ignore[no-any-return]
