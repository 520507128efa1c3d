"""The kernels of csrc/device and csrc/exact on a CPU, lane by lane, under AddressSanitizer.

That is what memcheck sees, without a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch.utils import cpp_extension

ROOT = Path(__file__).parent.parent
CSRC = ROOT / "csrc"
EMULATOR = ROOT / "tests/emulator"
SANITIZE = "-fsanitize=address"
# -fno-extern-tls-init: the shared memory that is declared in one file and defined in another needs no constructor.
FLAGS = ["-std=c++20", "-w", "-ffp-contract=off", "-fno-extern-tls-init", "-include", "emulator.h", "-x", "c++", "-c"]
# Kernels take as long to compile as to run: with -O0, and calls that check accesses instead of code around each, 39
# seconds instead of 59, and all sums 11.
OF_KERNELS = ["-O0", SANITIZE, "--param", "asan-instrumentation-with-call-threshold=0"]
OF_PLANS = ["-O1", SANITIZE]
OF_TESTS = ["-O2"]  # what is not under test is not checked: all sums, and all others, take 37 seconds instead of 65
OPERATORS = ("sums", "others")
LARGEST = "5001"  # elements of a sum
EVERY = "12"  # shape is summed by all legal plans; by those of all shapes it takes four times as long
FORMULAS = ("5001", "5")  # one in 5 shapes of up to so many elements; these take every kind of kernel but grids
EXACT_SUMS = ("4000", "13")  # one in 13 shapes of up to so many elements; these take every family


def register(kernels: list[str]) -> str:
    """Return the C++ file that makes kernels, each a header and an expression, known to the emulator."""
    headers = sorted({kernel.partition(" ")[0] for kernel in kernels})
    lines = [f'#include "{header}"' for header in headers] + ["using namespace reduce_ops;"]
    for i, kernel in enumerate(kernels):
        expression = kernel.partition(" ")[2]
        lines.append(f"static void call_{i}(void** a) {{ emulator::call(&{expression}, a); }}")
        lines.append(f'static const emulator::Registered registered_{i}("{expression}", &call_{i});')
    return "\n".join(lines) + "\n"


def arguments(operators: str) -> list[str]:
    return [LARGEST, operators, EVERY]


def build(folder: Path, name: str, sources: list[Path], calls: list[list[str]]) -> Path:
    """Build what tests/sanitizer/<name>.cu is as C++, with all kernels that it takes in these calls."""
    if cpp_extension.CUDA_HOME is None or shutil.which("g++") is None:
        pytest.skip("no g++, or no CUDA headers")
    headers = [f"-I{path}" for path in (EMULATOR, CSRC, Path(cpp_extension.CUDA_HOME, "include"))]
    driver = ROOT / f"tests/sanitizer/{name}.cu"
    sources = [driver, *sorted(CSRC.glob("plan/*.cpp")), *sources, EMULATOR / "emulator.cpp"]

    def compile_one(source: Path) -> Path:
        compiled = folder / f"{source.stem}.o"
        how = OF_KERNELS if source.parent == folder else OF_PLANS if CSRC in source.parents else OF_TESTS
        subprocess.run(["g++", *how, *FLAGS, *headers, source, "-o", compiled], check=True)
        return compiled

    def link(name: str, objects: list[Path]) -> Path:
        program = folder / name
        subprocess.run(["g++", SANITIZE, *objects, "-o", program], check=True)
        return program

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, sources))
        # Without a kernel the program tells which ones it needs; its sums are wrong then, which is of no account.
        without = link("without_kernels", objects)
        environment = os.environ | {"EMULATOR_LIST": "1"}
        needed: set[str] = set()
        for call in calls:
            listed = subprocess.run([without, *call], capture_output=True, text=True, check=False, env=environment)
            needed |= {line for line in listed.stdout.splitlines() if line.startswith(("device/", "exact/"))}
        kernels = sorted(needed)
        assert kernels
        files = [folder / f"kernels_{i}.cpp" for i in range(2)]
        for i, file in enumerate(files):
            file.write_text(register(kernels[i::2]), encoding="utf-8")
        objects += pool.map(compile_one, files)
    return link(name, objects)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = [CSRC / "sum/launch_cuda.cpp", CSRC / "sum/instance_cuda.cpp"]
    return build(tmp_path_factory.mktemp("sums"), "sum_driver", sources, [arguments(of) for of in OPERATORS])


def check(command: list[Path | str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert ", 0 wrong" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("operators", OPERATORS)
def test_every_family_on_a_cpu(operators: str, driver: Path) -> None:
    """The bits of the tree, no access outside an allocation, and slots left empty: of up to 5001 elements a sum."""
    check([driver, *arguments(operators)])


@pytest.mark.slow
def test_exact_sums_on_a_cpu(tmp_path: Path) -> None:
    """The words of states of elements, magnitudes and squares, and what exact_round makes of them."""
    sources = [CSRC / "exact/launch_cuda.cpp", CSRC / "exact/exact_plan.cpp"]
    check([build(tmp_path, "exact_driver", sources, [[*EXACT_SUMS]]), *EXACT_SUMS])


@pytest.mark.slow
def test_formulas_on_a_cpu(tmp_path: Path) -> None:
    """The same as of sums, of one to six operands in every way of reading them."""
    sources = [CSRC / name for name in ("transform/launch_cuda.cpp", "transform/formula.cpp", "sum/instance_cuda.cpp")]
    check([build(tmp_path, "transform_driver", sources, [[*FORMULAS]]), *FORMULAS])
