"""What is refused, with which exception, and that the message names the argument and what is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import reduce_ops
from reduce_ops import LADDER, Rung
from support import DTYPES, each_rung, ladder_block_sums, ladder_sum, not_dense, takes_block_size

each_op = pytest.mark.parametrize("op", [ladder_sum, ladder_block_sums])
Op = Callable[..., torch.Tensor]

# Quantized and strided nested tensors are deprecated, CSR is in beta: PyTorch says so.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capfd.readouterr().out == ""


def names(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@each_rung
@each_op
@pytest.mark.parametrize("dtype", [torch.bits8, torch.uint4, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2])
def test_dtype_of_the_input(rung: Rung, op: Op, dtype: torch.dtype, device: torch.device) -> None:
    with pytest.raises(NotImplementedError, match=r"\bself\b") as error:
        op(rung, torch.empty(8, dtype=dtype, device=device))
    assert f"v{rung.number}" in str(error.value)
    for accepted in DTYPES:
        assert names(accepted) in str(error.value)
    assert op(rung, torch.empty(8, dtype=dtype, device="meta")).is_meta  # without data it has one, as for torch.sum


@each_rung
@each_op
@pytest.mark.parametrize("dtype", [torch.bits8, torch.float8_e8m0fnu, torch.quint8], ids=str)
def test_dtype_argument(rung: Rung, op: Op, dtype: torch.dtype, device: torch.device) -> None:
    with pytest.raises(NotImplementedError, match=r"\bdtype\b") as error:
        op(rung, torch.ones(3, device=device), dtype)
    assert f"v{rung.number}" in str(error.value)
    for accepted in DTYPES:
        assert names(accepted) in str(error.value)


@each_rung
@each_op
@pytest.mark.parametrize("real", [dtype for dtype in DTYPES if not dtype.is_complex], ids=str)
def test_complex_input_and_real_dtype(rung: Rung, op: Op, real: torch.dtype, device: torch.device) -> None:
    for place in (device, "meta"):
        with pytest.raises(RuntimeError, match=r"\bdtype\b.*complex"):
            op(rung, torch.ones(3, dtype=torch.complex64, device=place), real)


@each_rung
@each_op
def test_layout(rung: Rung, op: Op, device: torch.device) -> None:
    for kind, x in not_dense(device).items():
        with pytest.raises(NotImplementedError) as error:
            op(rung, x)
        message = str(error.value)
        for part in (f"v{rung.number}", "self", "dense", "strided tensor"):
            assert part in message, f"{kind}: {message}"


@each_rung
def test_layout_in_autograd_modes(rung: Rung, device: torch.device) -> None:
    """What a layout is refused for does not depend on modes that put another dispatch key first."""
    for kind, x in not_dense(device).items():
        if kind != "nested jagged":  # in inference mode its Python class refuses before the operator is asked
            with torch.inference_mode(), pytest.raises(NotImplementedError, match="self.*strided tensor"):
                ladder_sum(rung, x)
        if kind != "quantized":
            with pytest.raises(NotImplementedError, match="self.*strided tensor"):
                ladder_sum(rung, x.detach().requires_grad_())


@each_rung
@each_op
@pytest.mark.parametrize("block_size", [-256, 0, 1, 32, 255, 2048, 2**40])
def test_block_size(rung: Rung, op: Op, block_size: int, device: torch.device) -> None:
    if op is ladder_sum and not takes_block_size(rung):
        with pytest.raises(TypeError, match="block_size"):
            getattr(reduce_ops, rung.name)(torch.ones(3, device=device), block_size=block_size)
        return
    for x in (torch.ones(3, device=device), torch.ones(0, device=device), torch.ones(3, device="meta")):
        with pytest.raises(ValueError, match=rf"block_size={block_size}\b") as error:
            op(rung, x, None, block_size)
        assert f"v{rung.number}" in str(error.value)
        for accepted in rung.block_sizes:
            assert str(accepted) in str(error.value)


@pytest.mark.parametrize("version", [-1, len(LADDER), 2**70, "v3", None, 1.5])
def test_version(version: object, device: torch.device) -> None:
    with pytest.raises(ValueError, match=r"\bversion\b.*0 to 8"):
        reduce_ops.block_sums(torch.ones(3, device=device), version)


@each_rung
@each_op
def test_more_blocks_than_a_grid_has(rung: Rung, op: Op) -> None:
    """On meta tensors, which have no memory; the check comes before memory is asked for."""
    for block_size in rung.block_sizes:
        if rung.number >= 6:
            huge = torch.empty(2**62, dtype=torch.int8, device="meta")
            assert op(rung, huge, None, block_size).numel() <= 1024
            continue
        covers = {0: 256, 1: 256, 2: 256, 3: 512, 4: 512, 5: 2 * block_size}[rung.number]
        most = torch.empty(covers * (2**31 - 1), dtype=torch.int8, device="meta")
        blocks = 2**31 - 1
        assert op(rung, most, None, block_size).numel() == (1 if op is ladder_sum else blocks)
        for n in (most.numel() + 1, covers * 2**32, 2**62):
            with pytest.raises(RuntimeError, match=rf"v{rung.number}\b.*\bself\b.*{n}\b.*{blocks}\b"):
                op(rung, torch.empty(n, dtype=torch.int8, device="meta"), None, block_size)


@each_rung
def test_more_blocks_than_a_grid_has_with_data(rung: Rung, device: torch.device) -> None:
    """A broadcast byte: refused before it is made contiguous, which no memory could hold."""
    if rung.number < 6:
        x = torch.ones(1, dtype=torch.int8, device=device).expand(2**50)
        with pytest.raises(RuntimeError, match=rf"v{rung.number}\b.*\bself\b.*{2**31 - 1}\b"):
            ladder_sum(rung, x, None, rung.block_sizes[0])


@each_rung
def test_arguments_by_position_or_unknown(rung: Rung) -> None:
    op = getattr(torch.ops.reduce, rung.name)
    with pytest.raises(TypeError):
        getattr(reduce_ops, rung.name)(torch.ones(3), torch.float64)  # dtype is keyword-only
    with pytest.raises((RuntimeError, TypeError), match="keepdim"):
        op(torch.ones(3), keepdim=True)
    with pytest.raises((RuntimeError, TypeError)):
        op([1.0, 2.0])
