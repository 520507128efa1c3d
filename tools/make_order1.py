"""Writes reduce_ops/order1.json: the cases of `python -m reduce_ops verify`, and the hashes of their results.

    python tools/make_order1.py

The hashes are those of examples/order1.py, which is NumPy, so that no error of a kernel of this package can get into
the file. Cases may be added. One that stands in the file keeps its hash for ever: another hash is another order.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "reduce_ops" / "order1.json"

Case = dict[str, Any]

# exponents: the lowest biased exponent of "mixed" values, and the number of exponents. There are enough of them for the
# rounding of sums to show, but three of the largest float16s still have a finite sum.
FORMATS: dict[str, Case] = {
    "float8_e4m3fn": {"bits": 8, "mantissa": 3, "exponents": [1, 14], "nan": "7f"},
    "float8_e5m2": {"bits": 8, "mantissa": 2, "exponents": [1, 26], "nan": "7e"},
    "float16": {"bits": 16, "mantissa": 10, "exponents": [1, 28], "nan": "7e00"},
    "bfloat16": {"bits": 16, "mantissa": 7, "exponents": [107, 40], "nan": "7fc0"},
    "float32": {"bits": 32, "mantissa": 23, "exponents": [115, 24], "nan": "7fc00000"},
    "float64": {"bits": 64, "mantissa": 52, "exponents": [1011, 24], "nan": "7ff8000000000000"},
}
# A quiet and a signalling NaN, both infinities, both zeros, the smallest subnormal number, the largest one negated, the
# smallest normal number, the largest finite one and its negative. float8_e4m3fn has two NaNs and no infinity.
SPECIAL = {
    "float8_e4m3fn": "7f ff 80 00 01 87 08 7e fe",
    "float8_e5m2": "7e 7d 7c fc 80 00 01 83 04 7b fb",
    "float16": "7e00 7c01 7c00 fc00 8000 0000 0001 83ff 0400 7bff fbff",
    "bfloat16": "7fc0 7f81 7f80 ff80 8000 0000 0001 807f 0080 7f7f ff7f",
    "float32": "7fc00000 7f800001 7f800000 ff800000 80000000 00000000 00000001 807fffff 00800000 7f7fffff ff7fffff",
    "float64": "7ff8000000000000 7ff0000000000001 7ff0000000000000 fff0000000000000 8000000000000000 0000000000000000 "
    "0000000000000001 800fffffffffffff 0010000000000000 7fefffffffffffff ffefffffffffffff",
}
COMPLEX = ("complex32", "complex64", "complex128")
SHORT = ("float16", "bfloat16", "complex32")
INTEGERS = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
DTYPES = (*FORMATS, *COMPLEX, *INTEGERS)
COMMON = ("float32", "float64", "bfloat16", "complex64", "int32")  # These take every layout.
CORE = 6  # Every dtype takes so many layouts. Of the others, dtypes that are not common take every fifth.

# Beside powers of two: here kernels take more lanes, more loads, a second tile, a second block or a second thread.
SIZES = (
    *(0, 1, 2, 3, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097),
    *(16385, 65535, 65536, 65537, 131073, 2**20 - 1, 2**20, 2**20 + 1),
)
FLOAT32_SIZES = sorted({*SIZES, *(2**k + d for k in range(1, 21) for d in (-1, 0, 1)), 3 * 2**18, 2**21 + 1})


def contiguous(*size: int) -> tuple[list[int], list[int]]:
    stride, step = [], 1
    for n in reversed(size):
        stride.append(step)
        step *= max(n, 1)
    return list(size), stride[::-1]


def permuted(size: tuple[int, ...], order: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """The dimensions of a contiguous tensor, in another order."""
    sizes, strides = contiguous(*size)
    return [sizes[d] for d in order], [strides[d] for d in order]


def period(dtype: str, layout: tuple[list[int], list[int]], dim: list[int] | None) -> int:
    """Return the period with which three elements of a sum are followed by their negatives."""
    steps = [step for d, step in enumerate(layout[1]) if step > 0 and (dim is None or d in dim)]
    return 3 * min(steps, default=1) * (2 if dtype in COMPLEX else 1)


def case(
    dtype: str, layout: tuple[list[int], list[int]], dim: list[int] | None = None, offset: int = 0, **more: Any
) -> Case:
    size, stride = layout
    described: Case = {"operator": "sum", "dtype": dtype, "size": size, "stride": stride}
    if offset:
        described["offset"] = offset
    if dim is not None:
        described["dim"] = dim
    if dtype == "float8_e4m3fn" and "values" not in more and "to" not in more:
        described["values"] = "positive"  # sums of both signs stay so small that they are exact in float32
    # Additions round in float32. In a result of 16 bits that shows only where nearly all of the sum cancels.
    if more.get("to", dtype) in SHORT and dtype not in INTEGERS and "values" not in more:
        described["period"] = period(dtype, layout, dim)
    return described | more


Layout = tuple[tuple[list[int], list[int]], list[int] | None, int]


def layouts() -> Iterator[Layout]:
    """Yield layouts, the dimensions to sum over and the offset. Every dtype takes the first CORE of them."""
    yield contiguous(65, 33), [1], 0
    yield contiguous(5, 1025), [1], 0
    yield contiguous(600, 5), [0], 0
    yield contiguous(1000, 100), [0], 0
    yield permuted((257, 300), (1, 0)), None, 0
    yield contiguous(4, 3, 32, 32), [0, 2, 3], 0
    for rows in (
        *((300, 2), (301, 3), (64, 4), (129, 7), (64, 8), (100, 17), (48, 64), (33, 128), (9, 320), (9, 321)),
        *((3, 4097), (2, 20_001), (300, 520), (5, 0), (0, 5)),
    ):
        yield contiguous(*rows), [1], 0
    for columns in (
        *((1000, 2), (1025, 3), (513, 8), (700, 12), (520, 16), (514, 32)),  # narrow
        *((2, 600), (3, 601), (8, 1000), (33, 130), (64, 257)),  # of few rows
        *((257, 64), (129, 513), (4097, 33), (70, 1024), (20_000, 24)),
    ):
        yield contiguous(*columns), [0], 0
    yield contiguous(2, 300, 40), [1], 0
    yield contiguous(4, 129, 257), [1], 0
    # The order of elements runs across memory.
    for size in ((1024, 64), (7, 1000), (1000, 7), (4096, 3), (129, 513)):
        yield permuted(size, (1, 0)), None, 0
    yield permuted((4, 300, 50), (0, 2, 1)), [1, 2], 0
    yield permuted((6, 50, 70), (2, 0, 1)), [0, 2], 0
    yield permuted((6, 50, 70), (2, 0, 1)), [1, 2], 0
    yield permuted((6, 50, 70), (2, 0, 1)), [0, 1], 0
    yield permuted((15, 93, 17, 52), (3, 0, 2, 1)), [1, 2, 3], 0
    yield permuted((40, 17, 12, 9), (3, 1, 2, 0)), [0, 2], 0
    for size, order, dim in (
        *(((9, 32, 7), (1, 0, 2), None), ((32, 7, 9), (2, 0, 1), [0, 1])),  # along short lines
        *(((16, 16, 16), (0, 2, 1), None), ((100, 2, 64), (1, 2, 0), [1, 2])),  # by tiles of words of 16 bytes
        *(((22, 81, 64), (0, 2, 1), [1, 2]), ((63, 2, 16), (2, 0, 1), [0, 1])),
        *(((64, 8, 4), (0, 2, 1), None), ((4, 200, 3), (1, 2, 0), [0, 2])),  # by tiles of elements
        *(((40, 9, 96, 8), (2, 0, 1, 3), [0, 2]), ((9, 500, 31), (1, 2, 0), [1, 2])),  # by boxes
    ):
        yield permuted(size, order), dim, 0
    # Images, and the same with channels last.
    for dim in ([2, 3], [1]):
        yield contiguous(4, 3, 32, 32), dim, 0
    for dim in ([0, 2, 3], [2, 3], [1]):
        yield permuted((4, 14, 14, 6), (0, 3, 1, 2)), dim, 0
    yield contiguous(8, 32, 7, 7), [0, 2, 3], 0
    # Steps, offsets, rows with a gap behind them.
    yield ([5001], [2]), None, 0
    yield ([5001], [3]), None, 1
    yield ([4096], [1]), None, 1
    yield ([4097], [1]), None, 3
    yield ([70_001], [1]), None, 7
    yield ([50, 37], [64, 1]), [1], 0
    yield ([50, 64], [72, 1]), [0], 0
    yield ([50, 37], [61, 1]), None, 5
    yield ([40, 33], [70, 2]), [1], 0
    yield ([40, 33], [70, 2]), [0], 1
    yield ([300, 20], [1, 320]), [0], 2
    # Elements are read several times.
    yield ([5, 1000], [0, 1]), [1], 0
    yield ([5, 1000], [0, 1]), [0], 0
    yield ([1000, 5], [1, 0]), [1], 0
    yield ([1000], [0]), None, 3
    yield ([200, 33], [1, 1]), [1], 0
    yield ([200, 33], [1, 1]), None, 0
    # Many dimensions.
    for dim in ([1, 3], [0, 2, 4], [2], [0, 1, 4]):
        yield contiguous(3, 4, 5, 6, 7), dim, 0
    yield permuted((3, 4, 5, 6, 7), (4, 2, 0, 3, 1)), [1, 2, 4], 0
    for dim in ([0, 2, 4, 6, 8, 10, 12], list(range(14))):
        yield permuted((2,) * 14, tuple(reversed(range(14)))), dim, 0
    yield contiguous(), None, 0
    yield contiguous(3, 0, 4), [1], 0
    yield contiguous(3, 0, 4), [2], 0


def converts(dtype: str, to: str) -> bool:
    """Return whether order 1 has the conversion: see "Conversions" in docs/order.md."""
    if dtype in COMPLEX:
        return to in COMPLEX
    if to == "float8_e4m3fn":  # PyTorch's versions differ in what it cannot hold
        return False
    return dtype in INTEGERS or to not in INTEGERS or to in ("bool", "int32", "int64")


def cases() -> Iterator[Case]:
    for dtype in DTYPES:
        for n in FLOAT32_SIZES if dtype == "float32" else SIZES:
            yield case(dtype, contiguous(n))
    for number, dtype in enumerate(DTYPES):
        for i, (layout, dim, offset) in enumerate(layouts()):
            if i < CORE or dtype in COMMON or (i + number) % 5 == 0:
                yield case(dtype, layout, dim, offset)
    # The whole sum cancels. What is left is the rounding.
    for dtype in SHORT:
        yield case(dtype, contiguous(1002))
        yield case(dtype, contiguous(100_002))
        yield case(dtype, contiguous(20, 3006), [1])
        yield case(dtype, contiguous(606, 130), [0])
        yield case(dtype, permuted((300, 70), (1, 0)))
    for dtype in (*FORMATS, *COMPLEX):
        for values in ("special", "subnormal", "minus zero"):
            yield case(dtype, contiguous(1), values=values)
            yield case(dtype, contiguous(70, 33), [1], values=values)
            yield case(dtype, contiguous(33, 70), [0], values=values)
            yield case(dtype, contiguous(5000), values=values)
        yield case(dtype, contiguous(0), values="minus zero")
    for dtype in DTYPES:
        for to in DTYPES:
            if to != dtype and converts(dtype, to):
                yield case(dtype, contiguous(3, 1025), [1], to=to)
    # Kernels convert these pairs as they load them, and so take other paths.
    for dtype, to in (
        *(("bfloat16", "float32"), ("float16", "float32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float64")),
        *(("float32", "float64"), ("bool", "float32"), ("int8", "int32"), ("int64", "float32"), ("uint8", "float64")),
        *(("complex64", "complex128"), ("float32", "float16"), ("float64", "float32"), ("float64", "bfloat16")),
    ):
        yield case(dtype, contiguous(70_001), to=to)
        yield case(dtype, contiguous(300, 129), [0], to=to)
        yield case(dtype, permuted((257, 130), (1, 0)), to=to)
        if dtype not in INTEGERS:
            yield case(dtype, contiguous(70, 33), [1], values="special", to=to)
            yield case(dtype, contiguous(70, 33), [1], values="subnormal", to=to)
    for dtype in FORMATS:
        if dtype != "float32":
            yield case("float32", contiguous(5), values="minus zero", to=dtype)
        yield case(dtype, contiguous(70, 33), [1], values="special", to="bool")
    yield from means()
    yield from norms_and_extremes()
    yield from transforms()


def means() -> Iterator[Case]:
    """Yield the cases of the mean: what is a sum's is in those of the sum. Few, for a GPU compiles kernels for them."""
    for dtype in (*FORMATS, *COMPLEX):
        is_common = dtype in COMMON
        for n in (0, 1, 3, 257, 4097, 2**20 + 1) if is_common else (3, 4097):
            yield case(dtype, contiguous(n), operator="mean")
        for i, (layout, dim, offset) in enumerate(layouts()):
            if i == 2 or (is_common and i % 6 == 0):
                yield case(dtype, layout, dim, offset, operator="mean")
        for values in ("special", "subnormal", "minus zero"):  # subnormal: quotients are so, too
            yield case(dtype, contiguous(600, 5), [0], operator="mean", values=values)
            yield case(dtype, contiguous(4097), operator="mean", values=values)
    for dtype, to in (
        *(("int64", "float32"), ("bool", "float64"), ("uint8", "bfloat16"), ("int32", "complex64")),
        *(("bfloat16", "float32"), ("float32", "float16"), ("float64", "float32"), ("float8_e5m2", "float64")),
    ):
        yield case(dtype, contiguous(4097), operator="mean", to=to)


def norms_and_extremes() -> Iterator[Case]:
    """Yield the cases of the operators that came with the norms, few too."""
    operators: list[Case] = [{"operator": "vector_norm", "ord": order} for order in (2, 1, 0, "inf", "-inf")]
    operators += [{"operator": name} for name in ("nansum", "amax", "amin")]
    for operator in operators:
        of_norm = "ord" in operator
        dtypes = (*FORMATS, *(COMPLEX if of_norm else INTEGERS))
        if operator not in (operators[0], operators[5], operators[6]):  # a GPU compiles kernels for each dtype
            dtypes = ("float32", "bfloat16", "complex64" if of_norm else "int32")
        for dtype in dtypes:
            if dtype == "uint64" and operator["operator"] != "nansum":
                continue  # has no extremes
            for n in (1, 3, 257, 4097, 2**20 + 1) if dtype == "float32" else (4097,):
                yield case(dtype, contiguous(n), **operator)
            if dtype not in INTEGERS:
                for values in ("special", "subnormal", "minus zero"):
                    yield case(dtype, contiguous(4097), values=values, **operator)
        for layout, dim in (
            (contiguous(600, 5), [0]),
            (contiguous(70, 33), [1]),
            (permuted((257, 300), (1, 0)), None),
            (permuted((6, 50, 70), (2, 0, 1)), [0, 2]),
        ):
            yield case("float32", layout, dim, **operator)
            yield case("bfloat16", layout, dim, values="special", **operator)
            if of_norm:
                yield case("complex64", layout, dim, **operator)
        if not operator["operator"].startswith("am"):
            yield case("float32", contiguous(4097), to="float64", **operator)
            yield case("bfloat16", contiguous(4097), to="float32", **operator)
            yield case("uint8", contiguous(4097), to="float32", **operator)


def transforms() -> Iterator[Case]:
    """Yield the cases of sums of two operands, and of variances; few, for a GPU compiles a kernel for each kind."""

    def two(dtype: str, layout: Layout, other: tuple[list[int], int], **more: Any) -> Case:
        return case(dtype, *layout, other=list(other), **more)

    products: list[Case] = [{"operator": "vecdot"}, {"operator": "transform_sum", "expression": "x * y + x"}]
    others = ("where(x > y, x, -y)", "square(x - y) / (abs(y) + 1)", "sqrt(abs(x)) * max(y, 0.5) - min(x, y)")
    for operator in products:
        dtypes = DTYPES if operator == products[0] else (*FORMATS, "bool", "int8", "int64")
        for dtype in dtypes:
            if dtype == "uint64":
                continue  # has no products
            yield two(dtype, (contiguous(4097), None, 0), ([1], 1), **operator)
        for n in (0, 1, 3, 33, 1025, 65_537, 2**20 + 1):
            yield two("float32", (contiguous(n), None, 0), ([1], 3), **operator)
        for layout, other in (
            ((contiguous(600, 5), [0], 0), ([5, 1], 2)),
            ((contiguous(70, 33), [1], 0), ([33, 1], 0)),
            ((contiguous(70, 1024), [1], 0), ([1024, 1], 4)),
            ((contiguous(5000, 64), [0], 0), ([64, 1], 64)),
            ((contiguous(257, 300), [0], 0), ([1, 257], 0)),  # of which one is turned
            ((permuted((257, 300), (1, 0)), [1], 0), ([257, 1], 0)),
            ((contiguous(40, 129), [1], 0), ([0, 1], 7)),  # is the same in each row,
            ((contiguous(40, 129), [1], 0), ([1, 0], 7)),  # in each column,
            ((contiguous(40, 129), [0], 0), ([1, 0], 7)),
            ((permuted((6, 50, 70), (2, 0, 1)), [1], 0), ([300, 50, 1], 1)),
        ):
            yield two("float32", layout, other, **operator)
            yield two("bfloat16", layout, other, values="special", **operator)
    for expression in others:
        operator = {"operator": "transform_sum", "expression": expression}
        for dtype in ("float32", "float64", "bfloat16"):
            for values in ("mixed", "special", "subnormal", "minus zero"):
                yield two(dtype, (contiguous(4097), None, 0), ([1], 1), values=values, **operator)
        yield two("float32", (contiguous(600, 5), [0], 0), ([5, 1], 2), **operator)
    for name in ("var", "std"):
        for dtype in (*FORMATS,):
            for correction in (0, 1):
                yield case(dtype, contiguous(4097), operator=name, correction=correction)
            yield case(dtype, contiguous(70, 33), [1], operator=name, correction=1)
            yield case(dtype, contiguous(600, 5), [0], operator=name, correction=1, values="special")
        for n in (2, 3, 257, 65_537, 2**20 + 1):
            yield case("float32", contiguous(n), operator=name, correction=1)
        for layout, dim in ((permuted((257, 300), (1, 0)), None), (permuted((6, 50, 70), (2, 0, 1)), [0, 2])):
            yield case("float32", layout, dim, operator=name, correction=0.5)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("order1", ROOT / "examples" / "order1.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def formats() -> dict[str, Case]:
    return {name: fields | {"special": SPECIAL[name].split()} for name, fields in FORMATS.items()}


def text_of(hashed: list[Case]) -> str:
    """Return the file's text, with a case a line."""
    lines = ['{"order": 1,', '"formats": {']
    lines.append(",\n".join(f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in formats().items()))
    lines += ["},", '"cases": [', ",\n".join(json.dumps(case, separators=(",", ":")) for case in hashed), "]}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    result_hash = load_script().result_hash
    with np.errstate(all="ignore"):
        hashed = [described | {"hash": result_hash(described, formats())} for described in cases()]
    FILE.write_text(text_of(hashed))
    print(f"{FILE.name}: {len(hashed)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
