"""Kernels ahead of time, and where they are kept: ``python -m reduce_ops compile`` and ``cache``.

Kernels are compiled when a call first needs them and kept on disk. Here the common ones are compiled before that, for
GPUs that need not be at hand.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from reduce_ops import _library
from reduce_ops.bench_dims import EXTRA, LIST, NEIGHBOURS, TRAINING

_library.load("reduce_ops")

DEFAULT_ARCHITECTURES = ("8.0", "9.0", "10.0", "12.0")
"""Where no GPU is at hand: those that the package's wheels are made for."""

COMMON_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool)

_MULTIPROCESSORS = {"sm_80": 108, "sm_86": 84, "sm_89": 142, "sm_90": 132, "sm_100": 148, "sm_120": 170}
"""Of the largest GPU of each architecture. A plan, and so which kernels it takes, depends on it, and on L2, of which
each is taken to have as much for a multiprocessor as an H200."""


class CompileError(RuntimeError):
    """Kernels cannot be compiled here; the message says why and what would help."""


@dataclass(frozen=True)
class Compiled:
    """One kernel, ready on disk."""

    kernel: str
    architecture: str
    path: Path
    bytes: int
    seconds: float
    """What compiling it took; 0 if it was there."""


@dataclass(frozen=True)
class Cache:
    """What a folder of kernels holds."""

    folder: Path
    kernels: int
    bytes: int
    architectures: tuple[str, ...]
    stale: int
    """Kernels among these of other versions of the package, which this one does not read."""


def _check_cuda() -> None:
    if not torch._C._dispatch_has_kernel("reduce::_compile"):
        raise CompileError("this build of reduce_ops is without CUDA: build it with a PyTorch for CUDA")


def normalize_architecture(text: str) -> str:
    """Return an architecture as NVRTC names it: ``sm_90`` for ``9.0``.

    Raises:
        ValueError: ``text`` is no compute capability.
    """
    match = re.fullmatch(r"(?:sm_)?(\d+)\.?(\d)", text)
    if not match:
        raise ValueError(f"{text!r} is not a compute capability; accepted are such as 8.0, 9.0 or sm_90")
    return f"sm_{match[1]}{match[2]}"


def architectures_at_hand() -> list[str]:
    """Return those of this machine's GPUs, or the default ones if it has none."""
    if not torch.cuda.is_available():
        return [normalize_architecture(text) for text in DEFAULT_ARCHITECTURES]
    capabilities = {torch.cuda.get_device_capability(device) for device in range(torch.cuda.device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(capabilities)]


def _sums() -> Iterator[tuple[torch.Size, int, tuple[int, ...]]]:
    """Shapes, offsets from a multiple of 16 bytes, and dimensions of the sums that are common."""
    for power in range(4, 32):
        for offset in (0, 1):
            yield torch.Size((2**power,)), offset, (0,)
            yield torch.Size((2**power + 1,)), offset, (0,)
    for shape, dims in (*LIST, *EXTRA, *NEIGHBOURS, *TRAINING):
        yield torch.Size(shape), 0, dims


def common(architecture: str) -> list[str]:
    """Return the common kernels for an architecture such as ``sm_90``: header and expression of each, sorted.

    They are those of full sums of every size, and of the shapes that ``bench dims`` races, of the common dtypes; those
    of full means of float32 and bfloat16; and all of the exact sums.
    """
    _check_cuda()
    multiprocessors = _MULTIPROCESSORS.get(architecture, 132)
    kernels: set[str] = set(torch.ops.reduce._exact_kernels())
    for dtype in COMMON_DTYPES:
        for shape, offset, dims in _sums():
            x = torch.empty(shape.numel() + offset, dtype=dtype, device="meta")[offset:].view(shape)
            kernels.update(torch.ops.reduce._kernels(x, dims, multiprocessors=multiprocessors))
            if x.dim() == 1 and dtype in (torch.float32, torch.bfloat16):
                kernels.update(torch.ops.reduce._kernels(x, dims, multiprocessors=multiprocessors, operator="mean"))
    return sorted(kernels)


def compile_common(
    architectures: Sequence[str], *, into: Path | None = None, done: Callable[[Compiled, int], None] | None = None
) -> list[Compiled]:
    """Compile the common kernels that are not on disk yet, on all cores.

    architectures: such as ``sm_90``. into: a folder instead of the disk cache. done: called with each kernel, and how
    many there are in all. Kernels that are there count as done, so that what was interrupted goes on.

    Raises:
        CompileError: There is no NVRTC, the build is without CUDA, or the folder cannot be written to.
    """
    _check_cuda()
    jobs = [(kernel, architecture) for architecture in architectures for kernel in common(architecture)]

    def compile_one(job: tuple[str, str]) -> Compiled:
        kernel, architecture = job
        start = time.perf_counter()
        path, size, compiled = torch.ops.reduce._compile(kernel, architecture, str(into or ""))
        seconds = time.perf_counter() - start if compiled else 0.0
        return Compiled(kernel, architecture, Path(path), size, seconds)

    results = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            for result in pool.map(compile_one, jobs):
                results.append(result)
                if done:
                    done(result, len(jobs))
        except RuntimeError as error:
            pool.shutdown(cancel_futures=True)
            raise CompileError(str(error).removeprefix("reduce_ops: ")) from error
    return results


def cache() -> Cache:
    """Return where compiled kernels are kept on this machine, and what is there.

    Raises:
        CompileError: The build is without CUDA.
    """
    _check_cuda()
    folder = Path(torch.ops.reduce._cache_folder())
    files = [path for path in folder.glob("*/sm_*/*.kernel") if path.is_file()]
    mine = torch.ops.reduce._sources()
    return Cache(
        folder=folder,
        kernels=len(files),
        bytes=sum(path.stat().st_size for path in files),
        architectures=tuple(sorted({path.parent.name for path in files})),
        stale=sum(path.parent.parent.name != mine for path in files),
    )


def clear_cache() -> int:
    """Remove all kernels from the disk cache, of every version of the package, and return how many there were.

    Only files that the cache wrote are removed, and folders that are empty then. Processes that have loaded a kernel
    keep it.

    Raises:
        CompileError: The build is without CUDA.
        OSError: A file cannot be removed.
    """
    folder = cache().folder
    removed = 0
    for parent in sorted(folder.glob("*/sm_*")):
        for path in [*parent.glob("*.kernel"), *parent.glob(".*.tmp"), *parent.glob("locks")]:
            path.unlink(missing_ok=True)
            removed += path.suffix == ".kernel"
        with suppress(OSError):  # another process has written there meanwhile, or it is not ours
            parent.rmdir()
            parent.parent.rmdir()
    return removed
