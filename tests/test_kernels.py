"""Kernels compiled when they are needed: their names, their files, and what happens where something is missing.

NVRTC needs no GPU, so all but the launches is tested without one. test_kernels_cuda.py launches.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import textwrap
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch
from torch import Tensor

from processes import forkserver
from reduce_ops import _library
from support import PYTHON

_library.load("reduce_ops")

if not torch._C._dispatch_has_kernel("reduce::_compile"):
    pytest.skip("a build without CUDA has no kernels", allow_module_level=True)
if not torch.ops.reduce._compiler():
    pytest.skip("no NVRTC", allow_module_level=True)

ARCHITECTURE = "sm_90"


def kernels(x: Tensor, *dims: int, dtype: torch.dtype | None = None, multiprocessors: int = 132) -> list[str]:
    return torch.ops.reduce._kernels(x, dims or None, dtype=dtype, multiprocessors=multiprocessors)


def kernel() -> str:
    """One that compiles quickly."""
    (name,) = kernels(torch.empty(1000, 3))[:1]
    return name


def run(code: str, cwd: Path | None = None, **environment: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    """Run code in a new process that has the operators and `kernel`."""
    return subprocess.run(
        [*PYTHON, "-c", prelude() + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | {name: str(value) for name, value in environment.items()},
    )


def prelude() -> str:
    return f"import torch, reduce_ops\nops = torch.ops.reduce\nkernel = {kernel()!r}\n"


FIND = "path, size, compiled = ops._find_kernel(kernel, 'sm_90'); print(compiled, size)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty disk cache, also of this process: the library looks up where it is at each miss."""
    monkeypatch.setenv("REDUCE_OPS_CACHE", str(tmp_path))
    return tmp_path


def find(name: str | None = None) -> bool:
    """Return whether the kernel had to be compiled."""
    _, size, compiled = torch.ops.reduce._find_kernel(name or kernel(), ARCHITECTURE)
    assert size > 1000
    return compiled


def entry(folder: Path) -> Path:
    (path,) = folder.glob("*/sm_90/*.kernel")
    return path


def test_names_hold_structure_and_no_extent() -> None:
    first = kernels(torch.empty(2**20, device="meta"))
    assert len(first) == 1 and first[0].startswith("device/rows.cuh sum::sum_small_grid<256, false, sum::Aligned<")
    assert kernels(torch.empty(2**27, device="meta")) == kernels(torch.empty(2**30, device="meta"))
    x = torch.empty(4096, 4096, device="meta")
    assert kernels(x, 0) == kernels(x[:3000, :2048].contiguous(), 0)
    assert all("float16" in name for name in kernels(x.half(), 1))
    assert kernels(x.long(), 1) == kernels(x.to(torch.uint64), 1)  # both wrap


def test_two_launches_have_two_names() -> None:
    x = torch.empty(64, 300, 500, device="meta").mT
    assert len(kernels(x, 1, 2)) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_random_shapes_take_few_kernels(dtype: torch.dtype) -> None:
    """10,000 random contiguous shapes and dimensions of one dtype: 84 of float32, of every family with its sizes."""
    rng = random.Random(0)
    counts: Counter[str] = Counter()
    for _ in range(10_000):
        dims = rng.randint(1, 4)
        shape = [max(1, int(2 ** rng.uniform(0, 28 / dims))) for _ in range(dims)]
        x = torch.empty(shape, dtype=dtype, device="meta")
        over = rng.sample(range(dims), rng.randint(1, dims))
        counts.update(set(kernels(x, *over)))
    assert len(counts) <= 90, "\n".join(f"{count} {name}" for name, count in counts.most_common())


def test_every_source_of_a_kernel_compiles_without_the_toolkit(tmp_path: Path) -> None:
    """Kernels include nothing but what the library holds: NVRTC is given no folder to look in."""
    path, size, compiled = torch.ops.reduce._compile(kernel(), ARCHITECTURE, str(tmp_path))
    assert compiled and size > 1000 and Path(path).exists()
    assert torch.ops.reduce._compile(kernel(), ARCHITECTURE, str(tmp_path)) == (path, size, False)


def test_kernels_of_formulas_compile(tmp_path: Path) -> None:
    """One of each kind, but rows that stay in registers."""
    names: set[str] = set()
    for shape, dim in (
        *(((2**24,), None), ((2**16,), None), ((2**16, 16), 1)),
        *(((2**13, 300), 1), ((2**8, 2**12), 1), ((2**10, 2**10), 0)),
    ):
        tensors = [torch.empty(shape), torch.empty(shape, dtype=torch.bfloat16)]
        formula = "x0 x1 sub square x1 0.5 max div"
        names |= set(torch.ops.reduce._transform_kernels(tensors, formula, dim, multiprocessors=132))
    assert len({name.partition("<")[0] for name in names}) == 6
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda name: torch.ops.reduce._compile(name, ARCHITECTURE, str(tmp_path)), names))
    assert all(size > 1000 for _, size, _ in made)


def test_kernels_of_formulas_have_no_numbers() -> None:
    x = torch.empty(100)
    half, three = (torch.ops.reduce._transform_kernels([x], f"x0 {k} mul", multiprocessors=132) for k in (0.5, 3.0))
    assert half == three


@pytest.mark.parametrize("architecture", ["sm_80", "sm_100", "sm_120"])
def test_other_architectures(tmp_path: Path, architecture: str) -> None:
    path, _, compiled = torch.ops.reduce._compile(kernel(), architecture, str(tmp_path))
    assert compiled and Path(path).parent.name == architecture


def test_what_is_other_code_on_older_gpus(tmp_path: Path) -> None:
    """Conversions of bfloat16 and float8, and copies to shared memory."""
    names = [
        kernels(torch.empty(2**17, dtype=dtype, device="meta"))[0] for dtype in (torch.bfloat16, torch.float8_e5m2)
    ]
    names += [kernels(torch.empty(22, 5, 801, 15, device="meta").permute(3, 1, 2, 0), multiprocessors=4)[0]]
    assert "sum_boxes" in names[-1]
    for name in names:
        assert torch.ops.reduce._compile(name, "sm_80", str(tmp_path))[2]


@pytest.mark.parametrize("operator", ["norm", "root", "max", "min_abs"])
def test_other_operators(tmp_path: Path, operator: str) -> None:
    """A type to accumulate in is all that differs, in one launch and in two, of which the second takes nodes."""
    inputs = (
        (torch.empty(2**17, dtype=torch.float16, device="meta"), None),
        (torch.empty(1024, 4096, device="meta").t(), None),
        (torch.empty(300, 70, dtype=torch.float64, device="meta"), 0),
    )
    for x, dim in inputs:
        names = torch.ops.reduce._kernels(x, dim, multiprocessors=132, operator=operator)
        assert "Node<" in names[-1]
        for name in names:
            assert torch.ops.reduce._compile(name, ARCHITECTURE, str(tmp_path))[2]


def test_a_gpu_newer_than_nvrtc_gets_ptx(tmp_path: Path) -> None:
    path, _, _ = torch.ops.reduce._compile(kernel(), "sm_999", str(tmp_path))
    assert b".target sm_" in Path(path).read_bytes()


def test_bad_names_say_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="accepted is one such as sm_90"):
        torch.ops.reduce._compile(kernel(), "9.0", str(tmp_path))
    with pytest.raises(RuntimeError, match="accepted is a header and an expression"):
        torch.ops.reduce._compile("sum_grid", ARCHITECTURE, str(tmp_path))
    with pytest.raises(RuntimeError, match="refuses sum::none<int>"):
        torch.ops.reduce._compile("device/rows.cuh sum::none<int>", ARCHITECTURE, str(tmp_path))


def test_compiled_once_then_read(cache: Path) -> None:
    assert [find(), find()] == [True, False]
    assert run(FIND, REDUCE_OPS_CACHE=cache).stdout.startswith("False")


@pytest.mark.parametrize("harm", ["truncated", "changed", "empty", "another kernel's"])
def test_a_file_that_is_not_as_it_was_written_is_compiled_again(cache: Path, harm: str) -> None:
    find()
    path = entry(cache)
    whole = path.read_bytes()
    if harm == "truncated":
        path.write_bytes(whole[:-100])
    elif harm == "changed":
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(whole.replace(b"sum::sum_", b"sum::mus_"))
    assert find()
    assert len(path.read_bytes()) == len(whole)  # not its bytes: NVRTC numbers its output anew
    assert not find()


def test_debug_is_another_kernel_with_checks(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_sum = kernels(torch.empty(2**17, device="meta"))[0]
    assert find(full_sum)
    plain = entry(cache)
    monkeypatch.setenv("REDUCE_OPS_DEBUG", "1")
    assert find(full_sum)
    (debug,) = set(cache.glob("*/sm_90/*.kernel")) - {plain}
    assert b"whose block has not started" in debug.read_bytes()
    assert b"whose block has not started" not in plain.read_bytes()


def test_two_versions_of_the_package_do_not_meet(cache: Path) -> None:
    """The folder is named by the sources: what lies in another version's is never read."""
    find()
    entry(cache).parent.parent.rename(cache / "0123456789abcdef")
    assert find()
    assert len(list(cache.glob("*/sm_90/*.kernel"))) == 2


def test_a_folder_that_cannot_be_written_to_costs_one_warning() -> None:
    done = run(
        f"{FIND}\nops._find_kernel(kernel.replace('float32', 'float64'), 'sm_90')", REDUCE_OPS_CACHE="/dev/null/x"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True")
    assert done.stderr.count("Set REDUCE_OPS_CACHE") == 1


def test_a_full_disk_costs_one_warning(tmp_path: Path) -> None:
    small = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if small.returncode != 0:
        pytest.skip("this user may mount nothing")
    try:
        done = run(FIND, REDUCE_OPS_CACHE=tmp_path)
        assert done.stdout.startswith("True"), done.stderr
        assert done.stderr.count("Set REDUCE_OPS_CACHE") == 1
        assert not [path for path in tmp_path.rglob("*") if path.suffix in (".kernel", ".tmp")]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_without_nvrtc_files_are_used_and_an_error_says_what_helps(cache: Path) -> None:
    without = run(FIND, REDUCE_OPS_NVRTC="/nonexistent")
    assert without.returncode != 0
    assert "/nonexistent: cannot open shared object file" in without.stderr
    assert "pip install nvidia-cuda-nvrtc" in without.stderr
    assert "python -m reduce_ops compile" in without.stderr
    find()
    assert run(FIND, REDUCE_OPS_NVRTC="/nonexistent").stdout.startswith("False")


def find_all(start: Barrier, cache: str, names: list[str], compiled: Queue[int]) -> None:
    os.environ["REDUCE_OPS_CACHE"] = cache
    start.wait()
    compiled.put(sum(find(name) for name in names))


def test_several_processes_compile_each_kernel_once(tmp_path: Path) -> None:
    x = torch.empty(1000, 3)
    names = [kernels(x.to(dtype), dim)[0] for dtype in (torch.float32, torch.float64) for dim in (0, 1)]
    context = forkserver()
    start, compiled = context.Barrier(8), context.Queue()
    arguments = (start, str(tmp_path), names, compiled)
    processes = [context.Process(target=find_all, args=arguments, daemon=True) for _ in range(8)]
    for process in processes:
        process.start()
    assert sum(compiled.get(timeout=300) for _ in processes) == len(names)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert len(list(tmp_path.glob("*/sm_90/*.kernel"))) == len(names)
    assert not list(tmp_path.glob("*/sm_90/.*.tmp"))


def test_a_process_that_dies_while_it_compiles_holds_up_nobody(cache: Path) -> None:
    """It is killed with the lock in its hands."""
    slow = kernels(torch.empty(100, 100, 100, 5)[:, ::2, ::3, ::2], dtype=torch.float64)[0]
    code = prelude() + f"print('ready', flush=True)\nops._find_kernel({slow!r}, 'sm_90')\n"
    dying = subprocess.Popen([*PYTHON, "-c", code], stdout=subprocess.PIPE, text=True)
    assert dying.stdout is not None and dying.stdout.readline() == "ready\n"
    while not list(cache.glob("*/sm_90/locks")):
        time.sleep(0.001)
    dying.send_signal(signal.SIGKILL)
    dying.wait()
    assert find(slow)
    assert len(list(cache.glob("*/sm_90/*.kernel"))) == 1


def test_threads_compile_each_kernel_once(cache: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        compiled = list(pool.map(lambda _: find(), range(8)))
    assert sum(compiled) == 1


def test_a_package_with_kernels_needs_no_nvrtc(tmp_path: Path) -> None:
    """Those in the folder `kernels` beside the library come first."""
    package = tmp_path / "reduce_ops"
    package.mkdir()
    for path in Path(_library.find("reduce_ops")).parent.iterdir():
        if path.is_file():
            (package / path.name).symlink_to(path) if path.suffix != ".so" else os.link(path, package / path.name)
    torch.ops.reduce._compile(kernel(), ARCHITECTURE, str(package / "kernels"))
    done = run(FIND, tmp_path, PYTHONPATH=tmp_path, REDUCE_OPS_CACHE="/dev/null/x", REDUCE_OPS_NVRTC="/none")
    assert done.stdout.startswith("False"), done.stderr
    assert done.stderr == ""


def cli(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTHON, "-m", "reduce_ops", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"REDUCE_OPS_CACHE": str(cache)},
    )


def test_cache_shows_and_clears(cache: Path) -> None:
    find()
    other = cache / "0123456789abcdef" / "sm_80" / "sum_old.nvrtc13.0.kernel"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"x")
    keep = cache / "not ours"
    keep.write_text("x")
    (cache / "nor this").mkdir()
    shown = cli("cache", cache=cache)
    assert f"{cache}: 2 kernels for sm_80, sm_90" in shown.stdout
    assert "1 of them of other versions" in shown.stdout
    assert "removed 2 kernels" in cli("cache", "--clear", cache=cache).stdout
    assert sorted(cache.rglob("*")) == [cache / "nor this", keep]


def test_compile_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reduce_ops import kernels as engine

    monkeypatch.setattr(engine, "common", lambda _: [kernel(), kernel().replace("float32", "float64")])
    seen: list[tuple[str, int]] = []
    first = engine.compile_common(["sm_90"], into=tmp_path, done=lambda one, total: seen.append((one.kernel, total)))
    assert [one.seconds > 0 for one in first] == [True, True]
    assert seen == [(one.kernel, 2) for one in first]
    entries = sorted(tmp_path.glob("*/sm_90/*.kernel"))
    entries[0].unlink()
    again = engine.compile_common(["sm_90"], into=tmp_path)
    assert sorted(one.seconds > 0 for one in again) == [False, True]


def test_compile_refuses_what_is_no_architecture(tmp_path: Path) -> None:
    done = cli("compile", "--arch", "hopper", cache=tmp_path)
    assert done.returncode == 2
    assert "'hopper' is not a compute capability; accepted are such as 8.0, 9.0 or sm_90" in done.stderr


def test_compile_says_where_it_cannot_write() -> None:
    done = cli("compile", "--arch", "9.0", "--into", "/dev/null/x", cache=Path("/dev/null/y"))
    assert done.returncode == 1
    assert "kernels cannot be written to" in done.stderr


def test_common_kernels_are_named_for_every_architecture() -> None:
    from reduce_ops import kernels as engine

    names = engine.common("sm_90")
    assert names == sorted(set(names))
    assert 100 < len(names) < 700
    for header in ("rows", "columns", "narrow_columns", "short_rows"):
        assert any(name.startswith(f"device/{header}.cuh") for name in names)
    assert engine.common("sm_80")
