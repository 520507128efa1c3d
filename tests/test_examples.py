"""The programs in examples/, and the packages of AOTInductor that one of them runs."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

import reduce_ops
from support import needs_a_compiler, where_aot_inductor_works

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = Path(reduce_ops.__file__).with_name("libreduce_ops.so")


def run(*command: str | Path, timeout: int = 300) -> str:
    paths = [str(LIBRARY.parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    words = [str(part) for part in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_train(tmp_path: Path, device: torch.device) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn, which has the data, is not installed")
    picture = tmp_path / "loss.png"
    train = (
        sys.executable,
        ROOT / "examples" / "train.py",
        "--epochs",
        "12",
        "--plot",
        picture,
        "--device",
        device.type,
    )
    output = run(*train)
    found = re.findall(r"(\S+): loss (\S+), accuracy (\S+), (\S+) us a step", output)
    assert [name for name, *_ in found] == ["sum_v7", "torch.sum"]
    for _, loss, accuracy, _ in found:
        assert float(loss) < 0.3 and float(accuracy) > 0.9
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs of examples/libtorch."""
    cmake = shutil.which("cmake", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if cmake is None:
        pytest.skip("cmake is not installed")
    if torch.version.cuda is not None and cpp_extension.CUDA_HOME is None:
        pytest.skip("the CMake files of a PyTorch with CUDA want the CUDA toolkit")
    build = tmp_path_factory.mktemp("libtorch")
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    if cpp_extension.CUDA_HOME is not None:
        os.environ.setdefault("CUDACXX", str(Path(cpp_extension.CUDA_HOME, "bin", "nvcc")))
    run(cmake, "-S", ROOT / "examples" / "libtorch", "-B", build, prefix, "-DCMAKE_BUILD_TYPE=Release")
    run(cmake, "--build", build, "--parallel", "2")
    return build


@pytest.mark.slow
def test_sums_from_cpp(programs: Path) -> None:
    output = run(programs / "sums", LIBRARY)
    found = re.findall(
        r"^(\w+(?::\d+)?): sum_v7 (\S+), sum (\S+), first row (\S+), gradient (\S+)$", output, re.MULTILINE
    )
    assert found[0][0] == "cpu" and len(found) == 1 + torch.cuda.is_available()
    for _, *numbers in found:
        sum_v7, total, row, gradient = map(float, numbers)
        assert sum_v7 == pytest.approx(total, rel=1e-5) == pytest.approx(1000 * 1003 / 2, rel=1e-2)
        assert row == pytest.approx(1003 / 2, rel=0.1)
        assert gradient == 2
    if shutil.which("ldd"):
        assert "python" not in re.sub(r"=> \S+", "", run("ldd", programs / "sums"))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(20, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = self.linear(x), x * 3
        # Not the default block size: PyTorch 2.11 cannot run a package in which an int is given its default.
        sums = torch.ops.reduce.sum_v7(y, block_size=128), reduce_ops.sum(y * y, 0), torch.ops.reduce.block_sums_v6(y)
        return *sums, torch.ops.reduce.sum_v6(z), reduce_ops.sum(z, 0), torch.ops.reduce.block_sums_v3(z)


def export_and_package(folder: Path, device: torch.device) -> None:
    """The model as model.pt2, and what AOTInductor makes of it as package.pt2; both give what the model gives."""
    model = Model().eval().to(device)
    x = torch.randn(50, 20, device=device)
    rows = torch.export.Dim("rows", min=50, max=10_000)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: rows},))
    targets = {str(node.target) for node in exported.graph.nodes if node.op == "call_function"}
    assert {"reduce.sum_v7.default", "reduce.sum.dim_IntList", "reduce.block_sums_v6.default"} <= targets
    torch.export.save(exported, folder / "model.pt2")
    loaded = torch.export.load(folder / "model.pt2").module()
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "package.pt2"))
    compiled = torch._inductor.aoti_load_package(package)
    for count in (50, 3000):
        x = torch.randn(count, 20, device=device)
        for function in (loaded, compiled):
            for actual, expected in zip(function(x), model(x), strict=True):
                torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def package_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[torch.device], Path]:
    """The package for a device, which takes seconds to compile, and so is compiled once."""

    @functools.cache
    def package(device: torch.device) -> Path:
        folder = tmp_path_factory.mktemp("package")
        where_aot_inductor_works(export_and_package, folder, device)
        return folder / "package.pt2"

    return package


@pytest.mark.slow
@needs_a_compiler
def test_export_and_aot_inductor(package_for: Callable[[torch.device], Path], device: torch.device) -> None:
    """What export_and_package() asserts holds."""
    assert package_for(device).is_file()


def test_a_package_from_cpp(programs: Path, package_for: Callable[[torch.device], Path]) -> None:
    output = run(programs / "package", LIBRARY, package_for(torch.device("cpu")), "300", "20")
    expected = [result.sum().item() for result in Model()(torch.ones(300, 20))]
    sums = [float(line) for line in output.split()]
    assert sums == pytest.approx(expected, rel=1e-4)
    assert sums[3:] == [18_000] * 3
