"""The same bits from the kernels for every instruction set of this CPU, however they read memory."""

import functools
import json
import multiprocessing
import os
import subprocess
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

import reduce_ops

CAPABILITIES = ["default", "avx2", "avx512"]
READS = ["ahead", "in_order", "in_two_places", "in_two_places_or_order"]
SIZES = [1, 7, 8, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2049, 4095, 4096, 4097, 4608, 8191, 8193]
SIZES += [16383, 16384, 16385, 20480, 65536, 65537, 70001, 262144, 300007]


@functools.cache
def sums() -> dict[str, int]:
    """Checksums of the bytes of sums of values whose order of addition shows."""
    generator = torch.Generator().manual_seed(0)
    checksums = {}

    def add(case: str, result: torch.Tensor) -> None:
        checksums[case] = zlib.crc32(result.reshape(-1).view(torch.uint8).numpy().tobytes())

    for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float16, torch.bfloat16):
        x = torch.randn(600_014, dtype=torch.float64, generator=generator)
        x = (x * 2.0 ** torch.randint(-3, 4, x.shape, generator=generator)).to(dtype)
        for n in SIZES:
            add(f"{dtype} {n}", reduce_ops.sum(x[1 : n + 1]))
            add(f"{dtype} every other of {2 * n}", reduce_ops.sum(x[: 2 * n : 2]))
        for rows, columns in ((33, 5), (9, 129), (70, 600), (3, 20_000), (5, 4096), (3000, 17)):
            matrix = x[: rows * columns].view(rows, columns)
            add(f"{dtype} rows of {matrix.shape}", reduce_ops.sum(matrix, 1))
            add(f"{dtype} columns of {matrix.shape}", reduce_ops.sum(matrix, 0))
            add(f"{dtype} turned {matrix.shape}", reduce_ops.sum(matrix.t()))
        if not dtype.is_complex:
            add(f"{dtype} exact", reduce_ops.sum_exact(x))
        add(f"{dtype} exact norm", reduce_ops.vector_norm_exact(x))
    every = torch.arange(2**16).to(torch.uint16).view(torch.float16)
    every = every.where(~every.isnan(), 1)
    add("sums of every float16", reduce_ops.sum(every.view(-1, 2**10), 1, dtype=torch.float32))
    rows = torch.full((2**16, 64), -0.0, dtype=torch.float16)
    rows[:, 5] = every
    add("rows of every float16", reduce_ops.sum(rows, 1, dtype=torch.float32))
    add("columns of every float16", reduce_ops.sum(rows.t().contiguous(), 0, dtype=torch.float32))
    x = torch.randn(9_000_000, dtype=torch.float64, generator=generator)
    for dtype, size in (
        (torch.float32, 2**21),  # 8 MiB, the last of L3
        (torch.float32, 9_000_000),  # more than 32 MiB
        (torch.float64, 2_400_001),
        (torch.complex64, 4_300_000),
        (torch.complex128, 1_200_000),
        (torch.bfloat16, 4_500_000),
        (torch.float16, 4_500_000),
    ):
        of_size = x[:size].to(dtype)
        add(f"{dtype} {size}", reduce_ops.sum(of_size))
        for columns in (100, 300, 1000, 1024, 2032, 3001):
            matrix = of_size[: size // columns * columns].view(-1, columns)
            add(f"{dtype} rows of {matrix.shape}", reduce_ops.sum(matrix, 1))
            add(f"{dtype} columns of {matrix.shape}", reduce_ops.sum(matrix, 0))
            left = matrix[:, : columns - 11]
            add(f"{dtype} left columns of {matrix.shape}", reduce_ops.sum(left, 0))
    halves = x.to(torch.bfloat16)
    for columns in (17, 33, 100):  # more than 32 MiB, of overlapping rows
        for step in (0, 1):
            matrix = halves.as_strided((2**24 // columns + 1, columns), (step, 1))
            add(f"columns of {matrix.shape}, {step} apart", reduce_ops.sum(matrix, 0))
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool):
        x = torch.randint(-(2**40), 2**40, (300_007,), generator=generator).to(dtype)
        for n in SIZES:
            add(f"{dtype} {n}", reduce_ops.sum(x[:n]))
    return checksums


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[list[str], dict[str, int]]]:
    """What each way, called "capability reads", says of itself, and its checksums if this CPU has it."""
    ways = [f"{capability} {reads}" for capability in CAPABILITIES for reads in READS]
    # Of several threads, as here, each has less to read.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-P", __file__, *ways]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_no_instructions_that_this_cpu_lacks(
    capability: str, results: dict[str, tuple[list[str], dict[str, int]]]
) -> None:
    of_this_cpu = torch.ops.reduce._cpu()[0]
    (of_cpu, _), _ = results[f"{capability} ahead"]
    assert of_cpu == min(capability, of_this_cpu, key=CAPABILITIES.index)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_instruction_sets(capability: str, reads: str, results: dict[str, tuple[list[str], dict[str, int]]]) -> None:
    of_this_cpu = torch.ops.reduce._cpu()[0]
    if CAPABILITIES.index(capability) > CAPABILITIES.index(of_this_cpu):
        pytest.skip(f"this CPU has no {capability}, which PyTorch's own kernels would use all the same")
    (of_cpu, read), checksums = results[f"{capability} {reads}"]
    assert of_cpu == capability
    assert read == reads
    assert checksums == sums()


def sums_by(way: str) -> tuple[list[str], dict[str, int]]:
    """For a process of its own, as what a CPU is used for is decided once."""
    os.environ["ATEN_CPU_CAPABILITY"], os.environ["REDUCE_OPS_CPU_READS"] = way.split()
    chosen = torch.ops.reduce._cpu()
    return chosen, sums() if " ".join(chosen) == way else {}


def forked(way: str) -> tuple[list[str], dict[str, int]]:
    """From this process, which has imported PyTorch, so that it takes a second instead of four; an error if it dies."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as process:
        return process.submit(sums_by, way).result()


if __name__ == "__main__":
    print(json.dumps({way: forked(way) for way in sys.argv[1:]}))
