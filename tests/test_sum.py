"""``reduce::sum``: the bits of the canonical order, whatever lies between the elements and the result."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

import oracle
import reduce_ops
from oracle import canonical_sum
from support import COMPLEX, DTYPES, FLOATS, INTEGERS, assert_same_bits, memory_bytes, not_dense, random_values

SIZES = (
    *(1, 2, 3, 31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025),
    *(4095, 4096, 4097, 8191, 8193, 16384, 16385, 32767, 32768, 32769, 65537, 131072, 131073),
    *(2**18 + 1, 2**19 - 1, 2**19 + 1, 2**20 + 3, 2**21 + 17, 3 * 2**21, 2**23 + 1),
)
SOME_SIZES = (1, 5, 129, 1025, 8193, 40_001, 200_003, 2**20 + 3)


@pytest.mark.parametrize("n", SIZES)
def test_every_size(n: int, device: torch.device) -> None:
    x = random_values(n, torch.float32, seed=n)
    assert_same_bits(torch.ops.reduce.sum(x.to(device)), canonical_sum(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype, device: torch.device) -> None:
    for n in SOME_SIZES:
        x = random_values(n, dtype, seed=n)
        assert_same_bits(reduce_ops.sum(x.to(device)), canonical_sum(x), n)


def test_function_modes_see_the_operators() -> None:
    class Record(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen: list[object] = []
    x = torch.ones(3, 2)
    with Record():
        reduce_ops.sum(x)
        reduce_ops.sum(x, 1)
        reduce_ops.sum(x, 1, keepdim=True)
    assert seen == [torch.ops.reduce.sum.default] + 2 * [torch.ops.reduce.sum.dim_IntList]


@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_every_pair_of_dtypes(target: torch.dtype, device: torch.device) -> None:
    for dtype in DTYPES:
        if dtype.is_complex and not target.is_complex:
            continue
        for n in (3, 1025, 40_001):
            x = random_values(n, dtype, seed=n)
            if dtype.is_floating_point and target in INTEGERS and target != torch.bool:
                x = x.float().clamp(0, 100).to(dtype)  # what a float beyond an integer's range becomes, nobody promises
            x = x.to(device)
            assert_same_bits(reduce_ops.sum(x, dtype=target), canonical_sum(x, dtype=target), (dtype, n))


def test_equals_v0_and_v1(device: torch.device) -> None:
    for dtype in (*FLOATS, *COMPLEX):
        for n in SOME_SIZES:
            x = random_values(n, dtype, seed=n).to(device)
            total = reduce_ops.sum(x)
            assert_same_bits(reduce_ops.sum_v0(x), total)
            assert_same_bits(reduce_ops.sum_v1(x), total)


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.int8, torch.bool, torch.float8_e5m2, torch.int16, torch.float16, torch.int32, torch.float32),
        *(torch.int64, torch.float64, torch.complex64),
    ],
)
@pytest.mark.parametrize("offset", [1, 2, 3, 4, 5, 7, 9, 15])  # of bytes: every word of 4, from its start or not
def test_misaligned(dtype: torch.dtype, offset: int, device: torch.device) -> None:
    sizes = [*SOME_SIZES, 64, 100, 300, 511, 512, 513, 700, 2048, 3000, 4095, 4096, 4097, 6000, 20_000, 2**16]
    if device.type == "cuda":  # up to what is not little
        hands_on = dtype.is_floating_point and dtype.itemsize < 4  # and so less is little
        much = (5 if hands_on else 9) * 2**20 // dtype.itemsize
        sizes += [2**19 + 5, 2**20, much, much + 5]
    for n in sizes:
        x = random_values(n + 16, dtype, seed=n).to(device)
        view = x[offset : offset + n]
        assert_same_bits(reduce_ops.sum(view), canonical_sum(view), n)


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_that_is_not_rounded(dtype: torch.dtype, offset: int, device: torch.device) -> None:
    for n in (*SOME_SIZES, 2**21 + 17):
        x = random_values(n + offset, dtype, seed=n)
        actual = reduce_ops.sum(x.to(device)[offset:], dtype=torch.float32)
        assert_same_bits(actual, canonical_sum(x[offset:].float()), n)


@given(data=st.data())
def test_any_view(data: st.DataObject, device: torch.device) -> None:
    """Slices with steps, transposes, expansions, offsets and flips of sign, on up to five dimensions."""
    dtype = data.draw(st.sampled_from(DTYPES), "dtype")
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=5), "sizes")
    x = random_values(int(np.prod(sizes)), dtype, seed=1).reshape(sizes).to(device)
    for dim in range(x.dim()):
        start = data.draw(st.integers(0, x.shape[dim] - 1), "start")
        step = data.draw(st.integers(1, 3), "step")
        x = x.narrow(dim, start, x.shape[dim] - start)[(slice(None),) * dim + (slice(None, None, step),)]
    x = x.permute(data.draw(st.permutations(range(x.dim())), "permutation"))
    if data.draw(st.booleans(), "expand"):
        x = x.unsqueeze(1).expand(x.shape[0], data.draw(st.integers(1, 40), "copies"), *x.shape[1:])
    if dtype.is_complex and data.draw(st.booleans(), "conjugate"):
        x = x.conj()
    assert_same_bits(reduce_ops.sum(x), canonical_sum(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex128])
def test_large_views(dtype: torch.dtype, device: torch.device) -> None:
    x = random_values(300 * 70 * 90, dtype).view(300, 70, 90).to(device)
    views = [x.permute(2, 0, 1), x.transpose(0, 1), x[:, ::2], x[..., 1:], x[::7].mT, x[:, :1].expand(300, 500, 90)]
    for view in views:
        assert_same_bits(reduce_ops.sum(view), canonical_sum(view), view.stride())


def test_more_dimensions_than_a_kernel_takes(device: torch.device) -> None:
    x = random_values(3**13, torch.float32).reshape((3,) * 13).to(device)
    view = x[(slice(None, 2),) * 13]
    assert_same_bits(reduce_ops.sum(view), canonical_sum(view))


def test_special_values(device: torch.device) -> None:
    inf, nan = float("inf"), float("nan")
    for n in (2, 1000, 70_001):
        for values in ([inf], [inf, -inf], [nan], [-0.0], [0.0], [inf, nan]):
            x = torch.full((n,), -0.0)
            x[: len(values)] = torch.tensor(values)
            assert_same_bits(reduce_ops.sum(x.to(device)), canonical_sum(x), (n, values))
    assert torch.signbit(reduce_ops.sum(torch.full((5000,), -0.0, device=device)))
    assert reduce_ops.sum(torch.full((5000,), 65504.0, dtype=torch.float16, device=device)) == inf


def test_half_is_rounded_once(device: torch.device) -> None:
    """2048 + 1 + 1 is 2050 in float32; in float16 each 1 would be lost."""
    x = torch.tensor([2048.0, 1.0, 1.0], dtype=torch.float16, device=device)
    assert reduce_ops.sum(x) == 2050


def test_bool_is_any_byte_but_0(device: torch.device) -> None:
    x = torch.arange(256, dtype=torch.uint8, device=device).repeat(50)
    for view in (x.view(torch.bool), x.view(torch.bool)[1:], x.view(-1, 2).t().reshape(-1).view(torch.bool)[::2]):
        assert reduce_ops.sum(view) == (view.view(torch.uint8) != 0).sum()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.empty(3, 0, dtype=dtype, device=device)
    assert_same_bits(reduce_ops.sum(x), torch.zeros((), dtype=oracle.result_dtype(dtype)))


def test_integers_wrap(device: torch.device) -> None:
    x = torch.full((3,), 2**63 - 1, device=device)
    assert reduce_ops.sum(x) == 2**63 - 3
    assert reduce_ops.sum(torch.full((300,), 1, device=device), dtype=torch.int8) == 44


def test_past_31_bits(device: torch.device) -> None:
    """Closed forms, so that no reference has to add so many."""
    n = 2**31 + 7
    if device.type == "cpu" and memory_bytes() < 8 * 2**30:
        pytest.skip("needs 8 GiB of free memory")
    x = torch.ones(n, dtype=torch.int8, device=device)
    x[-1] = -5
    assert reduce_ops.sum(x) == n - 6
    assert reduce_ops.sum(x[1:]) == n - 7
    if device.type == "cuda":
        assert reduce_ops.sum(x[:1].expand(n)) == n  # 64-bit strides
        assert reduce_ops.sum(x[:-1].view(2, -1).t()) == n - 1
        y = torch.empty(n, dtype=torch.float32, device=device)
        y[0::2] = 3.5
        y[1::2] = -3.5
        y[-1] = 0
        assert reduce_ops.sum(y) == 0
        y[2**31] += 1
        assert reduce_ops.sum(y) == 1


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_number_of_cpu_threads_does_not_matter(threads: int) -> None:
    before = torch.get_num_threads()
    x = random_values(3_000_001, torch.float32)
    try:
        torch.set_num_threads(threads)
        assert_same_bits(reduce_ops.sum(x), canonical_sum(x))
    finally:
        torch.set_num_threads(before)


def test_denormal_numbers_count_in_every_thread() -> None:
    """torch.set_flush_denormal() is of one thread, and sums are the same in all."""
    threads = torch.get_num_threads()
    x = torch.full((300_000,), 1e-40)
    wide = x.double()
    calls = (
        reduce_ops.sum,
        reduce_ops.sum_exact,
        reduce_ops.sum_v7,
        lambda x: reduce_ops.sum(x.view(300, 1000), 0),
        lambda x: reduce_ops.sum(x.view(300, 1000), 1),
        lambda x: reduce_ops.sum(x, dtype=torch.float64),
        lambda x: reduce_ops.sum(x, dtype=torch.bfloat16),  # converted before
        lambda x: reduce_ops.sum(x, dtype=torch.complex128),
        lambda x: reduce_ops.sum_v7(x, dtype=torch.bfloat16),
        lambda _: reduce_ops.block_sums(wide, 7, dtype=torch.float32),
        lambda x: reduce_ops.mean(x, out=torch.empty((), dtype=torch.bfloat16)),
        lambda _: reduce_ops.mean(wide, dtype=torch.float32),
        lambda _: reduce_ops.sum_exact(wide[:3], dtype=torch.bfloat16),
    )
    expected = [call(x) for call in calls]
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush them")
    try:
        flushed = [torch.sum(x).view(torch.int32)]  # as bits: to compare numbers would flush them too
        for count in (1, 2):
            torch.set_num_threads(count)
            actual = [call(x) for call in calls]
            flushed.append(torch.sum(x).view(torch.int32))
            for mine, theirs in zip(actual, expected, strict=True):
                assert_same_bits(mine, theirs)
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
    assert any(bits == 0 for bits in flushed), "nothing was flushed, so nothing was tested"


def test_out(device: torch.device, capfd: pytest.CaptureFixture[str]) -> None:
    x = random_values(70_001, torch.float32).to(device)
    out = torch.empty((), device=device)
    assert reduce_ops.sum(x, out=out) is out
    assert_same_bits(out, canonical_sum(x))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resized = reduce_ops.sum(x, out=torch.empty(3, device=device))
    # What an operator warns of, PyTorch 2.11 writes to stderr.
    assert "was resized" in "".join(str(warning.message) for warning in caught) + capfd.readouterr().err
    assert_same_bits(resized, canonical_sum(x))
    for dtype in (torch.float16, torch.int32, torch.float64):
        out = torch.empty((), dtype=dtype, device=device)
        ints = torch.arange(100, device=device)
        assert_same_bits(reduce_ops.sum(ints, dtype=dtype, out=out), canonical_sum(ints, dtype=dtype))
    for dtype in (torch.float64, torch.float16):  # as torch.sum, in the dtype of out
        assert_same_bits(
            reduce_ops.sum(x, out=torch.empty((), dtype=dtype, device=device)), canonical_sum(x, dtype=dtype)
        )
    expected = canonical_sum(x)
    assert_same_bits(reduce_ops.sum(x, out=x[5]), expected)  # the input's own memory
    assert torch.ops.reduce.sum.out(x[:0], out=torch.ones((), device=device)) == 0


def test_out_errors(device: torch.device) -> None:
    x = torch.ones(5, device=device)
    with pytest.raises(RuntimeError, match="out.*dtype"):
        reduce_ops.sum(x, dtype=torch.float64, out=torch.empty((), device=device))
    if device.type == "cuda":
        with pytest.raises(RuntimeError, match="out.*device"):
            reduce_ops.sum(x, out=torch.empty(()))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_refused(device: torch.device) -> None:
    x = torch.ones(4, 6, device=device)
    for bad in not_dense(device).values():
        with pytest.raises(NotImplementedError, match="sum: self is"):
            reduce_ops.sum(bad)
    with pytest.raises(NotImplementedError, match="self has dtype"):
        reduce_ops.sum(torch.empty(8, dtype=torch.bits8, device=device))
    with pytest.raises(RuntimeError, match="dtype.*cannot hold"):
        reduce_ops.sum(x.to(torch.complex64), dtype=torch.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_meta(dtype: torch.dtype) -> None:
    x = torch.empty(5, 700, dtype=dtype, device="meta")
    assert reduce_ops.sum(x).dtype == oracle.result_dtype(dtype)
    assert reduce_ops.sum(x).shape == ()
    assert reduce_ops.sum(x, dtype=torch.complex64).dtype == torch.complex64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.complex64])
def test_opcheck(dtype: torch.dtype, device: torch.device) -> None:
    x = random_values(5000, dtype).to(device)
    torch.library.opcheck(torch.ops.reduce.sum.default, (x,))
    torch.library.opcheck(torch.ops.reduce.sum.default, (x.view(50, 100).t(),), {"dtype": torch.complex128})
