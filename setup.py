"""Builds the three shared libraries; the rest of the package is described in pyproject.toml."""

import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import torch
from setuptools import Extension, setup
from torch.utils import cpp_extension

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1: the wheel gets the tag of the Python that builds it
    WHEEL_COMMAND = {}
else:

    class PlatformWheel(bdist_wheel):
        """A wheel for every Python version: the libraries are machine code, but not Python modules."""

        def get_tag(self) -> tuple[str, str, str]:
            return "py3", "none", super().get_tag()[2]

    WHEEL_COMMAND = {"bdist_wheel": PlatformWheel}

# No GPU here to ask: SASS for the data-centre GPUs from Ampere on and for the RTX 50 line, PTX for what comes next.
DEFAULT_ARCHS = "8.0;9.0;10.0;12.0+PTX"

STANDARD = "-std=c++20"  # the default of PyTorch 2.11 is still C++17
HOST_FLAGS = [
    *("-g0", "-Wall", "-Wextra"),
    "-fvisibility=hidden",  # operators are found through the dispatcher, not through symbols
    "-ffp-contract=off",  # a * b + c in two roundings, on every CPU: the bits are part of the interface
]
CXX_FLAGS = [STANDARD, "-O3", *HOST_FLAGS]


def has_cuda_toolkit() -> bool:
    """Says on stderr, in one line, why there is none."""
    home = cpp_extension.CUDA_HOME
    if torch.version.cuda is None:
        reason = "this PyTorch is without CUDA"
    elif home is None or not Path(home, "bin", "nvcc").exists():
        reason = "no CUDA toolkit found (nvcc on PATH, or CUDA_HOME)"
    else:
        return True
    print(f"reduce_ops: CPU-only build: {reason}", file=sys.stderr)
    return False


def newer_cub() -> list[str]:
    """The headers of the package nvidia-cuda-cccl where it is there: CUB's gpu_to_gpu sums, which CUDA 13.0 lacks."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nvidia-cuda-cccl") or ():
            if file.match("cccl/cub/cub.cuh"):
                return [str(Path(file.locate()).resolve().parent.parent)]
    return []


SCHEDULE = Path("csrc/ladder/schedule_library.cpp")  # is a library of its own


def schedule_library() -> Extension:
    """The schedule of the ladder without PyTorch, for `explain`."""
    return Extension(
        "reduce_ops.libreduce_ops_schedule",
        [SCHEDULE.as_posix()],
        depends=[f"csrc/ladder/{name}" for name in ("schedule.cpp", "schedule.h", "ladder.def")],
        include_dirs=[str(Path("csrc").resolve())],
        extra_compile_args=CXX_FLAGS,
        py_limited_api=True,
    )


def library(name: str, folder: str, *, cuda: bool, headers: Sequence[str] = ()) -> Extension:
    """All sources below `folder` as one shared library; *.cu and *_cuda.cpp are for CUDA builds only.

    headers: folders to look for headers in before those of the toolkit.
    """
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    sources = [f for f in files if f.suffix == ".cpp" and f != SCHEDULE and (cuda or not f.stem.endswith("_cuda"))]
    if cuda:
        sources += [f for f in files if f.suffix == ".cu"]
    include_dirs = cpp_extension.include_paths("cuda" if cuda else "cpu")
    # As system headers, those of PyTorch and CUDA stay out of -Wall -Wextra.
    system_headers = [f"-isystem{path}" for path in include_dirs]
    make = cpp_extension.CUDAExtension if cuda else cpp_extension.CppExtension
    return make(
        f"reduce_ops.{name}",
        [f.as_posix() for f in sources],
        depends=[f.as_posix() for f in files if f not in sources],  # so that a source archive has the headers
        include_dirs=[str(Path(d).resolve()) for d in ("csrc", folder, *headers)],
        extra_compile_args={
            # -fopenmp when compiling only: at::parallel_for is serial without it. Linking with it could bring a second
            # OpenMP runtime, deaf to torch.set_num_threads; unlinked, its symbols are found in the one PyTorch loaded.
            # -ffile-prefix-map: error messages name csrc/..., not a folder of the machine that built it.
            "cxx": [*CXX_FLAGS, "-fopenmp", f"-ffile-prefix-map={Path.cwd()}/=", *system_headers],
            "nvcc": [
                # -O1 is of the host's code, which registers and launches kernels; with -O3 they take a twelfth longer.
                *(STANDARD, "-O1", "-lineinfo", "--fmad=false", f"--threads={len(os.sched_getaffinity(0))}"),
                *(f"-Xcompiler={flag}" for flag in HOST_FLAGS),
            ],
        },
        py_limited_api=True,  # keeps libtorch_python out: nothing here uses Python, so one build serves every version
    )


def add_ninja_to_path() -> None:
    """Finds a ninja that pip installed also where its environment is not active; without one builds are just slower."""
    if shutil.which("ninja") is None:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found = [Path(file.locate()) for file in metadata.files("ninja") or () if file.name == "ninja"]
            folders = [str(file.resolve().parent) for file in found]
            os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])


add_ninja_to_path()
with_cuda = has_cuda_toolkit()
if with_cuda and not torch.cuda.is_available():
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", DEFAULT_ARCHS)

setup(
    license="Apache-2.0",
    ext_modules=[
        schedule_library(),
        library("libreduce_ops", "csrc", cuda=with_cuda),
        library("libreduce_ops_bench", "benchmarks/csrc", cuda=with_cuda, headers=newer_cub()),
    ],
    cmdclass={
        "build_ext": cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True),
        **WHEEL_COMMAND,
    },
)
