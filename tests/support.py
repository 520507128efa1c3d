"""What the tests share: calls, data in which the order of addition shows, and comparison bit by bit."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import reduce_ops
from reduce_ops import LADDER, Rung

ROOT = Path(__file__).resolve().parent.parent

FROM_SOURCE = Path(reduce_ops.__file__).is_relative_to(ROOT / "reduce_ops")
PYTHON = (sys.executable, *(("-P",) if sys.version_info >= (3, 11) and not FROM_SOURCE else ()))
"""This interpreter, to run another program that finds the package where the tests do. (Workers of pytest-xdist do not
inherit -P, so the flag itself says nothing; Python 3.10 has none.)"""

SHORT_RUN_SECONDS = 0.01
"""measure.RUN_SECONDS in tests of what a benchmark does with its figures, whatever they are."""

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
)
FLOATS = tuple(dtype for dtype in DTYPES if dtype.is_floating_point)
COMPLEX = tuple(dtype for dtype in DTYPES if dtype.is_complex)
INTEGERS = tuple(dtype for dtype in DTYPES if not dtype.is_floating_point and not dtype.is_complex)

COLUMN_WAVES = (
    (1, 4000, 512),
    (1, 130_000, 128),  # segments
    (1, 240_000, 128),
    (1, 4001, 1512),  # rows that begin in the middle of a line
    (8, 1000, 504),  # blocks across matrices
    (1, 130_003, 33),  # single columns
    (1, 260_001, 17),
    (1, 2000, 128),  # all at once
    (5, 300, 200),
)
"""Shapes whose sums over dimension 1 are waves of large blocks on some GPU of COLUMN_WAVE_GPUS multiprocessors."""
COLUMN_WAVE_GPUS = (2, 4, 8, 16)
COLUMN_WAVE_DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int16, torch.int32, torch.int64, torch.complex64),
)
MANY_SINGLE_COLUMNS = ((3, 150, 257), (2, 500, 193), (5, 1300, 255), (1, 72, 1001))
"""Shapes whose sums over dimension 1 are blocks of 64 or 128 single columns on a GPU of one or two multiprocessors, or
of floating-point neighbours that begin anywhere."""

H200 = 132
"""Its multiprocessors."""
H200_L2 = 60 << 20
"""Its bytes of L2."""

SIZED = tuple((rung, block_size) for rung in LADDER for block_size in rung.block_sizes)
"""Every rung with every block size it takes."""

Dtype = torch.dtype | None

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs g++ for code on a CPU")

each_rung = pytest.mark.parametrize("rung", LADDER, ids=lambda rung: f"v{rung.number}")
each_sized_rung = pytest.mark.parametrize(
    ("rung", "block_size"), SIZED, ids=[f"v{rung.number}-{block_size}" for rung, block_size in SIZED]
)


def not_dense(device: torch.device) -> dict[str, torch.Tensor]:
    """One tensor of each kind that is not dense and strided, on the devices that have it."""
    x = torch.ones(4, 6, device=device)
    parts = [torch.ones(2, device=device), torch.ones(3, device=device)]
    tensors = {
        "coo": x.to_sparse(),
        "csr": x.to_sparse_csr(),
        "csc": x.to_sparse_csc(),
        "bsr": x.to_sparse_bsr((2, 2)),
        "nested strided": torch.nested.nested_tensor(parts, layout=torch.strided),
        "nested jagged": torch.nested.nested_tensor(parts, layout=torch.jagged),
        "quantized": torch.quantize_per_tensor(x, 1.0, 0, torch.quint8),
    }
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        tensors["mkldnn"] = x.to_mkldnn()
    return tensors


def takes_block_size(rung: Rung) -> bool:
    return len(rung.block_sizes) > 1


def ladder_sum(rung: Rung, x: torch.Tensor, dtype: Dtype = None, block_size: int = 256) -> torch.Tensor:
    options = {"block_size": block_size} if takes_block_size(rung) else {}
    return getattr(torch.ops.reduce, rung.name)(x, dtype=dtype, **options)


def ladder_block_sums(
    rung: Rung,
    x: torch.Tensor,
    dtype: Dtype = None,
    block_size: int = 256,
) -> torch.Tensor:
    return reduce_ops.block_sums(x, rung.number, dtype=dtype, block_size=block_size)


class Plan(SimpleNamespace):
    """The fields that csrc/sum/plan_op.cpp writes, by name."""


def plan(
    x: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    multiprocessors: int = H200,
    dtype: torch.dtype | None = None,
    l2_bytes: int | None = None,
) -> Plan:
    """The plan of a sum for a GPU of so many multiprocessors, and of so much L2 or, if None, as much as an H200 has for
    each of them."""
    gpu = {"multiprocessors": multiprocessors, "l2_bytes": l2_bytes}
    return Plan(**json.loads(torch.ops.reduce._plan(x, dim, dtype=dtype, **gpu)))


def rows_in_many_dimensions(memory: torch.Tensor, kept: int) -> tuple[torch.Tensor, tuple[int, ...]]:
    """View 2^(16 + kept) elements as so many kept dimensions and seven, returned too, of rows that lie across memory.

    No two of either kind merge.
    """
    strides = [2**exponent for exponent in (11, 12, 14, 16, 18, 20, 22)][:kept]
    strides += [2**exponent for exponent in (0, 21, 19, 17, 15, 13, 6)]
    return memory.as_strided([2] * kept + [64, 2, 2, 2, 2, 2, 32], strides), tuple(range(kept, kept + 7))


def random_values(n: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Values of mixed sign and scale, so that another order of addition gives other bits; integers wrap."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_complex:
        parts = torch.stack([_random_floats(n, torch.float64, generator, 8) for _ in range(2)], dim=-1)
        return torch.view_as_complex(parts).to(dtype)
    if dtype.is_floating_point:
        # e4m3 ends at 448 and has no Inf; the others keep all their sums finite.
        return _random_floats(n, dtype, generator, 4 if dtype == torch.float8_e4m3fn else 8)
    bits = torch.randint(-(2**63), 2**63 - 1, (n,), dtype=torch.int64, generator=generator)
    return (bits >> 7) % 2 == 0 if dtype == torch.bool else bits.to(dtype)


def _random_floats(n: int, dtype: torch.dtype, generator: torch.Generator, scales: int) -> torch.Tensor:
    exponents = torch.randint(-scales, scales + 1, (n,), generator=generator)
    return torch.randn(n, dtype=torch.float64, generator=generator).ldexp(exponents).to(dtype)


def moved(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The same view of the same storage on a device."""
    storage = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).to(device)
    return storage.as_strided(x.shape, x.stride(), x.storage_offset())


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor, what: object = "") -> None:
    """Same dtype, shape and bits; any NaN equals any NaN, component by component; -0.0 is not 0.0."""
    assert actual.dtype == expected.dtype, what
    assert actual.shape == expected.shape, what
    actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype.is_complex:
        actual, expected = torch.view_as_real(actual), torch.view_as_real(expected)
    if actual.dtype.is_floating_point:
        same = _bits(actual) == _bits(expected)
        same |= actual.isnan() & expected.isnan()
    else:
        same = actual == expected
    if not same.all():
        at = tuple(int(i) for i in (~same).nonzero()[0])
        count = int((~same).sum())
        raise AssertionError(
            f"{what}: {count} of {same.numel()} differ, first at {at}: {actual[at]!r} is not {expected[at]!r}"
        )


def _bits(x: torch.Tensor) -> torch.Tensor:
    same_size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize]
    return x.contiguous().view(same_size)


def memory_bytes() -> int:
    """What this machine's processor could still allocate."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gpu_memory_taken(call: Callable[[], object], calls: int = 20) -> int:
    """Return the bytes of the GPU's memory that so many calls take and keep, PyTorch's allocator or not. For tests
    marked `alone`: what others take meanwhile counts too."""
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return free - torch.cuda.mem_get_info()[0]


OCCUPY = """
extern "C" __global__ void occupy(volatile int* started, const volatile int* released) {
  started[blockIdx.x] = 1;
  for (int ms = 0; ms < 30000 && !*released; ++ms) __nanosleep(1000000);
}
"""
MARK_OWN = """
extern "C" __global__ void mark_own(int* marks) {
  unsigned multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  marks[multiprocessor] = 1;
}
"""


AOT_INDUCTOR = """
import tempfile, torch
exported = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(2, 2),))
package = torch._inductor.aoti_compile_and_package(exported, package_path=tempfile.mkdtemp() + "/model.pt2")
torch._inductor.aoti_load_package(package)(torch.ones(2, 2))
"""


def where_aot_inductor_works(check: Callable[..., None], *arguments: object) -> None:
    """Run a check in a process of its own. If that fails, or crashes, and so does a model without our operators, as in
    some builds of PyTorch, the test is skipped."""
    try:
        in_a_process(check, *arguments)
    except Exception:
        done = subprocess.run([sys.executable, "-c", AOT_INDUCTOR], capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"AOTInductor does not work here: a model of torch.nn ends with exit code {done.returncode}")
        raise


@contextlib.contextmanager
def one_multiprocessor() -> Iterator[None]:
    """Leave one multiprocessor of the GPU to what runs inside; blocks that take all shared memory keep the others busy.

    Call everything once before: while a kernel is loaded, or memory allocated, CUDA may wait for the whole device.
    """
    gpu = torch.cuda.get_device_properties()
    occupy = torch.cuda._compile_kernel(OCCUPY, "occupy")
    mark_own = torch.cuda._compile_kernel(MARK_OWN, "mark_own")
    marks = torch.zeros(gpu.multi_processor_count, dtype=torch.int32, device="cuda")
    started = torch.zeros(gpu.multi_processor_count - 1, dtype=torch.int32, pin_memory=True)
    released = torch.zeros(1, dtype=torch.int32, pin_memory=True)
    mark_own((4 * len(marks), 1, 1), args=[marks])
    assert marks.sum() == gpu.multi_processor_count
    marks.zero_()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    occupy.set_shared_memory_config(gpu.shared_memory_per_block_optin)
    occupy((len(started), 1, 1), args=[started, released], shared_mem=gpu.shared_memory_per_block_optin, stream=stream)
    try:
        end = time.monotonic() + 20
        while not started.all():
            assert time.monotonic() < end, "others keep multiprocessors busy"
        mark_own((4 * len(marks), 1, 1), args=[marks])
        assert marks.sum() == 1
        yield
        torch.cuda.current_stream().synchronize()
        assert not stream.query(), "what ran on one multiprocessor did not end before the others were free"
    finally:
        released.fill_(1)
        stream.synchronize()


@contextlib.contextmanager
def new_streams(count: int) -> Iterator[list[torch.cuda.Stream]]:
    """Streams that are not among the 128 that PyTorch hands out again and again; destroyed at the end."""
    cudart = torch.cuda.cudart()
    handles = [ctypes.c_void_p() for _ in range(count)]
    for handle in handles:
        assert cudart.cudaStreamCreate(ctypes.addressof(handle)) == cudart.cudaError.success
    yield [torch.cuda.ExternalStream(handle.value) for handle in handles]
    torch.cuda.synchronize()
    for handle in handles:
        assert cudart.cudaStreamDestroy(handle.value) == cudart.cudaError.success


class Model(torch.nn.Module):
    """A parameter that both products sum: by rows with a batch, and alone, by a rung."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0, 1, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return reduce_ops.sum(x * self.weight, 1) + reduce_ops.sum_v7(self.weight)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Call work(0), work(1), ... at the same time, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_a_process(check: Callable[..., None], *arguments: object, timeout: float | None = None) -> None:
    """Call check(*arguments) in a process of its own; what it raises is raised here, and so is that it died."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(check, *arguments).result(timeout)


def load_benchmark(name: str) -> ModuleType:
    """A program in benchmarks/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module
