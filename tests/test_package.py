"""What is delivered: shared libraries without Python in them, and a typed package that imports quietly."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import reduce_ops
from reduce_ops import LADDER

PACKAGE = Path(reduce_ops.__file__).parent
ROOT = Path(__file__).parent.parent

EXPORTED = {
    "libreduce_ops.so": [],
    "libreduce_ops_schedule.so": ["reduce_ops_ladder", "reduce_ops_schedule"],
}

# setup.py's way to the schedule library, linked as by a compiler that takes no shared libstdc++.
BUILD_STATIC = """
import setuptools, sys
from distutils.core import run_setup
built = run_setup("setup.py", ["build_ext", "--build-lib", sys.argv[1], "--build-temp", sys.argv[1]], "commandline")
(library,) = [e for e in built.ext_modules if e.name == "reduce_ops.libreduce_ops_schedule"]
library.extra_link_args = [*library.extra_link_args, "-static-libstdc++", "-static-libgcc"]
built.ext_modules = [library]
built.run_commands()
"""
# Numbers and text by both libstdc++: the ladder, one schedule, and a message of PyTorch.
USE_BOTH = """
import ctypes, sys
if "torch first" in sys.argv:
    import torch
library = ctypes.CDLL(sys.argv[1])
library.reduce_ops_ladder.restype = library.reduce_ops_schedule.restype = ctypes.c_char_p
print(library.reduce_ops_ladder().decode())
print(library.reduce_ops_schedule(3, 256, 5000).decode())
import torch
try:
    torch.ones(3).view(7)
except RuntimeError as error:
    print(error)
"""


def run(*command: str | Path) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_python(code: str, *arguments: str | Path, folder: Path | None = None) -> str:
    """What a program prints that finds the package."""
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def exported(library: Path) -> list[str]:
    return [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]


@pytest.mark.parametrize("library", EXPORTED)
def test_exported_symbols(library: str) -> None:
    assert exported(PACKAGE / library) == EXPORTED[library]


def test_a_static_libstdcxx_does_not_meet_that_of_pytorch(tmp_path: Path) -> None:
    """Exported, its 4,100 functions cut the ladder's list, or messages of PyTorch, after a few characters."""
    compiler = os.environ.get("CXX", "c++").split()
    if not Path(run(*compiler, "-print-file-name=libstdc++.a").strip()).is_absolute():
        pytest.skip("the compiler has no libstdc++.a")
    run_python(BUILD_STATIC, tmp_path, folder=ROOT)
    library = tmp_path / "reduce_ops" / "libreduce_ops_schedule.so"
    assert "libstdc++" not in run("readelf", "-d", library)
    assert exported(library) == EXPORTED[library.name]
    for order in ("torch first", "torch last"):
        ladder, schedule, message = run_python(USE_BOTH, library, order).splitlines()
        assert [line["title"] for line in json.loads(ladder)] == [rung.title for rung in LADDER]
        assert json.loads(schedule)["blocks"] == 10
        assert message == "shape '[7]' is invalid for input of size 3"


def test_library_uses_no_python_api() -> None:
    lines = run("nm", "-D", "--undefined-only", PACKAGE / "libreduce_ops.so").splitlines()
    symbols = [line.split()[-1] for line in lines]
    assert any("torch" in symbol for symbol in symbols)  # or else nm showed something else
    assert [symbol for symbol in symbols if re.match(r"_?Py|.*pybind11", symbol)] == []


def test_library_links_with_torch_but_not_with_python() -> None:
    dynamic = run("readelf", "-d", PACKAGE / "libreduce_ops.so")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert "libtorch_cpu.so" in needed
    assert [name for name in needed if "python" in name] == []
    # A second OpenMP runtime would not hear of torch.set_num_threads.
    assert [name for name in needed if re.search("gomp|iomp|libomp", name)] == []


def test_the_schedule_is_a_library_without_torch() -> None:
    library = PACKAGE / "libreduce_ops_schedule.so"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))
    assert needed and [name for name in needed if re.search("torch|c10|cuda|python", name)] == []


def test_an_import_loads_the_operators(tmp_path: Path) -> None:
    """Whatever a program is called with, and also in a package that is run with ``-m``."""
    (tmp_path / "user").mkdir()
    use = "import reduce_ops, torch; print(torch.ops.reduce.sum(torch.ones(3)).item())"
    (tmp_path / "user" / "__init__.py").write_text(use)
    (tmp_path / "user" / "__main__.py").touch()
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    for program in (["user/__init__.py"], ["-m", "user"]):
        command = [sys.executable, *program, "-m", "reduce_ops"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
        assert (done.stdout, done.stderr) == ("3.0\n", "")


NAMES_OF_A_MODULE_THAT_IS_RUN = """
import runpy
runpy.run_module("reduce_ops.files")
import reduce_ops
assert set(reduce_ops.__all__) <= set(dir(reduce_ops))
assert reduce_ops.explain(3).rung == reduce_ops.LADDER[3]
assert not hasattr(reduce_ops, "no_such_name")
assert "torch" not in sys.modules
for name in reduce_ops.__all__:
    assert getattr(reduce_ops, name) is not None, name
import torch
print(torch.ops.reduce.sum(torch.ones(3)).item(), reduce_ops.sum(torch.ones(3)).item())
"""


def test_a_module_that_is_run_finds_all_names() -> None:
    """As ``python -m reduce_ops`` does; tests/test_explain.py has the command itself."""
    assert run_python(NAMES_OF_A_MODULE_THAT_IS_RUN) == "3.0 3.0\n"


CLASHES = """
import torch
def clash():
    try:
        import reduce_ops
    except ImportError as error:
        print(error)
library = torch.library.Library("reduce", "DEF")
clash()
del library
library = torch.library.Library("reduce", "FRAGMENT")
library.define("mine(Tensor x) -> Tensor")
clash()
del library
torch.ops.load_library(sys.argv[1])
clash()
"""


def test_another_library_of_the_same_namespace(tmp_path: Path) -> None:
    # A copy is another library, and takes no minutes to compile.
    copy = shutil.copy(PACKAGE / "libreduce_ops.so", tmp_path / "another.so")
    messages = run_python(CLASHES, copy).splitlines()
    for message, owner in zip(messages, ("at <string>:9", "reduce::mine", "at csrc/library.cpp:"), strict=True):
        assert message.startswith("libreduce_ops.so") and '"reduce"' in message and owner in message


NO_CLASHES = """
import ctypes, threading, torch
library = torch.library.Library("reduce", "DEF")
del library  # which gives the namespace back
kernels = torch.library.Library("reduce", "IMPL", "PrivateUse1")
kernels.impl("sum_v0", lambda x: x)

import runpy
runpy.run_module("reduce_ops.files")  # the package, but not the operators
from reduce_ops import _library
path = _library.find("reduce_ops")
start, loaded = threading.Barrier(8), []
def load():
    start.wait()
    _library.load("reduce_ops")
    loaded.append(True)
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(loaded) == 8

torch.ops.load_library(path)
torch.library.define("reduce::mine", "(Tensor x) -> Tensor")
for name in [name for name in sys.modules if name.startswith("reduce_ops")]:
    del sys.modules[name]
import reduce_ops
print(reduce_ops.sum(torch.ones(3)).item())
"""


def test_what_is_no_clash() -> None:
    """Kernels for our operators, threads that load at once, our own library once more, and operators beside ours."""
    assert run_python(NO_CLASHES) == "3.0\n"


def test_a_library_that_was_loaded_without_python() -> None:
    code = (
        "import ctypes, torch; ctypes.CDLL(sys.argv[1]); import reduce_ops; print(reduce_ops.sum(torch.ones(3)).item())"
    )
    assert run_python(code, PACKAGE / "libreduce_ops.so") == "3.0\n"


def test_library_registers_its_operators() -> None:
    schemas = {schema.name for schema in torch._C._jit_get_all_schemas()}
    assert {"reduce::_read", "reduce::sum", "reduce::sum_exact"} <= schemas
    assert {f"reduce::{rung.name}" for rung in LADDER} <= schemas


def test_every_line_of_the_list_of_rungs_is_a_rung() -> None:
    lines = re.findall(r'^RUNG\w*\((\d+), \w+, "(.*?)"', (ROOT / "csrc/ladder/ladder.def").read_text(), re.MULTILINE)
    assert lines == [(str(rung.number), rung.title) for rung in LADDER]


def test_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    # ladder.pyi describes functions that ladder.py makes in a loop: each has to be there and to be exported.
    stub = ast.parse((PACKAGE / "ladder.pyi").read_text())
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert functions >= {rung.name for rung in LADDER}
    assert functions <= set(reduce_ops.__all__)


def test_import_is_light_and_prints_nothing() -> None:
    """Neither the command line's packages nor a CUDA context, which takes a second and memory on the GPU."""
    code = "import reduce_ops, torch; print(torch.cuda.is_initialized(), *{'rich', 'safetensors'} & sys.modules.keys())"
    assert run_python(code) == "False\n"


def test_every_import_is_a_declared_dependency() -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"\W", requirement)[0] for requirement in project["dependencies"]}
    imported = set()
    for path in PACKAGE.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "reduce_ops").split(".")[0])
    assert imported - sys.stdlib_module_names - {"reduce_ops"} == declared
