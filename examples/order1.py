"""Order 1 in NumPy: computes the hash of every case of reduce_ops/order1.json, and prints what differs.

    python examples/order1.py [FILE]

docs/order.md specifies the operators and the file. This script uses nothing of reduce_ops, so that both can be
compared. NumPy has neither bfloat16 nor float8. The script widens and rounds them by way of their bits.
"""

import functools
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

COMPONENT = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
# The bits of the largest finite number, for the dtypes that NumPy lacks.
LARGEST = {"bfloat16": 0x7F7F, "float8_e5m2": 0x7B, "float8_e4m3fn": 0x7E}


def codes(n: int, dtype: str, case: dict[str, Any], formats: dict[str, Any]) -> np.ndarray:
    """The bits of components 0 to n - 1."""
    i = np.arange(n, dtype=np.uint64)
    period = case.get("period", n + 1)
    odd = i // period % 2
    z = (i - odd * period + 1) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    if dtype not in formats:
        return (z & 1 if dtype == "bool" else z).astype(f"u{np.dtype(dtype).itemsize}")
    bits, mantissa, (first, count), special = (
        formats[dtype][key] for key in ("bits", "mantissa", "exponents", "special")
    )
    sign, fraction = z >> 63 << (bits - 1), z & ((1 << mantissa) - 1)
    mixed = sign | (first + (z >> 52 & 0x7FF) % count << mantissa) | fraction
    picked = np.array([int(code, 16) for code in special], np.uint64)[(z >> 36) % len(special)]
    code = {
        "mixed": mixed,
        "positive": mixed ^ sign,
        "special": np.where(z >> 32 & 15, mixed, picked),
        "subnormal": sign | fraction,
        "minus zero": z & 0 | 1 << (bits - 1),
    }[case.get("values", "mixed")]
    return (code ^ odd << (bits - 1)).astype(f"u{bits // 8}")


def widen(code: np.ndarray, dtype: str) -> np.ndarray:
    """The values of these bits, exactly."""
    if dtype == "bfloat16":  # the upper half of a float32
        return (code.astype(np.uint32) << 16).view(np.float32)
    if dtype == "float8_e5m2":  # the upper half of a float16
        return (code.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    if dtype == "float8_e4m3fn":  # the fields of a float16, but 2^8 times the value
        half = (code & 0x80).astype(np.uint16) << 8 | (code & 0x7F).astype(np.uint16) << 7
        return np.where(code & 0x7F == 0x7F, np.float32(np.nan), half.view(np.float16).astype(np.float32) * 256)
    return code.view(dtype)


def narrow(x: np.ndarray, dtype: str) -> np.ndarray:
    """The bits of x in this dtype. Floats of 16 and 8 bits are rounded to float32 before; integers wrap."""
    if dtype in ("float16", *LARGEST):
        x = x.astype(np.float32)
    if dtype not in LARGEST:
        x = x != 0 if dtype == "bool" else x.astype(dtype)
        return x.view(f"u{x.itemsize}")
    unsigned, sign = (np.uint16, 0x8000) if dtype == "bfloat16" else (np.uint8, 0x80)
    finite = widen(np.arange(LARGEST[dtype] + 1, dtype=unsigned), dtype).astype(np.float64)
    halfway = (finite + np.append(finite[1:], 2 * finite[-1] - finite[-2])) / 2  # between each number and the next
    low, high = (np.searchsorted(halfway, abs(x).astype(np.float64), side) for side in ("left", "right"))
    nearest = np.where(low % 2 == 0, low, high) + sign * np.signbit(x)  # low and high differ where x is halfway
    return np.where(np.isnan(x), sign - 1, nearest).astype(unsigned)


def tree_sum(x: np.ndarray) -> np.ndarray:
    """The tree of order 1, along the first dimension."""
    while len(x) > 1:
        even = len(x) // 2 * 2
        x = np.concatenate([x[0:even:2] + x[1:even:2], x[even:]])
    return x[0] if len(x) else np.zeros(x.shape[1:], x.dtype)


def extreme(x: np.ndarray, largest: bool) -> np.ndarray:
    """The largest or smallest along the first dimension; 0.0 is larger than -0.0."""
    found = np.max(x, axis=0) if largest else np.min(x, axis=0)
    zero = np.any((x == 0) & (np.signbit(x) != largest), axis=0)  # of the sign that wins
    return np.where((found == 0) & zero, x.dtype.type(0.0 if largest else -0.0), found)


FUNCTIONS = {"abs": abs, "isnan": np.isnan, "sqrt": np.sqrt, "square": np.square, "where": np.where} | {
    name: lambda a, b, largest=name == "max": extreme(np.stack(np.broadcast_arrays(a, b)), largest)
    for name in ("max", "min")
}


def reduce(case: dict[str, Any], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The results of x, and of another operand, in the accumulate dtype. The first dimension is reduced, the last has
    components."""
    operator, order, n = case["operator"], float(case.get("ord", 2)), len(x)
    if operator == "vecdot" and x.shape[-1] == 2:
        (a, b), (c, d) = np.moveaxis(x, -1, 0), np.moveaxis(y, -1, 0)
        return tree_sum(np.stack([a * c + b * d, a * d - b * c], -1))  # of conj(x) * y
    if operator in ("vecdot", "transform_sum"):
        values = eval(case.get("expression", "x * y"), FUNCTIONS, {"x": x, "y": y})
        return tree_sum(np.asarray(values).astype(x.dtype))
    if operator in ("var", "std"):
        count = x.dtype.type(n)
        d = x - tree_sum(x) / count
        squares = tree_sum(d * d) - tree_sum(d) * tree_sum(d) / count
        variance = np.where(squares < 0, x.dtype.type(0), squares) / x.dtype.type(max(0, n - case["correction"]))
        return variance if operator == "var" else np.sqrt(variance)
    if operator in ("amax", "amin"):
        return extreme(x, operator == "amax")
    if operator == "nansum":
        x = np.where(np.isnan(x), x.dtype.type(0), x)
    if operator == "vector_norm":
        if x.shape[-1] == 2 and order == 2:  # the components follow each other
            x = x.transpose(0, 2, 1).reshape(2 * n, -1, 1)
        elif x.shape[-1] == 2:
            magnitude = abs(x).max(-1) if order == 0 else np.sqrt(x[..., 0] * x[..., 0] + x[..., 1] * x[..., 1])
            x = magnitude[..., None]
        if math.isinf(order):
            return extreme(abs(x), order > 0)
        x = {0: (x != 0).astype(x.dtype), 1: abs(x), 2: x * x}[order]
    total = tree_sum(x)
    if operator == "mean":
        return total / x.dtype.type(n)
    return np.sqrt(total) if operator == "vector_norm" and order == 2 else total


def result_hash(case: dict[str, Any], formats: dict[str, Any]) -> str:
    """The hash that the result of a case has."""
    dtype, size = case["dtype"], case["size"]
    part, parts = COMPONENT.get(dtype, dtype), 2 if dtype in COMPONENT else 1
    reduced = sorted(case.get("dim", range(len(size))))
    kept = [d for d in range(len(size)) if d not in reduced]
    # Where the elements lie, and those of another operand; then the elements, the reduced dimensions first, their
    # components last.
    places = [(case["stride"], case.get("offset", 0)), *([case["other"]] if "other" in case else [])]
    indices = []
    for stride, offset in places:
        steps = [np.arange(n) * step for n, step in zip(size, stride, strict=True)]
        indices.append(np.asarray(functools.reduce(np.add.outer, steps, offset)))
    length = max((int(index.max()) + 1 for index in indices if index.size), default=0)
    storage = widen(codes(length * parts, part, case, formats), part).reshape(length, parts)
    x, y = (storage[index.transpose(reduced + kept)] for index in (indices[0], indices[-1]))
    if "to" in case:  # dtype=
        if case["to"] in COMPONENT and parts == 1:
            x, parts = np.concatenate([x, np.zeros_like(x)], axis=-1), 2
        part = COMPONENT.get(case["to"], case["to"])
        x = widen(narrow(x, part), part)
    # Reduce the components, each on its own, and convert the results.
    accumulate = "float64" if part == "float64" else "float32" if "float" in part else "int64"
    n, outputs = (math.prod(size[d] for d in dims) for dims in (reduced, kept))
    total = reduce(case, *(operand.reshape(n, outputs, operand.shape[-1]).astype(accumulate) for operand in (x, y)))
    keeps = "to" in case or case["operator"] in ("amax", "amin") or ("float" in part and "float8" not in part)
    result = part if keeps else accumulate
    code = narrow(total, result)
    if result in formats:
        code[np.isnan(widen(code, result))] = int(formats[result]["nan"], 16)
    return hashlib.sha256(code.astype(code.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16]


def main() -> int:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "reduce_ops" / "order1.json"
    document = json.loads(file.read_text())
    different = 0
    for case in document["cases"]:
        hashed = result_hash(case, document["formats"])
        if hashed != case["hash"]:
            different += 1
            print(f"{json.dumps(case)}: computed {hashed}")
    print(f"{len(document['cases'])} cases, of which {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
