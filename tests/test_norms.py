"""``reduce::vector_norm``, ``amax``, ``amin`` and ``nansum``: their definitions by ``sum``, wherever a sum goes.

``python -m reduce_ops verify`` compares more layouts with NumPy (tests/test_verify.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import reduce_ops
from oracle import accumulate_dtype, canonical_sum, result_dtype
from reduce_ops import amax, amin, nansum, override_aten, vector_norm
from support import COMPLEX, FLOATS, INTEGERS, assert_same_bits, needs_a_compiler, not_dense, random_values

R = torch.ops.reduce
INF = math.inf
ORDERS = (0, 1, 2, INF, -INF)
REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
Dims = int | Sequence[int] | None


def root(x: torch.Tensor) -> torch.Tensor:
    """The square root, correctly rounded, as torch.sqrt on a CPU is not (findings)."""
    return torch.from_numpy(np.asarray(np.sqrt(x.numpy())))


def magnitude(x: torch.Tensor) -> torch.Tensor:
    if not x.is_complex():
        return x.abs()
    squares = torch.view_as_real(x.resolve_conj()).square()
    return root(squares[..., 0] + squares[..., 1])


def leaves(x: torch.Tensor, ord: float) -> torch.Tensor:
    """What is summed, in the accumulate dtype."""
    if ord == 0:
        return (x != 0).to(REAL.get(x.dtype, x.dtype))
    if ord == 1:
        return magnitude(x)
    return x * x


def expected_norm(
    x: torch.Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> torch.Tensor:
    x = x.cpu().resolve_conj()
    element = dtype or x.dtype
    result = REAL.get(element, dtype or result_dtype(element))
    wide = x.to(element).to(accumulate_dtype(element))
    axes = tuple(range(x.dim())) if dim is None or dim == () else dim
    if ord in (INF, -INF):
        extreme = torch.amax if ord == INF else torch.amin
        return extreme(magnitude(wide), axes, keepdim).to(result)
    if ord == 2 and x.is_complex():
        axes = (axes,) if isinstance(axes, int) else axes
        parts = torch.view_as_real(wide)
        total = reduce_ops.sum(parts * parts, [*(d % max(1, x.dim()) for d in axes), x.dim()])
        if keepdim:
            total = total.view([1 if d in {a % x.dim() for a in axes} else n for d, n in enumerate(x.shape)])
        return root(total).to(result)
    total = reduce_ops.sum(leaves(wide, ord), axes, keepdim)
    return (root(total) if ord == 2 else total).to(result)


def ordered(x: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the values, in which -0.0 is less than 0.0."""
    if not x.is_floating_point():
        return x.long()
    bits = x.double().view(torch.int64)
    return torch.where(bits < 0, bits ^ 0x7FFF_FFFF_FFFF_FFFF, bits)


def expected_extreme(
    largest: bool, x: torch.Tensor, dim: int | Sequence[int] = (), keepdim: bool = False
) -> torch.Tensor:
    x = x.cpu()
    keys = (torch.amax if largest else torch.amin)(ordered(x), dim, keepdim)
    if not x.is_floating_point():
        return keys.to(x.dtype)
    bits = torch.where(keys < 0, keys ^ 0x7FFF_FFFF_FFFF_FFFF, keys)
    return bits.view(torch.float64).to(x.dtype)


VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x,
    lambda x: x.movedim(0, -1),
    lambda x: x[..., ::2],
    lambda x: x[:, :, None],
    lambda x: x.expand(3, *x.shape),
    lambda x: x.conj(),
    lambda x: -x,
]
SHAPES = [(70, 129), (5, 4000), (1000, 8), (40, 3, 257), (6, 7, 30, 11), (9, 1), (1, 1)]
LARGE = [(4, 70_001), (3000, 64), (2, 600, 64)]  # of several tasks


def shapes_of(dtype: torch.dtype) -> list[tuple[int, ...]]:
    return [*SHAPES, *LARGE] if dtype == torch.float32 else SHAPES


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_full_norms(dtype: torch.dtype, device: torch.device) -> None:
    for n in (1, 2, 3, 33, 257, 1025, 4097, 65_537, 2**20 + 3):
        x = random_values(n, dtype, seed=n)
        for ord in ORDERS:
            assert_same_bits(vector_norm(x.to(device), ord), expected_norm(x, ord), (n, ord))
    wide = x.to(accumulate_dtype(dtype))
    if not x.is_complex():  # an oracle that is not reduce.sum
        total = canonical_sum(wide * wide, dtype=wide.dtype)
        assert_same_bits(vector_norm(x.to(device)), root(total).to(result_dtype(dtype)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.float64], ids=str)
def test_norms_of_dimensions_and_layouts(dtype: torch.dtype, device: torch.device) -> None:
    for shape in shapes_of(dtype):
        x = random_values(torch.Size(shape).numel(), dtype).view(shape).to(device)
        for view in (view(x) for view in VIEWS):
            for dim in (None, 0, -1, (0, -1), list(range(1, view.dim()))):
                for ord in ORDERS:
                    norm = vector_norm(view, ord, dim, keepdim=ord == 2)
                    assert_same_bits(norm, expected_norm(view, ord, dim, ord == 2), (view.shape, ord, dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.bool, torch.int8], ids=str)
def test_extremes_of_dimensions_and_layouts(dtype: torch.dtype, device: torch.device) -> None:
    for shape in shapes_of(dtype):
        x = random_values(torch.Size(shape).numel(), dtype).view(shape).to(device)
        for view in (view(x) for view in VIEWS[: 7 if dtype.is_signed else 6]):
            for dim in ((), 0, -1, (0, -1), list(range(1, view.dim()))):
                for keepdim in (False, True):
                    why = (view.shape, dim, keepdim)
                    assert_same_bits(amax(view, dim, keepdim), expected_extreme(True, view, dim, keepdim), why)
                    assert_same_bits(amin(view, dim, keepdim), expected_extreme(False, view, dim, keepdim), why)


def test_full_extremes(device: torch.device) -> None:
    for dtype in (*INTEGERS, *FLOATS):
        if dtype == torch.uint64:
            continue  # refused: test_errors
        for n in (1, 2, 3, 33, 257, 1025, 4097, 65_537, 2**18 + 3):
            x = random_values(n, dtype, seed=n)
            assert_same_bits(amax(x.to(device)), expected_extreme(True, x), (dtype, n))
            assert_same_bits(amin(x.to(device)), expected_extreme(False, x), (dtype, n))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool], ids=str)
def test_nansum(dtype: torch.dtype, device: torch.device) -> None:
    for shape in SHAPES:
        x = random_values(torch.Size(shape).numel(), dtype).view(shape)
        if dtype.is_floating_point:
            x = torch.where(torch.rand(shape) < 0.2, torch.tensor(math.nan), x.float()).to(dtype)
        zeroed = torch.where(x.float().isnan(), torch.tensor(0.0), x.float()).to(dtype) if x.is_floating_point() else x
        for view in VIEWS[:5]:
            for dim in (None, 0, (0, -1)):
                wanted = reduce_ops.sum(view(zeroed), dim)
                assert_same_bits(nansum(view(x.to(device)), dim), wanted, (shape, dim))
    assert_same_bits(nansum(x.to(device), dtype=torch.float64), reduce_ops.sum(zeroed, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_zeros_and_nans(dtype: torch.dtype, device: torch.device) -> None:
    """One 0.0 among many -0.0, one NaN among numbers, wherever it is."""
    for n in (2, 3, 17, 33, 64, 257, 1025):
        zeros = torch.full((n, n), -0.0, dtype=dtype).fill_diagonal_(0.0).to(device)
        nans = torch.ones(n, n, dtype=dtype).fill_diagonal_(math.nan).to(device)
        both = torch.full((n,), -INF, dtype=dtype).to(device)
        both[n // 2] = INF
        for dim in (0, 1):
            assert not amax(zeros, dim).signbit().any()
            assert amin(-zeros, dim).signbit().all()
            for reduce in (amax, amin, vector_norm, partial(vector_norm, ord=INF), partial(vector_norm, ord=-INF)):
                assert reduce(nans, dim=dim).isnan().all()
            assert (vector_norm(nans, 0, dim) == n).all()
        assert not amax(zeros).signbit() and amin(-zeros).signbit() and amax(nans).isnan()
        assert amax(both) == INF and amin(both) == -INF and vector_norm(both, -INF) == INF
    assert not vector_norm(torch.tensor([-0.0], dtype=dtype, device=device), 1).signbit()
    assert nansum(torch.tensor([math.nan, -0.0], dtype=dtype, device=device)).signbit().item() is False


def test_many_dimensions(device: torch.device) -> None:
    x = random_values(1000, torch.complex64).view(*[1] * 69, 1000).to(device)
    for ord in ORDERS:
        assert_same_bits(vector_norm(x, ord), expected_norm(x.flatten(), ord))
    x64 = random_values(1000, torch.complex64).view(*[1] * 63, 1000).to(device)
    for ord in (1, 2):
        assert_same_bits(vector_norm(x64, ord, -1), expected_norm(x64.view(1, 1000), ord, -1).view(*[1] * 63))


def test_two_launches(device: torch.device) -> None:
    """Orders across memory leave nodes, which a second launch reads: it must not map them again."""
    views = [
        random_values(2**22, torch.float32).view(1024, 4096).t(),
        random_values(1 << 20, torch.float16)[::3],
        random_values(70 * 200 * 7, torch.float32).view(70, 200, 7).permute(2, 0, 1),
    ]
    for x in views:
        for ord in ORDERS:
            assert_same_bits(vector_norm(x.to(device), ord), expected_norm(x, ord))
    x = random_values(400_000, torch.float32).view(4, 100, 1000).permute(0, 2, 1)
    for ord in ORDERS:
        assert_same_bits(vector_norm(x.to(device), ord, (1, 2)), expected_norm(x, ord, (1, 2)))


@pytest.mark.parametrize("target", [*FLOATS, *COMPLEX], ids=str)
def test_dtype(target: torch.dtype, device: torch.device) -> None:
    for dtype in COMPLEX if target.is_complex else (*INTEGERS, *FLOATS):
        if torch.float8_e4m3fn in (target, dtype) and target != dtype:
            continue  # order 1 has no conversion to it
        x = random_values(1025, dtype).to(device)
        for ord in (1, 2):
            assert_same_bits(vector_norm(x, ord, dtype=target), expected_norm(x, ord, dtype=target), (dtype, ord))


def test_of_nothing(device: torch.device) -> None:
    empty = torch.empty(3, 0, device=device)
    for ord in (0, 1, 2):
        assert vector_norm(empty, ord).item() == 0 and vector_norm(empty, ord, 1).tolist() == [0, 0, 0]
    assert nansum(empty).item() == 0
    assert vector_norm(empty, INF, 0).shape == amax(empty, 0).shape == amin(empty, 0).shape == (0,)
    for reduce in (amax, amin, partial(vector_norm, ord=INF), partial(vector_norm, ord=-INF)):
        with pytest.raises(RuntimeError, match="self has no elements; accepted are dim= of dimensions that have some"):
            reduce(empty)
        with pytest.raises(IndexError, match="dim -1 of self has no elements"):
            reduce(empty, dim=(0, -1))
        with pytest.raises(IndexError, match="dim 1 of self has no elements"):
            reduce(empty.to("meta"), dim=1)


def test_as_torch(device: torch.device) -> None:
    x = random_values(6 * 70 * 8, torch.float64).view(6, 70, 8).to(device)
    c = random_values(6 * 70 * 8, torch.complex128).view(6, 70, 8).to(device)
    for dim in (0, 1, -1, (0, 2), [1]):
        for keepdim in (False, True):
            for ord in ORDERS:
                for y in (x, c, c.conj()[:, ::2]):
                    ours, theirs = vector_norm(y, ord, dim, keepdim), torch.linalg.vector_norm(y, ord, dim, keepdim)
                    torch.testing.assert_close(ours, theirs)
            torch.testing.assert_close(nansum(x, dim, keepdim), torch.nansum(x, dim, keepdim))
            assert torch.equal(amax(x, dim, keepdim), torch.amax(x, dim, keepdim))
            assert torch.equal(amin(x, dim, keepdim), torch.amin(x, dim, keepdim))


def test_out(device: torch.device) -> None:
    x = random_values(600, torch.float32).view(20, 30).to(device)
    out = torch.empty(0, device=device)
    for reduce in (vector_norm, nansum, amax, amin):
        wanted = reduce(x, dim=1)
        assert reduce(x, dim=1, out=out) is out
        assert_same_bits(out, wanted)
        apart = torch.empty(20, 2, device=device)[:, 0]
        assert_same_bits(reduce(x, dim=1, out=apart), wanted)
        itself = x.clone()
        assert_same_bits(reduce(itself, dim=1, out=itself), wanted)
        with pytest.raises(RuntimeError, match=r"\(\).*out="):
            reduce(x.clone().requires_grad_(), out=out)
        saved = torch.ones(20, device=device, requires_grad=True) * 2
        square = saved * saved
        with torch.no_grad():
            reduce(x, dim=1, out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            square.sum().backward()
    wide = torch.empty((), dtype=torch.float64, device=device)
    assert_same_bits(vector_norm(x, out=wide), expected_norm(x, dtype=torch.float64))
    assert_same_bits(vector_norm(x + 1j, out=wide), expected_norm(x + 1j, dtype=torch.complex128))
    assert vector_norm(x, np.int64(1)) == vector_norm(x, torch.tensor(1.0)) == vector_norm(x, 1)
    with pytest.raises(RuntimeError, match="amax: expected out to have dtype Float, but it has Double"):
        amax(x, out=wide)


def test_errors(device: torch.device) -> None:
    x = torch.ones(3, 4, device=device)
    for ord in (3, 0.5, -1, math.nan, 2 + 0j, 1j):
        with pytest.raises(RuntimeError, match="vector_norm: ord is .*; accepted are 0, 1, 2, inf and -inf"):
            R.vector_norm(x, ord)
    for dtype in INTEGERS:
        with pytest.raises(RuntimeError, match="vector_norm: self is .*; accepted are floating point and complex"):
            vector_norm(x.to(dtype))
        with pytest.raises(RuntimeError, match="vector_norm: dtype is .*; accepted are floating point and complex"):
            vector_norm(x, dtype=dtype)
    with pytest.raises(RuntimeError, match="vector_norm: dtype is ComplexFloat, but self is Float; accepted are"):
        vector_norm(x, dtype=torch.complex64)
    with pytest.raises(
        RuntimeError, match="vector_norm: dtype is Float, but self is ComplexFloat; accepted are complex"
    ):
        vector_norm(x + 1j, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="nansum: self is ComplexFloat; accepted are real dtypes"):
        nansum(x + 1j)
    with pytest.raises(
        RuntimeError, match="nansum: dtype is ComplexFloat, but self is Float; accepted are real dtypes"
    ):
        nansum(x, dtype=torch.complex64)
    with pytest.raises(
        RuntimeError, match="nansum: dtype is Long, but self is Float; accepted are floating point dtypes"
    ):
        nansum(x, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="vector_norm: out is Long, but self is ComplexFloat; accepted are floating"):
        vector_norm(x + 1j, out=torch.empty((), dtype=torch.int64, device=device))
    for reduce in (amax, amin):
        for dtype in (torch.complex64, torch.uint64):
            with pytest.raises(RuntimeError, match="self is .*; accepted are real dtypes but uint64"):
                reduce(x.to(dtype))
    for reduce in (vector_norm, nansum, amax, amin):
        with pytest.raises(IndexError):
            reduce(x, dim=2)
        with pytest.raises(RuntimeError, match="appears multiple times"):
            reduce(x, dim=(0, -2))
        for tensor in not_dense(device).values():
            with pytest.raises((NotImplementedError, RuntimeError), match="self is"):
                reduce(tensor)


REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    **{f"norm {ord}": partial(R.vector_norm.default, ord=ord) for ord in ORDERS},
    "nansum": R.nansum.default,
    "amax": R.amax.default,
    "amin": R.amin.default,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim, keepdim", [([], False), (0, True), ((0, 2), False)], ids=str)
def test_derivatives(name: str, dim: int | Sequence[int], keepdim: bool, device: torch.device) -> None:
    reduce = partial(REDUCTIONS[name], dim=dim, keepdim=keepdim)
    for dtype in (torch.float64, torch.complex128) if name.startswith("norm") else (torch.float64,):
        x = random_values(60, dtype).view(3, 4, 5).to(device).requires_grad_()
        assert gradcheck(reduce, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
        assert gradgradcheck(lambda t: reduce(t).square(), x)


def test_gradients_as_torch(device: torch.device) -> None:
    """Where there is no derivative: at 0, at a NaN, and where several elements are the largest."""
    nan = torch.tensor([[0.0, 0.0, 0.0], [1.0, 3.0, 3.0], [0.0, -2.0, math.nan]], device=device)
    finite = nan.nan_to_num()
    pairs: list[tuple[torch.Tensor, Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = [
        (nan, nansum, torch.nansum),
        *((finite, ours, theirs) for ours, theirs in ((amax, torch.amax), (amin, torch.amin))),
        *((finite, partial(vector_norm, ord=o), partial(torch.linalg.vector_norm, ord=o)) for o in ORDERS),
    ]
    for x, ours, theirs in pairs:
        grads = []
        for reduce in (ours, theirs):
            leaf = x.clone().requires_grad_()
            reduce(leaf, dim=1).backward(torch.tensor([1.0, 2.0, 3.0], device=device))
            grads.append(torch.zeros_like(x) if leaf.grad is None else leaf.grad)  # None: of ord=0 by PyTorch
        torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_forward_over_reverse(name: str, device: torch.device) -> None:
    """Also where no graph of the gradient is asked for: what was saved has to know its tangent."""
    x, tangent = (random_values(12, torch.float64, seed=seed).view(3, 4).to(device) for seed in (1, 2))
    reduce = partial(REDUCTIONS[name], dim=1)

    def grad(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(reduce(x).square().sum(), x, create_graph=True)[0]

    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad((grad(leaf) * tangent).sum(), leaf)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone().requires_grad_(), tangent)
        (plain,) = torch.autograd.grad(reduce(dual).square().sum(), dual)
        torch.testing.assert_close(forward_ad.unpack_dual(plain).tangent, wanted)
    torch.testing.assert_close(
        torch.func.jvp(torch.func.grad(lambda t: reduce(t).square().sum()), (x,), (tangent,))[1], wanted
    )


def test_a_gradient_keeps_what_it_needs(device: torch.device) -> None:
    x = random_values(10, torch.float32).to(device).requires_grad_()
    y = x * 1
    norm = vector_norm(y)
    norm.backward(retain_graph=True)
    norm.backward()
    with pytest.raises(RuntimeError, match="second time"):
        norm.backward()
    norm = vector_norm(y)
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        norm.backward()
    total = nansum(x * 1)  # whose slope does not depend on it
    total /= 2
    total.backward()
    halves = random_values(300, torch.float16).to(device).requires_grad_()
    vector_norm(halves, dtype=torch.float32).backward()
    assert halves.grad is not None and halves.grad.dtype == torch.float16
    torch.testing.assert_close(
        halves.grad.float(), (halves / vector_norm(halves.float())).detach().float(), rtol=1e-3, atol=1e-7
    )


@pytest.mark.parametrize("name", REDUCTIONS)
def test_tangent(name: str, device: torch.device) -> None:
    x, tangent = (random_values(300, torch.float32, seed=seed).view(3, 100).to(device) for seed in (1, 2))
    reduce = partial(REDUCTIONS[name], dim=1)
    with forward_ad.dual_level():
        result = forward_ad.unpack_dual(reduce(forward_ad.make_dual(x, tangent)))
        assert_same_bits(result.primal, reduce(x))
        assert result.tangent is not None and result.tangent.shape == (3,)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_vmap(name: str, device: torch.device) -> None:
    x = random_values(5 * 6 * 700, torch.float32).view(5, 6, 700).to(device)
    for in_dim in (0, 1, 2):
        for dim in ([], 0, (0, 1)):
            reduce = partial(REDUCTIONS[name], dim=dim)
            samples = torch.stack([reduce(sample) for sample in x.unbind(in_dim)])
            assert_same_bits(torch.func.vmap(reduce, in_dims=in_dim)(x), samples)


def test_meta_and_autocast(device: torch.device) -> None:
    x = torch.empty(2, 3, 2**40, device="meta", dtype=torch.bfloat16)
    for reduce in (vector_norm, nansum, amax, amin):
        result = reduce(x, dim=(0, 2), keepdim=True)
        assert result.shape == (1, 3, 1) and result.dtype == torch.bfloat16
    assert vector_norm(x.to(torch.complex64)).dtype == torch.float32
    assert amax(x.bool(), 0).dtype == torch.bool
    with pytest.raises(RuntimeError, match="accepted are floating point"):
        vector_norm(x.long())
    halves = torch.ones(4, dtype=torch.float16, device=device)
    with torch.autocast(device.type):
        assert vector_norm(halves).dtype == torch.linalg.vector_norm(halves).dtype
        assert amax(halves).dtype == torch.amax(halves).dtype == torch.float16
        assert nansum(halves).dtype == torch.nansum(halves).dtype


@pytest.mark.parametrize("name", ["vector_norm", "nansum", "amax"])
def test_opcheck(name: str, device: torch.device) -> None:
    packet = getattr(R, name)
    x = random_values(35, torch.float32).view(5, 7).to(device)
    for leaf in (x, x.clone().requires_grad_(), x.half()):
        torch.library.opcheck(packet.default, (leaf,), {"dim": 1})
        torch.library.opcheck(packet.default, (leaf,))
    torch.library.opcheck(packet.out, (x,), {"out": torch.zeros((), device=device)})


@needs_a_compiler
def test_compile(device: torch.device) -> None:
    torch.compiler.reset()

    @torch.compile(fullgraph=True, dynamic=True)
    def function(x: torch.Tensor) -> torch.Tensor:
        return vector_norm(x * 2, 1, 1) + vector_norm(x) + amax(x, 1) + nansum(x) + amin(x)

    for shape in ((3, 50), (7, 1000)):
        x = random_values(shape[0] * shape[1], torch.float32).view(shape).to(device).requires_grad_()
        eager = vector_norm(x * 2, 1, 1) + vector_norm(x) + amax(x, 1) + nansum(x) + amin(x)
        compiled = function(x)
        assert_same_bits(compiled.detach(), eager.detach())
        torch.testing.assert_close(
            torch.autograd.grad(compiled.sum(), x), torch.autograd.grad(eager.sum(), x), rtol=1e-5, atol=1e-6
        )
    torch.compiler.reset()


def test_export(device: torch.device) -> None:
    class Norm(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return vector_norm(x, 2, 0) + amax(x, 0)

    x = random_values(300, torch.float32).view(30, 10).to(device)
    program = torch.export.export(Norm(), (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    assert_same_bits(program.module()(x[:7]), vector_norm(x[:7], 2, 0) + amax(x[:7], 0))


@pytest.mark.gpu
def test_capture() -> None:
    x = random_values(2**18 + 5, torch.bfloat16).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        norm, norms, largest = vector_norm(x), vector_norm(x[: 2**18].view(2**9, 2**9), INF, 0), amax(x)
    for seed in (3, 4):
        x.copy_(random_values(x.numel(), torch.bfloat16, seed=seed))
        graph.replay()
        assert_same_bits(norm, expected_norm(x))
        assert_same_bits(norms, expected_norm(x[: 2**18].view(2**9, 2**9), INF, 0))
        assert_same_bits(largest, expected_extreme(True, x))


@pytest.mark.gpu
def test_past_32_bits() -> None:
    """The last elements count, and none twice."""
    x = torch.zeros(2**31 + 70, dtype=torch.float16, device="cuda")
    x[-1], x[0], x[2**31] = 3, -4, -12
    assert vector_norm(x).item() == 13 and vector_norm(x, 0).item() == 3 and vector_norm(x, 1).item() == 19
    assert amax(x).item() == 3 and amin(x).item() == -12 and vector_norm(x, INF).item() == 12


def test_override(device: torch.device) -> None:
    x = random_values(512 * 300, torch.float32).view(512, 300).to(device)
    before = torch.linalg.vector_norm(x, dim=1)
    calls: dict[str, list[tuple[Callable[[], torch.Tensor], torch.Tensor]]] = {
        "linalg_vector_norm": [
            (lambda: torch.linalg.vector_norm(x), vector_norm(x)),
            (lambda: torch.linalg.vector_norm(x, 1, 0, True), vector_norm(x, 1, 0, True)),
            (lambda: torch.linalg.norm(x, dim=1), vector_norm(x, 2, 1)),
            (lambda: torch.norm(x), vector_norm(x)),
            (lambda: x.norm(INF, 0), vector_norm(x, INF, 0)),
            (lambda: torch.linalg.vector_norm(x, out=torch.empty((), device=device)), vector_norm(x)),
            (
                lambda: torch.linalg.vector_norm(x.half(), dtype=torch.float32),
                vector_norm(x.half(), dtype=torch.float32),
            ),
            (lambda: torch.linalg.vector_norm(x, 3, 1), reduce_ops.sum(x.abs() ** 3, 1) ** (1 / 3)),
        ],
        "norm": [
            (lambda: torch._VF.norm(x, 2), vector_norm(x)),
            (lambda: torch._VF.norm(x, 1, [0], True), vector_norm(x, 1, 0, True)),
            (
                lambda: torch.ops.aten.norm.ScalarOpt_dtype(x, 2, dtype=torch.float64),
                vector_norm(x, dtype=torch.float64),
            ),
            (lambda: torch.ops.aten.norm.ScalarOpt_dim(x, None, [1]), vector_norm(x, 2, 1)),
        ],
        "nansum": [
            (lambda: torch.nansum(x), nansum(x)),
            (lambda: x.nansum(0, dtype=torch.float64), nansum(x, 0, dtype=torch.float64)),
        ],
        "amax": [(lambda: torch.amax(-x.abs() * 0.0, 1), amax(-x.abs() * 0.0, 1)), (lambda: x.amax(), amax(x))],
        "amin": [
            (lambda: torch.amin(x, 1), amin(x, 1)),
            (lambda: torch.amin(x, 1, out=torch.empty(512, device=device)), amin(x, 1)),
        ],
    }
    for operators in ((), *((name,) for name in calls)):
        with override_aten(*operators):
            for name in operators or calls:
                for i, (call, wanted) in enumerate(calls[name]):
                    assert_same_bits(call(), wanted, (name, i))
    with override_aten("amax"):
        assert_same_bits(torch.linalg.vector_norm(x, dim=1), before)
    assert not torch.equal(before, vector_norm(x, 2, 1)), "both are the same, so nothing was tested"
    halves = torch.tensor([100.0, 200, 300], dtype=torch.float16, device=device)  # whose cubes are infinite
    with override_aten():
        assert torch.norm(halves, 3) == torch.linalg.vector_norm(halves.float(), 3).half()
        refused: list[Callable[[], torch.Tensor]] = [
            lambda: torch.linalg.vector_norm(halves.int(), 3),
            lambda: torch.linalg.vector_norm(halves[:0], -3),
            lambda: torch.linalg.vector_norm(halves + 1j, dtype=torch.float32),
        ]
        for call in refused:
            with pytest.raises(RuntimeError):
                call()
    leaf = x.clone().requires_grad_()
    with override_aten():
        torch.linalg.vector_norm(leaf, dim=1).sum().backward()
    assert leaf.grad is not None
    torch.testing.assert_close(leaf.grad, x / vector_norm(x, 2, 1, True))


@needs_a_compiler
def test_override_of_compiled_functions(device: torch.device) -> None:
    x = random_values(100_000, torch.float32).view(10, 10_000).to(device)

    @torch.compile
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.amax(x, 1), torch.nansum(x, 1), torch.linalg.vector_norm(x, dim=1), torch.amin(x)

    with override_aten():
        largest, total, norm, smallest = function(x)
        assert_same_bits(largest, amax(x, 1))
        assert_same_bits(total, nansum(x, 1))
        assert_same_bits(norm, vector_norm(x, 2, 1))
        assert_same_bits(smallest, amin(x))
