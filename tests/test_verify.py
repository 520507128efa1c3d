"""`python -m reduce_ops verify`, the cases of order 1, and the NumPy script that their hashes come from."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from reduce_ops import verify
from reduce_ops.__main__ import main
from support import DTYPES, FLOATS, INTEGERS, ROOT

SUITE = verify.read(verify.FILE)
CASES = SUITE.cases
NAMES = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
NOT_INTEGERS = [str(dtype).removeprefix("torch.") for dtype in DTYPES if dtype not in INTEGERS]
INSTRUCTIONS = verify.CAPABILITIES[: verify.CAPABILITIES.index(torch.ops.reduce._cpu()[0]) + 1]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load(ROOT / "examples" / "order1.py")


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return load(ROOT / "tools" / "make_order1.py")


def without_hash(case: verify.Case) -> verify.Case:
    return {key: value for key, value in case.items() if key != "hash"}


def file_of(folder: Path, cases: Sequence[verify.Case], order: int = 1) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps({"order": order, "formats": SUITE.formats, "cases": cases}))
    return path


# ---- verify


def test_every_case(device: torch.device) -> None:
    check = verify.check(SUITE, device)
    assert check.first is None
    assert check.passed == check.cases == len(CASES) > 1500


def test_the_command_checks_every_instruction_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, CASES[::20])
    assert main(["verify", "--device", "cpu", "--cases", str(path)]) == 0
    table, errors = capsys.readouterr()
    count = str(len(CASES[::20]))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
    assert [row[:4] for row in rows] == [["cpu", instructions, count, count] for instructions in INSTRUCTIONS]
    assert errors == ""


def test_a_wrong_hash_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.ops.reduce, "_cpu", lambda: ("default", "ahead"))  # and so has one instruction set
    wrong = "0123456789abcdef"
    cases = [case | {"hash": wrong} if i in (3, 8) else case for i, case in enumerate(CASES[1000:1010])]
    assert main(["verify", "--device", "cpu", "--cases", str(file_of(tmp_path, cases))]) == 1
    table, errors = capsys.readouterr()
    assert "│    10 │      8 │" in table
    assert errors == (
        "cpu, default: 2 of 10 cases differ, the first of them\n"
        f"case 4: {json.dumps(without_hash(CASES[1003]))}\n"
        f"  expected {wrong}\n"
        f"  got      {CASES[1003]['hash']}\n"
    )


def test_a_case_that_raises_an_error_differs() -> None:
    case = {"operator": "sum", "dtype": "complex64", "size": [3], "stride": [1], "to": "float32", "hash": ""}
    check = verify.check(verify.Suite(SUITE.formats, [CASES[1], case]), torch.device("cpu"))
    assert check.passed == 1
    assert check.first is not None and check.first.number == 2
    assert check.first.got.startswith(
        "RuntimeError: sum: dtype is Float, which cannot hold the result of a ComplexFloat tensor"
    )


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("import os; os.kill(os.getpid(), 4)", "cpu, avx2: the process was ended by SIGILL"),
        (
            "import nothing",
            "cpu, avx2: the process ended with exit code 1: ModuleNotFoundError: No module named 'nothing'",
        ),
    ],
)
def test_a_process_that_dies_is_told(
    code: str, failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(path: Path, capability: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    monkeypatch.setattr(verify, "_start", start)
    monkeypatch.setattr(torch.ops.reduce, "_cpu", lambda: ("avx2", "ahead"))
    assert main(["verify", "--device", "cpu", "--cases", str(file_of(tmp_path, CASES[:1]))]) == 1
    assert failure in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("cases", "order", "reason"),
    [
        ([], 2, "is of order 2; this version of reduce_ops has order 1"),
        (
            [{"operator": "median"}],
            1,
            f"has cases of the operator 'median'; known are {', '.join(verify.OPERATORS)}",
        ),
        ([{}], 1, "is not a file of cases: KeyError: 'operator'"),
    ],
)
def test_a_file_of_something_else(
    cases: list[verify.Case], order: int, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file_of(tmp_path, cases, order)
    with pytest.raises(SystemExit, match="2"):
        main(["verify", "--cases", str(path)])
    assert f"argument --cases: {path} {reason}\n" in capsys.readouterr().err


def test_a_device_that_cannot_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for name, reason in (
        ("tpu", "'tpu' is not a device; accepted are cpu, cuda and cuda:N"),
        ("cuda:99", verify.why_no_gpu() or "there is no cuda:99"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["verify", "--device", name])
        assert f"argument --device: {reason}" in capsys.readouterr().err


def test_devices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def devices(*names: str) -> list[str]:
        return [str(device) for device in verify.devices(names or None)]

    monkeypatch.setattr(verify, "why_no_gpu", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices() == ["cpu", "cuda:0", "cuda:1"]
    assert devices("cuda", "cpu", "cuda:1") == ["cuda:0", "cuda:1", "cpu"]
    with pytest.raises(verify.VerifyError, match=r"^there is no cuda:2; accepted are cpu, cuda, cuda:0, cuda:1$"):
        devices("cuda:2")
    monkeypatch.setattr(verify, "why_no_gpu", lambda: "no CUDA device is there")
    assert devices() == ["cpu"]
    with pytest.raises(verify.VerifyError, match=r"^no CUDA device is there$"):
        devices("cpu", "cuda")
    monkeypatch.setattr(verify, "run", lambda path, devices: [])
    assert main(["verify"]) == 0
    assert capsys.readouterr().out.endswith("cuda: skipped, no CUDA device is there\n")


# ---- the file


def test_the_file_is_what_its_script_makes(maker: ModuleType) -> None:
    """But for the hashes: those are of the next test."""
    assert SUITE.formats == maker.formats()
    assert [without_hash(case) for case in CASES] == list(maker.cases())
    text = verify.FILE.read_text()
    assert text == maker.text_of(CASES)
    assert len(text) < 300_000


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numpy_reproduces_the_hashes(script: ModuleType) -> None:
    """All but one in 10 of the large cases, which take more time than they tell."""
    large = [case for case in CASES if math.prod(case["size"]) > 2**17]
    for case in [case for case in CASES if case not in large] + large[::10]:
        assert script.result_hash(case, SUITE.formats) == case["hash"], case


def test_the_script_says_what_differs(tmp_path: Path) -> None:
    cases = [CASES[0], CASES[1] | {"hash": "?"}]
    command = [sys.executable, ROOT / "examples" / "order1.py", file_of(tmp_path, cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == f"{json.dumps(cases[1])}: computed {CASES[1]['hash']}\n2 cases, of which 1 differ\n"


def test_the_file_is_part_of_the_package() -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    patterns = tools["setuptools"]["package-data"]["reduce_ops"]
    assert any(fnmatch.fnmatch(verify.FILE.name, pattern) for pattern in patterns)


# ---- what the cases cover


def plain(dtype: str) -> list[verify.Case]:
    """Cases without a conversion and without zeros, subnormal numbers and the like."""
    cases = [case for case in CASES if case["dtype"] == dtype and "to" not in case]
    return [case for case in cases if case.get("values", "mixed") in ("mixed", "positive")]


@pytest.mark.parametrize("dtype", NAMES)
def test_every_dtype_at_every_limit(dtype: str) -> None:
    sizes = {case["size"][0] for case in plain(dtype) if case["stride"] == [1]}
    assert sizes >= {0, 1, 2, 3} | {2**k + d for k in (5, 8, 9, 10, 12, 16, 20) for d in (-1, 0, 1)}


@pytest.mark.parametrize("dtype", NAMES)
def test_every_dtype_in_many_layouts(dtype: str) -> None:
    cases = [case for case in plain(dtype) if len(case["size"]) > 1]
    is_kind: dict[str, Callable[[verify.Case], bool]] = {
        "rows": lambda c: c.get("dim") == [1] and c["stride"][1] == 1,
        "columns": lambda c: c.get("dim") == [0] and c["stride"][1] == 1,
        "across memory": lambda c: c["stride"] == sorted(c["stride"]) and len(c.get("dim", c["size"])) > 1,
        "three dimensions or more": lambda c: len(c["size"]) > 2,
        "a dimension between two others": lambda c: len(c["size"]) > 2 and c.get("dim") in ([0, 2], [0, 2, 3]),
    }
    assert [kind for kind, check in is_kind.items() if not any(map(check, cases))] == []


def test_strides_and_empty_tensors() -> None:
    for dtype in ("float32", "float64", "bfloat16", "complex64", "int32"):
        cases = plain(dtype)
        assert any(0 in case["stride"] for case in cases)
        assert any(case["stride"][-1:] == [2] for case in cases)
        assert any(case.get("offset", 0) % 4 for case in cases)
        assert any(len(case["size"]) > 12 for case in cases)
        assert any(case["size"] == [] for case in cases)
    for dim in ([1], [2]):  # summed over, and kept
        assert any(case["size"] == [3, 0, 4] and case["dim"] == dim for case in CASES)


@pytest.mark.parametrize("dtype", NOT_INTEGERS)
def test_special_values(dtype: str) -> None:
    for values in ("special", "subnormal", "minus zero"):
        assert sum(case["dtype"] == dtype and case.get("values") == values for case in CASES) >= 4


def test_conversions() -> None:
    """All that order 1 has: to real dtypes from real ones, to integers from some floats, none to float8_e4m3fn."""
    pairs = {(case["dtype"], case["to"]) for case in CASES if "to" in case}
    integers, floats = ([str(dtype).removeprefix("torch.") for dtype in dtypes] for dtypes in (INTEGERS, FLOATS))
    complex_ = [name for name in NAMES if name.startswith("complex")]
    wanted = {(a, b) for a in NAMES for b in complex_} | {(a, b) for a in integers for b in NAMES}
    wanted |= {(a, b) for a in floats for b in (*floats, "bool", "int32", "int64")}
    wanted = {(a, b) for a, b in wanted if a != b and b != "float8_e4m3fn"}
    assert pairs == wanted | {("float32", "float8_e4m3fn")}  # of -0.0 alone


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", NOT_INTEGERS)
def test_the_order_shows(dtype: str, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements added one after the other give other bits."""

    def one_after_the_other(x: np.ndarray) -> np.ndarray:
        return np.add.accumulate(x, axis=0)[-1] if len(x) else np.zeros(x.shape[1:], x.dtype)

    monkeypatch.setattr(script, "tree_sum", one_after_the_other)
    cases = [case for case in plain(dtype) if 256 < math.prod(case["size"]) < 2**17]
    differ = [case for case in cases if script.result_hash(case, SUITE.formats) != case["hash"]]
    assert len(cases) >= 25
    assert 3 * len(differ) >= len(cases), len(differ)
