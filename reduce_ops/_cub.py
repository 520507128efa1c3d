"""CUB's sums, which ``bench sum`` and ``bench exact`` race against: built by nvcc when one of them first asks."""

import contextlib
import functools
import hashlib
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import torch

from reduce_ops.measure import Function

SOURCES = Path(__file__).with_name("cub")


class Functions(NamedTuple):
    """CUB's sums of a contiguous tensor on a GPU; None where there is none."""

    sum: Function | None = None
    """``DeviceReduce::Sum``."""

    reproducible_sum: Function | None = None
    """That of the same bits on every GPU. CUDA 13.0 does not bring it, but the package nvidia-cuda-cccl does."""


@functools.cache
def functions() -> Functions:
    """Return CUB's sums, built first where they are not yet. Says on stderr, in one line, why there are none."""
    try:
        _load()
    except (RuntimeError, OSError) as error:
        print(f"reduce_ops: CUB takes no part: {error}", file=sys.stderr)
        return Functions()
    has_reproducible = torch._C._dispatch_has_kernel_for_dispatch_key("reduce_bench::cub_reproducible_sum", "CUDA")
    return Functions(
        torch.ops.reduce_bench.cub_sum, torch.ops.reduce_bench.cub_reproducible_sum if has_reproducible else None
    )


def _load() -> None:
    """Load the operators ``reduce_bench::*``.

    Raises:
        RuntimeError: There is no nvcc, or the build failed; the message says where the compiler's is.
        OSError: The folder of the build cannot be written to, or the library does not load.
    """
    library = folder() / f"{_key()}.so"
    if library.exists():
        torch.ops.load_library(library)
    else:
        _build(library)


def folder() -> Path:
    """Return where libraries are kept: ``build/cub`` of a source tree, else a folder of the user's cache."""
    root = Path(__file__).parent.parent
    if (root / "setup.py").exists() and (root / "csrc").is_dir():
        return root / "build" / "cub"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reduce_ops" / "cub"


def _key() -> str:
    """Return a name for all that the library depends on."""
    archs = os.environ.get("TORCH_CUDA_ARCH_LIST")
    if archs is None:
        archs = str(sorted({torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())}))
    text = repr((torch.__version__, torch.version.cuda, archs, _newer_cub()))
    hashed = hashlib.sha256(text.encode())
    for file in sorted(SOURCES.iterdir()):
        hashed.update(file.read_bytes())
    return hashed.hexdigest()[:16]


def _build(library: Path) -> None:
    """Build and load it, in a folder of its own: two processes may build at once, and one may be killed meanwhile."""
    from torch.utils import cpp_extension  # with nvcc but no GPU it warns when imported: only who builds is to see that

    if cpp_extension.CUDA_HOME is None or not Path(cpp_extension.CUDA_HOME, "bin", "nvcc").exists():
        raise RuntimeError("no CUDA toolkit found (nvcc on PATH, or CUDA_HOME), which would build it")
    library.parent.mkdir(parents=True, exist_ok=True)
    print(f"reduce_ops: building CUB's sums in {library.parent}, once; this takes a minute or two", file=sys.stderr)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=library.parent) as temporary, _ninja_on_path():
        try:
            cpp_extension.load(
                "reduce_ops_cub",
                [str(file) for file in sorted(SOURCES.iterdir()) if file.suffix in (".cpp", ".cu")],
                # The standard of PyTorch 2.11 is still C++17. -O1 is of the host's code, which only launches.
                extra_cflags=["-std=c++20", "-g0", "-O1"],
                extra_cuda_cflags=["-std=c++20", "-O1", "-lineinfo", "--fmad=false"],
                extra_include_paths=_newer_cub(),
                build_directory=temporary,
                is_python_module=False,
            )
        except Exception as error:  # of many kinds: what nvcc says, an unknown architecture, a compiler too old
            log = library.with_suffix(".log")
            log.write_text(traceback.format_exc())
            raise RuntimeError(f"it could not be built, see {log}") from error
        Path(temporary, "reduce_ops_cub.so").replace(library)
    print(f"reduce_ops: built CUB's sums in {time.monotonic() - start:.0f} s", file=sys.stderr)


@contextlib.contextmanager
def _ninja_on_path() -> Iterator[None]:
    """Find a ninja that pip installed also where its environment is not active."""
    before = os.environ.get("PATH", os.defpath)
    folders = [before]
    if shutil.which("ninja") is None:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found = [Path(str(file.locate())) for file in metadata.files("ninja") or () if file.name == "ninja"]
            folders += [str(file.resolve().parent) for file in found]
    os.environ["PATH"] = os.pathsep.join(folders)
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _newer_cub() -> list[str]:
    """Return the headers of the package nvidia-cuda-cccl where it is there."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nvidia-cuda-cccl") or ():
            if file.match("cccl/cub/cub.cuh"):
                return [str(Path(str(file.locate())).resolve().parent.parent)]
    return []
