"""CUB's sums, which benchmarks build when they first ask. Here without nvcc: the build itself takes minutes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.utils import cpp_extension

from reduce_ops import _cub

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for libraries, as an installed package has one; nothing is remembered from test to test."""
    monkeypatch.setattr(_cub, "__file__", str(tmp_path / "site-packages/reduce_ops/_cub.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _cub.functions.cache_clear()
    yield tmp_path / "cache/reduce_ops/cub"
    _cub.functions.cache_clear()


def with_nvcc(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "bin/nvcc").touch()
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", str(home))


@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_without_nvcc_cub_takes_no_part(
    home: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", home)
    assert _cub.functions() == (None, None)
    assert _cub.functions() == (None, None)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1  # said once
    assert "CUB takes no part: no CUDA toolkit found" in lines[0]


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_failed_build_leaves_its_log_and_nothing_else(
    error: type[Exception],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, build_directory: str, **__: object) -> None:
        (Path(build_directory) / "half.o").touch()
        raise error("what the compiler said\nline after line")

    with_nvcc(monkeypatch, tmp_path / "cuda")
    monkeypatch.setattr(cpp_extension, "load", fail)
    assert _cub.functions() == (None, None)
    (log,) = folder.iterdir()
    assert "what the compiler said\nline after line" in log.read_text()
    building, failed = capsys.readouterr().err.splitlines()
    assert f"building CUB's sums in {folder}" in building
    assert failed.endswith(f"could not be built, see {log}")


def test_what_was_built_is_loaded_the_next_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(name: str, sources: list[str], *, build_directory: str, **_: object) -> None:
        assert {Path(source).name for source in sources} == {"operators.cpp", "cub_sum.cu", "cub_reproducible_sum.cu"}
        (Path(build_directory) / f"{name}.so").write_text("a library")

    loaded = []
    with_nvcc(monkeypatch, tmp_path / "cuda")
    monkeypatch.setattr(cpp_extension, "load", build)
    monkeypatch.setattr(_cub.torch.ops, "load_library", loaded.append)
    _cub._load()
    (library,) = folder.iterdir()
    assert library.read_text() == "a library"
    assert "built CUB's sums in 0 s" in capsys.readouterr().err
    _cub._load()
    assert loaded == [library]
    assert capsys.readouterr().err == ""


def test_another_gpu_or_another_source_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    for archs in ("8.0", "9.0"):
        monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", archs)
        keys.append(_cub._key())
        assert _cub._key() == keys[-1]
    shutil.copytree(_cub.SOURCES, tmp_path / "cub")
    monkeypatch.setattr(_cub, "SOURCES", tmp_path / "cub")
    assert _cub._key() == keys[-1]
    with (tmp_path / "cub/widen.cuh").open("a") as file:
        file.write("// changed\n")
    keys.append(_cub._key())
    assert len(set(keys)) == 3


def test_a_source_tree_builds_in_its_build_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cub, "__file__", str(ROOT / "reduce_ops/_cub.py"))
    assert _cub.folder() == ROOT / "build/cub"


def test_the_package_has_the_sources(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    shipped = {file.name: file.read_bytes() for file in (tmp_path / "reduce_ops/cub").iterdir()}
    assert shipped == {file.name: file.read_bytes() for file in (ROOT / "reduce_ops/cub").iterdir()}
