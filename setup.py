"""Builds the two shared libraries; the rest of the package is described in pyproject.toml."""

import contextlib
import os
import runpy
import shutil
import sys
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
    "-fvisibility=hidden",  # EXPORTS is what counts; hidden functions are called directly, and inlined more often
    "-ffp-contract=off",  # a * b + c in two roundings, on every CPU: the bits are part of the interface
]
CXX_FLAGS = [STANDARD, "-O3", *HOST_FLAGS]
EXPORTS = Path("csrc/exports.map")
LINK_FLAGS = [f"-Wl,--version-script={EXPORTS.resolve()}"]


def say(text: str) -> None:
    print(f"reduce_ops: {text}", file=sys.stderr)


def has_cuda_toolkit() -> bool:
    home = cpp_extension.CUDA_HOME
    return torch.version.cuda is not None and home is not None and Path(home, "bin", "nvcc").exists()


def nvidia_headers() -> list[Path]:
    """The folders with the CUDA runtime's headers that PyTorch's own packages bring, the folder of its library first.

    None where one is missing: some are in a package that PyTorch does not ask for, but Triton has a copy.
    """
    if torch.version.cuda is None or torch.version.cuda.split(".")[0] != "13":
        return []
    packages = Path(torch.__file__).parent.parent
    folders = [packages / "nvidia/cu13/include", packages / "triton/backends/nvidia/include"]
    wanted = ("cuda_runtime_api.h", "crt/host_defines.h", "cuda.h", "nvrtc.h")
    has_library = any((packages / "nvidia/cu13/lib").glob("libcudart.so.*"))
    complete = has_library and all(any((folder / name).exists() for folder in folders) for name in wanted)
    return folders if complete else []


SCHEDULE = Path("csrc/ladder/schedule_library.cpp")  # is a library of its own


def schedule_library() -> Extension:
    """The schedule of the ladder without PyTorch, for `explain`."""
    return Extension(
        "reduce_ops.libreduce_ops_schedule",
        [SCHEDULE.as_posix()],
        depends=[EXPORTS.as_posix(), *(f"csrc/ladder/{name}" for name in ("schedule.cpp", "schedule.h", "ladder.def"))],
        include_dirs=[str(Path("csrc").resolve())],
        extra_compile_args=CXX_FLAGS,
        extra_link_args=LINK_FLAGS,
        py_limited_api=True,
    )


GENERATED = Path("build/generated/device_sources.cpp")  # the headers of kernels, which are compiled at run time


def write_device_sources() -> None:
    """Run csrc/jit/embed.py."""
    runpy.run_path("csrc/jit/embed.py")["write"](GENERATED)


def operators() -> Extension:
    """All sources below csrc as one shared library: *_cuda.cpp with a CUDA runtime, *.cu with nvcc."""
    cuda = with_toolkit or bool(nvidia)
    files = sorted(path for path in Path("csrc").rglob("*") if path.is_file())
    sources = [f for f in files if f.suffix == ".cpp" and f != SCHEDULE and (cuda or not f.stem.endswith("_cuda"))]
    if with_toolkit:
        sources += [f for f in files if f.suffix == ".cu"]
    # So that a source archive has the headers, and a new list of exports links again.
    depends = [f.as_posix() for f in sorted({*files, EXPORTS}.difference(sources))]
    if cuda:
        sources.append(GENERATED)
    include_dirs = cpp_extension.include_paths("cuda" if with_toolkit else "cpu")
    link_args: list[str] = []
    after: list[str] = []
    if cuda and not with_toolkit:
        include_dirs.append(str(nvidia[0]))
        after = [f"-idirafter{nvidia[1]}"]  # behind those of the compiler: what nvidia[0] lacks
        runtime = next((nvidia[0].parent / "lib").glob("libcudart.so.*"))
        link_args = [f"-L{runtime.parent}", f"-l:{runtime.name}", "-lc10_cuda", "-ltorch_cuda"]
    # As system headers, those of PyTorch and CUDA stay out of -Wall -Wextra.
    system_headers = [f"-isystem{path}" for path in include_dirs]
    make = cpp_extension.CUDAExtension if with_toolkit else cpp_extension.CppExtension
    return make(
        "reduce_ops.libreduce_ops",
        [f.as_posix() for f in sources],
        depends=depends,
        include_dirs=[str(Path("csrc").resolve())],
        extra_link_args=[*LINK_FLAGS, *link_args],
        extra_compile_args={
            # -fopenmp when compiling only: at::parallel_for is serial without it. Linking with it could bring a second
            # OpenMP runtime, deaf to torch.set_num_threads; unlinked, its symbols are found in the one PyTorch loaded.
            # -ffile-prefix-map: error messages name csrc/..., not a folder of the machine that built it.
            # AT_PER_OPERATOR_HEADERS: some of PyTorch's headers include all 3,000 operators without it.
            "cxx": [
                *(*CXX_FLAGS, "-fopenmp", f"-ffile-prefix-map={Path.cwd()}/=", "-DAT_PER_OPERATOR_HEADERS"),
                *(*system_headers, *after),
            ],
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
with_toolkit = has_cuda_toolkit()
nvidia = nvidia_headers()
if with_toolkit:
    if not torch.cuda.is_available():
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", DEFAULT_ARCHS)
elif nvidia:
    say("no CUDA toolkit found (nvcc on PATH, or CUDA_HOME): the ladder's kernels are compiled when they run, too")
else:
    no_headers = "neither a CUDA toolkit 13 nor the headers of nvidia-cuda-runtime 13 and nvidia-cuda-crt 13 found"
    reason = "this PyTorch is without CUDA" if torch.version.cuda is None else no_headers
    say(f"CPU-only build: {reason}")
write_device_sources()

setup(
    license="Apache-2.0",
    ext_modules=[schedule_library(), operators()],
    cmdclass={
        "build_ext": cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True),
        **WHEEL_COMMAND,
    },
)
