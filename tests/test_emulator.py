"""The kernels of csrc/sum on a CPU, lane by lane, under AddressSanitizer: what memcheck sees, where there is no GPU."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch.utils import cpp_extension

ROOT = Path(__file__).parent.parent
CSRC = ROOT / "csrc"
DRIVER = ROOT / "tests/sanitizer/sum_driver.cu"
EMULATOR = ROOT / "tests/emulator"
SANITIZE = "-fsanitize=address"
# -fno-extern-tls-init: the shared memory that is declared in one file and defined in another needs no constructor.
FLAGS = f"-std=c++20 -w -ffp-contract=off -fno-extern-tls-init {SANITIZE} -include emulator.h -x c++ -c".split()
# Kernels take longer to compile than to run: with -O0, and calls that check accesses instead of code around each, 39
# seconds instead of 59, and all sums 11.
OF_KERNELS = ["-O0", "--param", "asan-instrumentation-with-call-threshold=0"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/sanitizer/sum_driver.cu and the kernels, as C++."""
    if cpp_extension.CUDA_HOME is None or shutil.which("g++") is None:
        pytest.skip("no g++, or no CUDA headers")
    folder = tmp_path_factory.mktemp("emulator")
    headers = [f"-I{path}" for path in (EMULATOR, CSRC, Path(cpp_extension.CUDA_HOME, "include"))]
    kernels = EMULATOR / "kernels.cpp"
    sources = [kernels, DRIVER, CSRC / "sum/plan.cpp", CSRC / "sum/sum_kernels.cu", EMULATOR / "emulator.cpp"]

    def compile_one(source: Path) -> Path:
        compiled = folder / f"{source.stem}.o"
        how = OF_KERNELS if source == kernels else ["-O1"]
        command = ["g++", *how, *FLAGS, *headers, source, "-o", compiled]
        subprocess.run(command, check=True)
        return compiled

    with ThreadPoolExecutor(2) as pool:
        compiled = list(pool.map(compile_one, sources))
    program = folder / "sum_driver"
    subprocess.run(["g++", SANITIZE, *compiled, "-o", program], check=True)
    return program


@pytest.mark.slow
def test_every_family_on_a_cpu(driver: Path) -> None:
    """The bits of the tree, no access outside an allocation, and slots left empty: of up to 5001 elements a sum."""
    done = subprocess.run([driver, "5001"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert ", 0 wrong" in done.stdout
