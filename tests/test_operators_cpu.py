"""Maps and extremes in the CPU's kernels (csrc/sum/operators_cpu.inc, extremes_cpu.inc), under AddressSanitizer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
SOURCES = [ROOT / "tests/operators_cpu.cpp", ROOT / "csrc/sum/elements_cpu.cpp", ROOT / "csrc/isa_cpu.cpp"]
FLAGS = ["-std=c++20", "-O0", "-ffp-contract=off", "-fsanitize=address"]
TARGETS = {16: [], 32: ["-mavx2"], 64: ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]}
NEEDED = {16: ["DEFAULT", "NO AVX", "AVX2", "AVX512"], 32: ["AVX2", "AVX512"], 64: ["AVX512"]}


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_operators_have_the_bits_of_the_tree(vector_bytes: int, tmp_path: Path) -> None:
    """In every path through the kernels, and no access beside the elements."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    if torch.backends.cpu.get_cpu_capability() not in NEEDED[vector_bytes]:
        pytest.skip(f"a CPU without vectors of {vector_bytes} bytes")
    program = tmp_path / "operators_cpu"
    how = [*FLAGS, *TARGETS[vector_bytes], f"-DVECTOR_BYTES={vector_bytes}", f"-I{ROOT / 'csrc'}"]
    subprocess.run(["g++", *how, *SOURCES, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert ", 0 wrong" in done.stdout
