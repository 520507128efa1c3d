"""Sums of several tensors: ``transform_sum``, ``vecdot``, variances; their definitions by ``sum``, wherever sums go."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import reduce_ops
from oracle import accumulate_dtype, canonical_sum, result_dtype
from reduce_ops import std, std_mean, transform_sum, var, var_mean, vecdot
from reduce_ops.formulas import parse
from support import COMPLEX, FLOATS, assert_same_bits, needs_a_compiler, not_dense, random_values

R = torch.ops.reduce
Dims = int | Sequence[int] | None


def correctly_rounded(function: Callable[..., Any], *xs: torch.Tensor) -> torch.Tensor:
    """By NumPy, as torch.sqrt on a CPU is not (findings)."""
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.asarray(function(*(x.numpy() for x in xs))))


FUNCTIONS = {
    "abs": torch.abs,
    "isnan": torch.isnan,
    "min": lambda x, y: torch.minimum(x, torch.as_tensor(y, dtype=x.dtype)),
    "max": lambda x, y: torch.maximum(x, torch.as_tensor(y, dtype=x.dtype)),
    "sqrt": lambda x: correctly_rounded(np.sqrt, x),
    "square": lambda x: x * x,
    "where": lambda c, a, b: torch.where(c != 0, a, b),
}


def expected_sum(
    expression: str, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None, **operands: Any
) -> torch.Tensor:
    """The values of the expression by PyTorch, one operation at a time, and then `sum`."""
    tensors = [x for x in operands.values() if isinstance(x, torch.Tensor)]
    float8 = (torch.float8_e4m3fn, torch.float8_e5m2)
    dtypes = [torch.float32 if x.dtype in float8 else x.dtype for x in tensors]
    element = dtype or functools.reduce(torch.promote_types, dtypes)
    wide = accumulate_dtype(element)
    values = {
        name: x.cpu().to(wide) if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=wide)
        for name, x in operands.items()
    }
    result = eval(expression, {**FUNCTIONS, "__builtins__": {}}, values).to(wide)
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    return reduce_ops.sum(result.expand(shape), dim, keepdim).to(dtype or result_dtype(element))


def expected_var(x: torch.Tensor, dim: Dims = None, correction: float = 1, keepdim: bool = False) -> torch.Tensor:
    """In the accumulate dtype: not rounded to the dtype of x."""
    wide = x.cpu().to(accumulate_dtype(x.dtype))
    mean = reduce_ops.mean(wide, dim, keepdim=True)
    d = wide - mean
    n = x.numel() // max(1, mean.numel())
    total = reduce_ops.sum(d, dim, keepdim)
    squares = reduce_ops.sum(d * d, dim, keepdim) - total * total / n
    return torch.where(squares < 0, 0, squares) / max(0, n - correction)


def expected_std(*args: Any, **kwargs: Any) -> torch.Tensor:
    return correctly_rounded(np.sqrt, expected_var(*args, **kwargs))


EXPRESSIONS = [
    "x * y + x",
    "x - y",
    "square(x - y)",
    "where(x > y, x, -y)",
    "max(x, 0.5) * min(y, x)",
    "sqrt(abs(x)) / (abs(y) + 1)",
    "(x == y) + (x != y) * 2 + (x < y) + (x <= y) + (x >= y)",
    "where(isnan(x / y), 0, y)",
    "x",
]
VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x,
    lambda x: x.movedim(0, -1),
    lambda x: x[..., 1:],
    lambda x: x[..., ::2],
    lambda x: x[:, :1].expand_as(x),
    lambda x: x[:1].expand_as(x),
]
SHAPES = [(70, 129), (5, 4000), (1000, 8), (40, 3, 257), (6, 7, 30, 11), (9, 1), (1, 1), (3, 1024), (1024, 16)]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_of_all_elements(expression: str, device: torch.device) -> None:
    for n in (1, 2, 3, 31, 32, 33, 255, 257, 1023, 1024, 1025, 4097, 65_537, 2**20 + 3):
        x, y = (random_values(n + 3, torch.float32, seed=seed) for seed in (n, n + 1))
        for a, b in ((x[:n], y[:n]), (x[1 : n + 1], y[:n]), (x[1 : n + 1], y[3 : n + 3])):
            total = transform_sum(expression, x=a.to(device), y=b.to(device))
            assert_same_bits(total, expected_sum(expression, x=a, y=b), (expression, n))
    if expression == "x * y + x":  # an oracle that is not reduce.sum
        assert_same_bits(total, canonical_sum(a * b + a, dtype=torch.float32))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dtypes(dtype: torch.dtype, device: torch.device) -> None:
    for shape in ((70, 129), (3, 4096), (2000, 24)):
        x, y = (random_values(math.prod(shape), dtype, seed).view(shape) for seed in (1, 2))
        mask = random_values(math.prod(shape), torch.bool, 3).view(shape)
        for dim in (None, 0, 1):
            for expression in ("x * y + x", "where(mask, x, y)"):
                operands = {"x": x, "y": y, **({"mask": mask} if "mask" in expression else {})}
                there = {name: operand.to(device) for name, operand in operands.items()}
                total = transform_sum(expression, dim=dim, **there)
                assert_same_bits(total, expected_sum(expression, dim, **operands), (expression, shape, dim))


def test_integers(device: torch.device) -> None:
    for dtype in (torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64):
        x, y = (random_values(5000, dtype, seed).to(device) for seed in (1, 2))
        for expression in ("x * y - x", "where(x > y, -x, abs(y) * 3)", "max(x, y) + square(x) * square(y)"):
            total = transform_sum(expression, x=x, y=y)
            assert_same_bits(total, expected_sum(expression, x=x, y=y), (expression, dtype))
            assert total.dtype == torch.int64
        quotient = transform_sum("x / (abs(y) + 1)", x=x, y=y)
        assert quotient.dtype == torch.float32
        assert_same_bits(quotient, expected_sum("x / (abs(y) + 1)", dtype=torch.float32, x=x, y=y))
        assert transform_sum("x * 2.0", x=x).dtype == torch.float32
        assert_same_bits(
            transform_sum("x * y", x=x, y=y, dtype=torch.float64), expected_sum("x * y", dtype=torch.float64, x=x, y=y)
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_layouts(dtype: torch.dtype, device: torch.device) -> None:
    for shape in SHAPES:
        x, y = (random_values(math.prod(shape), dtype, seed).view(shape).to(device) for seed in (1, 2))
        for view in VIEWS:
            a = view(x)
            for b in (view(y), y if view(y).shape == y.shape else view(y).contiguous()):
                for dim in (None, 0, -1, (0, -1), list(range(1, len(shape)))):
                    total = transform_sum("x * y - x", x=a, y=b, dim=dim, keepdim=dim == 0)
                    expected = expected_sum("x * y - x", dim, dim == 0, x=a, y=b)
                    assert_same_bits(total, expected, (shape, a.stride(), b.stride(), dim))


def test_broadcasting(device: torch.device) -> None:
    x = random_values(6 * 50 * 40, torch.float32).view(6, 50, 40).to(device)
    others = [
        x[0, 0],
        x[0, :, :1],
        x[:, :1, :1],
        x[0, 0, 0],
        x[:1, :, :1],
        x.transpose(0, 1).contiguous().transpose(0, 1),
    ]
    for y in others:
        for dim in (None, 0, 1, 2, (0, 2), (1, 2)):
            total = transform_sum("(x - y) * y", x=x, y=y, dim=dim)
            assert_same_bits(total, expected_sum("(x - y) * y", dim, x=x, y=y), (y.shape, dim))
            assert_same_bits(
                transform_sum("(y - x) * y", y=y, x=x, dim=dim), transform_sum("(a - b) * a", a=y, b=x, dim=dim)
            )


def test_up_to_six_tensors_and_eight_numbers(device: torch.device) -> None:
    xs = {f"t{i}": random_values(3000, torch.float32, i).view(30, 100).to(device) for i in range(6)}
    expression = "+".join(f"{name} * {i + 1}.5" for i, name in enumerate(xs)) + "+ p * q"
    for dim in (None, 0, 1):
        total = transform_sum(expression, dim=dim, p=2.0, q=0.25, **xs)
        assert_same_bits(total, expected_sum(expression, dim, p=2.0, q=0.25, **xs))
    with pytest.raises(RuntimeError, match=r"there are 7 tensors; accepted are 1 to 6"):
        transform_sum("t0", **xs, t6=xs["t0"])


def test_many_dimensions(device: torch.device) -> None:
    x = random_values(2**14, torch.float32).to(device)
    a = x.view([2] * 14).permute(*range(0, 14, 2), *range(1, 14, 2))
    for dim in (None, [0, 3, 5, 13], list(range(7))):
        for y in (a, x.view([2] * 14)):
            assert_same_bits(transform_sum("x * y", x=a, y=y, dim=dim), expected_sum("x * y", dim, x=a, y=y))


def test_of_nothing(device: torch.device) -> None:
    x = torch.ones(0, 3, device=device)
    assert_same_bits(transform_sum("x + 1", x=x), torch.tensor(0.0))
    assert_same_bits(transform_sum("x + 1", x=x, dim=0), torch.zeros(3))
    assert transform_sum("x + 1", x=x, dim=1).shape == (0,)
    assert_same_bits(vecdot(x, x, 0), torch.zeros(3))
    assert var(x, 0).isnan().all()
    assert var(x, 1).shape == (0,)


def test_denormals_and_signed_zeros(device: torch.device) -> None:
    tiny = torch.full((1000,), 1e-30, device=device)
    assert_same_bits(transform_sum("x * y", x=tiny, y=tiny * 1e20), expected_sum("x * y", x=tiny, y=tiny * 1e20))
    assert transform_sum("x * 1e-10", x=tiny).item() > 0
    x = torch.tensor([-0.0], device=device)
    assert_same_bits(transform_sum("x", x=x), torch.tensor(-0.0))
    assert_same_bits(transform_sum("-x", x=x), torch.tensor(0.0))
    assert_same_bits(transform_sum("max(x, y)", x=x, y=-x), torch.tensor(0.0))
    assert_same_bits(transform_sum("min(x, y)", x=-x, y=x), torch.tensor(-0.0))
    small = torch.tensor([1e-20, 3.0], device=device)
    assert_same_bits(transform_sum("x * y * (x < 1)", x=small, y=small), torch.tensor(1e-20) * torch.tensor(1e-20))


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, torch.int32], ids=str)
def test_vecdot(dtype: torch.dtype, device: torch.device) -> None:
    for shape in ((1,), (33,), (5000,), (70, 129), (3, 40, 16)):
        x, y = (random_values(math.prod(shape), dtype, seed).view(shape).to(device) for seed in (1, 2))
        for dim in (None, 0, -1):
            for a, b in ((x, y), (x.conj(), y), (x, y.conj())) if dtype.is_complex else ((x, y),):
                wide = accumulate_dtype(dtype)
                p, q = (t.cpu().resolve_conj().to(wide) for t in (a, b))
                if dtype.is_complex:
                    real = p.real * q.real + p.imag * q.imag
                    products = torch.complex(real, p.real * q.imag - p.imag * q.real)
                else:
                    products = p * q
                expected = reduce_ops.sum(products, dim).to(result_dtype(dtype))
                assert_same_bits(vecdot(a, b, dim), expected, (shape, dim))
    if dtype == torch.float32:
        assert_same_bits(vecdot(x, x[0, 0]), vecdot(x, x[0, 0].expand_as(x)))  # broadcasts
    if dtype in (torch.float64, torch.complex128):
        torch.testing.assert_close(vecdot(x, y), torch.linalg.vecdot(x, y))
        for a, b, dim in ((x, y[:1], 1), (x[..., :1], y, -1), (x[0, 0], y, 0), (x[0, 0, 0], y[0, 0, 0], -1)):
            torch.testing.assert_close(vecdot(a, b, dim), torch.linalg.vecdot(a, b, dim=dim))


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_variances(dtype: torch.dtype, device: torch.device) -> None:
    result = torch.empty(0, dtype=dtype).real.dtype if dtype.is_complex else result_dtype(dtype)
    for shape in ((2,), (33,), (70_000,), (70, 129), (3, 40, 16), (2, 6000)):
        x = random_values(math.prod(shape), dtype, 5).view(shape)
        for dim in (None, 0, -1):
            for correction in (1, 0, 0.5):
                there = x.to(device)
                if dtype.is_complex:
                    parts = torch.view_as_real(x).movedim(-1, 0)
                    variance = expected_var(parts[0], dim, correction) + expected_var(parts[1], dim, correction)
                    deviation = correctly_rounded(np.sqrt, variance)
                else:
                    variance, deviation = expected_var(x, dim, correction), expected_std(x, dim, correction)
                if x.numel() == variance.numel() and correction >= 1:
                    continue
                why = (shape, dim, correction)
                assert_same_bits(var(there, dim, correction=correction), variance.to(result), why)
                assert_same_bits(std(there, dim, correction=correction), deviation.to(result), why)
                both = var_mean(there, dim, correction=correction, keepdim=True)
                assert_same_bits(both[0].view(variance.shape), variance.to(result), why)
                mean = reduce_ops.mean(there, dim, keepdim=True)
                assert_same_bits(both[1], mean, why)
                assert_same_bits(std_mean(there, dim, correction=correction)[0], deviation.to(result), why)


def test_variances_are_accurate(device: torch.device) -> None:
    x = torch.tensor([1e8, 1e8 + 8, 1e8 + 16], device=device)
    assert var(x).item() == 64
    assert var(torch.full((1000,), 0.1, device=device)).item() == 0
    assert std(torch.full((1001,), 1e-3, device=device)).item() == 0
    data = torch.randn(100_000, dtype=torch.float64, device=device, generator=torch.Generator(device).manual_seed(1))
    torch.testing.assert_close(
        var(data.float() + 1000), torch.var((data.float() + 1000).double()).float(), rtol=2e-7, atol=0
    )


def test_degrees_of_freedom_as_torch(device: torch.device, capfd: pytest.CaptureFixture[str]) -> None:
    for x in (torch.tensor([3.0]), torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 5.0]])):
        for correction in (1, 2, 3):
            for dim in (None, 0):
                there = x.to(device)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    ours = var(there, dim, correction=correction)
                said = capfd.readouterr().err + "".join(str(w.message) for w in caught)  # the first in PyTorch 2.11
                assert ("degrees of freedom is <= 0" in said) == (x.numel() // ours.numel() <= correction)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    theirs = torch.var(there, dim, correction=correction)
                torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_out(device: torch.device) -> None:
    x, y = (random_values(600, torch.float32, seed).view(20, 30).to(device) for seed in (1, 2))
    calls: list[Callable[..., torch.Tensor]] = [
        lambda **k: transform_sum("x * y", x=x, y=y, dim=1, **k),
        lambda **k: vecdot(x, y, **k),
        lambda **k: var(x, 1, **k),
        lambda **k: std(x, 1, **k),
    ]
    for call in calls:
        for out in (torch.empty(0, device=device), torch.empty(40, device=device)[::2]):
            assert call(out=out) is out
            assert_same_bits(out, call())
        with pytest.raises(RuntimeError, match="expected out to have dtype"):
            call(out=torch.empty(20, dtype=torch.float64, device=device))
        with pytest.raises(RuntimeError, match="requires grad"):
            call(out=torch.empty(20, device=device, requires_grad=True))


@pytest.mark.parametrize(
    ("expression", "column", "why"),
    [
        ("x * z", 5, "'z' is the name of no tensor or number; accepted are x, y, k"),
        ("x ** 2", 1, "'x ** 2' is not accepted"),
        ("x.sum()", 1, "'x.sum()' is not accepted"),
        ("x + y.T", 5, "'y.T' is not accepted"),
        ("  exp(x)", 3, "exp is no function that is known"),
        ("where(x, y)", 1, "where has 2 arguments; accepted are 3"),
        ("abs(x=y)", 1, "abs has keyword arguments"),
        ("x if y else k", 1, "'x if y else k' is not accepted"),
        ("x < y < 1", 1, "'x < y < 1' is not accepted"),
        ("x and y", 1, "'x and y' is not accepted"),
        ("x + 'a'", 5, "\"'a'\" is not accepted"),
        ("x + 1e999", 5, "inf is too large"),
        ("x + 99999999999999999999", 5, "is too large"),
        ("x[0]", 1, "'x[0]' is not accepted"),
        ("__import__('os')", 1, "__import__ is no function that is known"),
        ("(lambda: 0)()", 1, "is not accepted"),
        ("x +", 4, "invalid syntax"),
        ("x; y", 2, "invalid syntax"),
        ("", 1, "invalid syntax"),
    ],
)
def test_errors_of_expressions(expression: str, column: int, why: str) -> None:
    x = torch.ones(3)
    with pytest.raises(ValueError, match=r"transform_sum: column \d+: ") as error:
        transform_sum(expression, x=x, y=x, k=1.0)
    message = str(error.value)
    assert message.startswith(f"transform_sum: column {column}: ")
    assert why in message
    assert message.splitlines()[-1] == " " * (column + 1) + "^"


def test_other_errors(device: torch.device) -> None:
    x = torch.ones(2, 3, device=device)
    with pytest.raises(TypeError, match="y is of type str; accepted are tensors and Python's numbers"):
        transform_sum("x + y", x=x, y="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2002 characters"):
        transform_sum("x" + " " * 2001, x=x)
    with pytest.raises(ValueError, match="nested too deeply"):
        transform_sum("-" * 1999 + "x", x=x)
    with pytest.raises(ValueError, match="nested too deeply"):
        transform_sum("+".join("(x" for _ in range(13)) + ")" * 13, x=x)
    with pytest.raises(ValueError, match="one number too many; accepted are up to 8"):
        transform_sum("+".join(f"x * {i}.5" for i in range(9)), x=x)
    with pytest.raises(RuntimeError, match="there are 0 tensors"):
        transform_sum("1 + k", k=1.0)
    with pytest.raises(RuntimeError, match="must match the size"):
        transform_sum("x + y", x=x, y=torch.ones(4, device=device))
    with pytest.raises(RuntimeError, match="accepted are real dtypes"):
        transform_sum("x", x=x.to(torch.complex64))
    with pytest.raises(RuntimeError, match="dtype is Long, but the formula is one of Float"):
        transform_sum("x", x=x, dtype=torch.int64)
    with pytest.raises(IndexError):
        transform_sum("x", x=x, dim=2)
    for text, why in (
        *(("x0 add", "lacks a value"), ("x0 x0", "leaves 2 values"), ("x0 exp", "is unknown"), ("", "leaves 0 values")),
        *(("x1", "accepted are x0 to x0"), ("x0 x0 pair x0 add", "is behind pair"), ("x6", "is unknown")),
    ):
        with pytest.raises(ValueError, match=why):
            R.transform_sum([x], text)
    with pytest.raises(RuntimeError, match="x is Float and y is Double; accepted are two of one dtype"):
        vecdot(x, x.double())
    for name in ("var", "std", "var_mean", "std_mean"):
        with pytest.raises(RuntimeError, match=rf"{name}: self is Int; accepted are floating point and complex dtypes"):
            getattr(reduce_ops, name)(x.int())
        with pytest.raises(IndexError):
            getattr(reduce_ops, name)(x, 2)
    for kind, bad in not_dense(device).items():
        for call in (lambda t: vecdot(t, t), var, std_mean, lambda t: transform_sum("t", t=t)):
            accepted = "which has no sum" if "quantized" in kind else "accepted is a dense, strided tensor"
            with pytest.raises(NotImplementedError, match=f"{accepted}|accepted is a dense"):
                call(bad)


DIFFERENTIABLE: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda x, y: transform_sum("x * y + x", x=x, y=y, dim=1),
    lambda x, y: transform_sum("square(x - y) / (abs(y) + 1)", x=x, y=y),
    lambda x, y: transform_sum(
        "where(x > y, x * x, sqrt(abs(y))) + max(x, y) * min(x, 0.5)", x=x, y=y, dim=0, keepdim=True
    ),
    lambda x, y: transform_sum("x * y", x=x, y=y[:1], dim=-1),
    lambda x, y: vecdot(x, y),
    lambda x, y: vecdot(x, y, None),
    lambda x, y: vecdot(torch.complex(x, y), torch.complex(y, x)),
    lambda x, y: var(x * y, 1),
    lambda x, y: var(x, correction=0) * y.sum(),
    lambda x, y: std(x + y, 0, keepdim=True),
    lambda x, y: var_mean(x * y, 1),
    lambda x, y: std_mean(x * y, keepdim=True),
]


@pytest.mark.parametrize("which", range(len(DIFFERENTIABLE)))
def test_derivatives(which: int, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(which)
    x, y = (torch.randn(3, 4, dtype=torch.float64, generator=generator).to(device).requires_grad_() for _ in range(2))
    call = DIFFERENTIABLE[which]
    assert gradcheck(call, (x, y), check_forward_ad=True, check_batched_grad=True, check_undefined_grad=False)
    assert gradgradcheck(call, (x, y), check_fwd_over_rev=True)


def test_gradients_as_torch(device: torch.device) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        x, y = (random_values(500, dtype, seed).view(20, 25).to(device).requires_grad_() for seed in (1, 2))
        for ours, theirs in (
            (vecdot(x, y), (x.float() * y.float()).sum(-1)),
            (var(x, 1), torch.var(x.float(), 1)),
            (std(x), torch.std(x.float())),
            (transform_sum("x * y * y", x=x, y=y[:1]), (x.float() * y[:1].float() ** 2).sum()),
        ):
            wanted = (x, y) if ours.requires_grad and "y" else (x,)
            mine = torch.autograd.grad(ours.sum(), wanted, allow_unused=True)
            reference = torch.autograd.grad(theirs.sum(), wanted, allow_unused=True)
            for a, b in zip(mine, reference, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    torch.testing.assert_close(a, b, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-4)


def test_tangents(device: torch.device) -> None:
    x, y, t = (random_values(600, torch.float64, seed).view(20, 30).to(device) for seed in (1, 2, 3))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        dot = forward_ad.unpack_dual(vecdot(dual, y)).tangent
        assert_same_bits(dot, vecdot(t, y))
        mean = forward_ad.unpack_dual(var_mean(dual, 1)[1]).tangent
        assert_same_bits(mean, reduce_ops.mean(t, 1))


def test_vmap(device: torch.device) -> None:
    x, y = (random_values(5 * 20 * 30, torch.float32, seed).view(5, 20, 30).to(device) for seed in (1, 2))
    calls: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
        lambda a, b: transform_sum("x * y + x", x=a, y=b, dim=1),
        lambda a, b: transform_sum("x * y + x", x=a, y=b[0], keepdim=True),
        lambda a, b: vecdot(a, b),
        lambda a, b: var(a + b, 0),
        lambda a, b: std_mean(a * b)[0],
        lambda a, b: vecdot(a[0, 0], b[0, 0], None),
    ]
    for call in calls:
        each = torch.stack([call(a, b) for a, b in zip(x, y, strict=True)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a loop over the samples
            assert_same_bits(torch.func.vmap(call)(x, y), each)
        assert_same_bits(torch.func.vmap(call, in_dims=(1, 1))(x.transpose(0, 1), y.transpose(0, 1)), each)
        some = torch.stack([call(a, y[0]) for a in x])
        assert_same_bits(torch.func.vmap(call, in_dims=(0, None))(x, y[0]), some)
        both = torch.stack([torch.stack([call(a, b) for b in y]) for a in x])
        nested = torch.func.vmap(torch.func.vmap(call, in_dims=(None, 0)), in_dims=(0, None))
        assert_same_bits(nested(x, y), both)


def test_meta_and_opcheck(device: torch.device) -> None:
    x, y = (random_values(600, torch.float32, seed).view(20, 30).to(device).requires_grad_() for seed in (1, 2))
    assert R.transform_sum([x.to("meta"), y[:1].to("meta")], "x0 x1 mul", 1, True).shape == (20, 1)
    assert [t.shape for t in R.var_mean(x.to("meta"), 0)] == [(30,), (30,)]
    torch.library.opcheck(R.transform_sum.default, ([x, y[:1]], "x0 x1 mul x0 add", [1]))
    torch.library.opcheck(R._var_mean.default, (x, [0], 1.0, True, True))


def test_override(device: torch.device) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.int32):
        x, y = (random_values(5000, dtype, seed).to(device) for seed in (1, 2))
        calls = {
            "dot": lambda a, b: torch.dot(a, b),
            "vdot": lambda a, b: torch.vdot(a, b),
            "linalg_vecdot": lambda a, b: torch.linalg.vecdot(a.view(50, 100), b.view(50, 100), dim=0),
        }
        for name, call in calls.items():
            conjugate = x.conj() if name == "dot" else x  # which vecdot conjugates once more
            a, b = (x.view(50, 100), y.view(50, 100)) if name == "linalg_vecdot" else (conjugate, y)
            expected = vecdot(a, b, 0).to(dtype)
            with reduce_ops.override_aten(name):
                assert_same_bits(call(x, y), expected, (name, dtype))
        if not dtype.is_floating_point and not dtype.is_complex:
            continue
        matrix = x.view(50, 100)
        for name, ours in (("var", var), ("std", std), ("var_mean", var_mean), ("std_mean", std_mean)):
            with reduce_ops.override_aten(name):
                results = getattr(torch, name)(matrix, 1, correction=0), getattr(torch, name)(x)
            for result, expected in zip(results, (ours(matrix, 1, correction=0), ours(x)), strict=True):
                pairs = zip(result, expected, strict=True) if "mean" in name else ((result, expected),)
                for one, other in pairs:
                    assert_same_bits(one, other, (name, dtype))
    a, b = (t.float().requires_grad_() for t in (x, y))
    with reduce_ops.override_aten("linalg_vecdot", "dot", "var"):
        loss = torch.linalg.vecdot(a, b) + torch.dot(a, b) + torch.var(a)
        assert_same_bits(loss.detach(), (vecdot(a, b) + vecdot(a, b) + var(a)).detach())
    mine = torch.autograd.grad(loss, (a, b))
    theirs = torch.autograd.grad(torch.linalg.vecdot(a, b) + torch.dot(a, b) + torch.var(a), (a, b))
    torch.testing.assert_close(mine, theirs)
    with reduce_ops.override_aten("dot"), pytest.raises(RuntimeError, match="accepted are two of one size"):
        torch.dot(a, b[1:])
    with reduce_ops.override_aten("dot"), pytest.raises(RuntimeError, match="out has dtype Long, which cannot hold"):
        torch.dot(x.float(), y.float(), out=torch.empty((), dtype=torch.int64, device=device))


@needs_a_compiler
def test_override_of_compiled_variances(device: torch.device) -> None:
    x = random_values(64 * 3000, torch.float32).view(64, 3000).to(device)
    with reduce_ops.override_aten("var", "var_mean"):
        compiled = torch.compile(lambda x: (torch.var(x, 1), *torch.var_mean(x, 0)))(x)
    for one, other in zip(compiled, (var(x, 1), *var_mean(x, 0)), strict=True):
        assert_same_bits(one, other)


@needs_a_compiler
def test_compile(device: torch.device) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            transform_sum("x * y + k", x=x, y=y, k=0.5, dim=1),
            vecdot(x, y),
            var(x, 0),
            *std_mean(y, keepdim=True),
        )

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for n in (30, 77):
        x, y = (random_values(20 * n, torch.float32, seed).view(20, n).to(device) for seed in (1, 2))
        for ours, eager in zip(compiled(x, y), function(x, y), strict=True):
            assert_same_bits(ours, eager)
    a, b = (t.clone().requires_grad_() for t in (x, y))
    torch.stack([t.sum() for t in compiled(a, b)]).sum().backward()
    c, d = (t.clone().requires_grad_() for t in (x, y))
    torch.stack([t.sum() for t in function(c, d)]).sum().backward()
    torch.testing.assert_close((a.grad, b.grad), (c.grad, d.grad))


@needs_a_compiler
def test_numbers_of_compiled_functions(device: torch.device) -> None:
    compiled = torch.compile(lambda x, k: transform_sum("x * k", x=x, k=k), fullgraph=True, backend="aot_eager")
    x = torch.arange(4, device=device)
    for k in (1.5, 2.5, -3, 4, 5, True, 1.0):
        assert_same_bits(compiled(x, k), transform_sum("x * k", x=x, k=k), k)


@pytest.mark.gpu
def test_capture() -> None:
    x, y = (random_values(2**16, torch.float32, seed).view(64, 1024).cuda() for seed in (1, 2))

    def function() -> list[torch.Tensor]:
        return [transform_sum("x * y - y", x=x, y=y), vecdot(x, y), vecdot(x, y, 0), var(x, 1), std(x)]

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function()
    x.copy_(random_values(2**16, torch.float32, 3).view(64, 1024))
    graph.replay()
    for ours, eager in zip(results, function(), strict=True):
        assert_same_bits(ours, eager)


@pytest.mark.gpu
def test_past_32_bits() -> None:
    x = torch.ones(2**31 + 100, dtype=torch.int8, device="cuda")
    x[-1] = 3
    assert transform_sum("x * y", x=x, y=x).item() == 2**31 + 99 + 9
    assert transform_sum("x * y", x=x.view(-1, 4), y=x.view(-1, 4), dim=0).tolist()[:3] == [x.numel() // 4] * 3
    assert transform_sum("x * y", x=x.view(-1, 4), y=x.view(-1, 4), dim=1)[-1].item() == 12


def test_numbers_are_what_they_are() -> None:
    """Whatever was called before: 1 == 1.0 == True, and 0.0 == -0.0."""
    x = torch.arange(4)
    for k, dtype in ((1, torch.int64), (1.0, torch.float32), (True, torch.int64), (1.0, torch.float32)):
        assert transform_sum("x * k", x=x, k=k).dtype == dtype
    one = torch.ones(1)
    assert transform_sum("x / k", x=one, k=0.0) == math.inf
    assert transform_sum("x / k", x=one, k=-0.0) == -math.inf
    assert transform_sum("x * k", x=one, k=-2.5) == -2.5
    for k in range(3000):  # more than are remembered
        assert transform_sum("x * k", x=one, k=float(k)) == k
    with pytest.raises(ValueError, match="k is inf; accepted are integers below"):
        transform_sum("x * k", x=one, k=math.inf)
    total = transform_sum("+".join(["x * k"] * 9), x=one, k=0.5)  # one number, nine times
    assert total == 4.5


def test_formulas() -> None:
    assert parse("x * y + x", ("x", "y"), ()) == "x0 x1 mul x0 add"
    assert parse("-(a - 2) / k", ("a",), (("k", "0x1.0000000000000p-1"),)) == "x0 2 sub neg 0x1.0000000000000p-1 div"
    assert parse("where(c, +x, True)", ("x", "c"), ()) == "x1 x0 1 where"
