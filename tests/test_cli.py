"""``python -m reduce_ops bench``: as a user runs it once, then through main(), which starts sooner."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from reduce_ops import LADDER, bench_dims, bench_exact, bench_ladder, bench_sum, exact_value, measure
from reduce_ops.__main__ import main
from support import SHORT_RUN_SECONDS

pytestmark = pytest.mark.usefixtures("short_timings")

ONLY_LADDER = (["--n", str(bench_ladder.REFERENCE_N)], ["--rungs", "v0"], ["--input", "x.npy"])
NAMES = [rung.name for rung in LADDER] + ["torch.sum"]


# python -m reduce_ops, with short_timings.
RUN = f"""
import runpy
from reduce_ops import measure
measure.RUN_SECONDS = {SHORT_RUN_SECONDS}
runpy.run_module("reduce_ops", run_name="__main__", alter_sys=True)
"""


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, "bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parent,  # not the root, whose reduce_ops would hide an installed one
    )


def figures(path: Path) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


@pytest.fixture(scope="module")
def whole_ladder(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], dict]:
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    result = bench("--n", "5000", "--json", path)
    assert result.returncode == 0, result.stderr
    return result, figures(path)


def test_table(whole_ladder: tuple[subprocess.CompletedProcess[str], dict]) -> None:
    output = whole_ladder[0].stdout
    for rung in LADDER:
        (row,) = [line for line in output.splitlines() if f" {rung.name} " in line]
        assert f" {rung.title} " in row
    assert sum(" torch.sum " in line and "vs torch.sum" not in line for line in output.splitlines()) == 1
    assert "5,000 x float32" in output
    assert ("CPU figures" in output) == (not torch.cuda.is_available())


def test_a_pipe_gets_no_progress_bar_and_no_colours(
    whole_ladder: tuple[subprocess.CompletedProcess[str], dict],
) -> None:
    result = whole_ladder[0]
    for noise in ("\r", "\x1b", "timing", "host cost"):
        assert noise not in result.stdout + result.stderr


def test_json(whole_ladder: tuple[subprocess.CompletedProcess[str], dict]) -> None:
    report = whole_ladder[1]
    facts = {"benchmark": "ladder", "n": 5000, "dtype": "float32", "bytes": 20000}
    assert report.items() >= facts.items()
    assert report["read_seconds"] > 0
    assert report["read_bytes_per_second"] == pytest.approx(20000 / report["read_seconds"])
    assert {"date", "commit", "torch", "python", "device"} <= report["environment"].keys()
    assert report["environment"]["torch"] == torch.__version__
    assert ("driver" in report["environment"]) == torch.cuda.is_available()

    rows = {row["name"]: row for row in report["rows"]}
    assert list(rows) == NAMES
    for row in rows.values():
        assert row["seconds"] > 0 and row["iqr"] >= 0 and row["host_seconds"] > 0
        assert row["bytes_per_second"] == pytest.approx(20000 / row["seconds"])
        assert row["read_share"] == pytest.approx(report["read_seconds"] / row["seconds"])
        assert row["over_torch_sum"] == pytest.approx(rows["torch.sum"]["seconds"] / row["seconds"])
        assert 0 <= row["relative_error"] < 1e-5
    for before, rung in itertools.pairwise(LADDER):
        row = rows[rung.name]
        assert row["title"] == rung.title
        assert row["step"] == pytest.approx(rows[before.name]["seconds"] / row["seconds"])
    assert rows["sum_v0"]["step"] is None
    assert rows["torch.sum"]["step"] is None


def run_main(tmp_path: Path, *arguments: str | Path) -> dict:
    path = tmp_path / "figures.json"
    assert main(["bench", *map(str, arguments), "--json", str(path)]) == 0
    return figures(path)


def test_chosen_rungs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = run_main(tmp_path, "--n", "1", "--rungs", "7,v0,sum_v3", "--dtype", "float16")
    assert (report["n"], report["dtype"]) == (1, "float16")
    names = ["sum_v0", "sum_v3", "sum_v7", "torch.sum"]
    assert [row["name"] for row in report["rows"]] == names
    assert all(row["step"] is None for row in report["rows"])
    rows = [line for line in capfd.readouterr().out.splitlines() if "host us" not in line]
    assert [name for row in rows for name in NAMES if f" {name} " in row] == names


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "complex64", "int8", "bool"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    report = run_main(tmp_path, "--n", "300", "--rungs", "7", "--dtype", dtype)
    assert report["dtype"] == dtype
    assert report["bytes"] == 300 * getattr(torch, dtype).itemsize


@pytest.mark.parametrize("name", ["x.npy", "x.pt", "named.pt", "x.safetensors"])
def test_input_file(name: str, tmp_path: Path) -> None:
    x = torch.arange(600, dtype=torch.float64).reshape(20, 30)
    path = tmp_path / name
    if path.suffix == ".npy":
        np.save(path, x.numpy())
    elif path.suffix == ".pt":
        torch.save({"weight": x} if name == "named.pt" else x, path)
    else:
        save_file({"weight": x}, path)
    report = run_main(tmp_path, "--input", path, "--rungs", "0")
    assert (report["n"], report["dtype"]) == (600, "float64")
    assert all(row["relative_error"] == 0 for row in report["rows"])


def test_input_file_with_dtype(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10))
    report = run_main(tmp_path, "--input", tmp_path / "x.npy", "--rungs", "0", "--dtype", "float16")
    assert (report["n"], report["dtype"]) == (10, "float16")


@pytest.mark.parametrize(
    "arguments, argument",
    [
        (["--n", "0"], "--n"),
        (["--n", "-5"], "--n"),
        (["--n", "many"], "--n"),
        (["--n", "1.5"], "--n"),
        (["--n", str(2**62 + 1)], "--n"),
        (["--dtype", "float31"], "--dtype"),
        (["--rungs", "9"], "--rungs"),
        (["--rungs", "v0,v12"], "--rungs"),
        (["--rungs", ""], "--rungs"),
        (["--rungs", "0,,3"], "--rungs"),
        (["--json", "missing/folder/figures.json"], "--json"),
        (["--input", "missing.npy"], "--input"),
        (["--input", "x.txt"], "--input"),
        (["--input", "folder.npy"], "--input"),
        (["--input", "garbage.npy"], "--input"),
        (["--input", "garbage.pt"], "--input"),
        (["--input", "garbage.safetensors"], "--input"),
        (["--input", "cut.npy"], "--input"),
        (["--input", "objects.npy"], "--input"),
        (["--input", "strings.npy"], "--input"),
        (["--input", "pickle.pt"], "--input"),
        (["--input", "two.safetensors"], "--input"),
        (["--input", "two.pt"], "--input"),
        (["--input", "list.pt"], "--input"),
        (["--input", "empty.npy"], "--input"),
        (["--input", "sparse.pt"], "--input"),
        (["--input", "x.npy", "--n", "5"], "--n"),
        (["--speed"], "--speed"),
        (["--plot", "ladder.png"], "--plot"),
        (["--json", "folder.npy"], "--json"),
        (["sum", "--plot", "folder.npy"], "--plot"),
        (["sum", "--plot", "sum.gif"], "--plot"),
        (["dims", "--plot", "dims"], "--plot"),
        *[([race, *option], option[0]) for race in ("sum", "dims", "exact") for option in ONLY_LADDER],
        (["exact", "--dtype", "int32"], "--dtype"),
        (["exact", "--dtype", "complex64"], "--dtype"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
@pytest.mark.usefixtures("odd_files")
def test_bad_arguments(arguments: list[str], argument: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["bench", *arguments])
    assert error.value.code == 2
    output = capfd.readouterr()
    assert output.out == ""
    usage, _, message = output.err.partition("error: ")
    assert usage.startswith("usage: ")
    assert argument in message
    assert message.count("\n") == 1, message  # one line


@pytest.fixture
def odd_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.npy").mkdir()
    Path("x.txt").write_text("1 2 3\n")
    for suffix in ("npy", "pt", "safetensors"):
        Path(f"garbage.{suffix}").write_bytes(b"\x00garbage\n" * 20)
    np.save("x.npy", np.ones(100))
    Path("cut.npy").write_bytes(Path("x.npy").read_bytes()[:-50])
    np.save("objects.npy", np.array([{}, None]), allow_pickle=True)
    np.save("strings.npy", np.array(["a", "b"]))
    np.save("empty.npy", np.ones(0))
    torch.save(Path("anything"), "pickle.pt")
    torch.save({"a": torch.ones(2), "b": torch.ones(2)}, "two.pt")
    torch.save([torch.ones(2)], "list.pt")
    torch.save(torch.eye(3).to_sparse(), "sparse.pt")
    save_file({"a": torch.ones(2), "b": torch.ones(2)}, "two.safetensors")


@pytest.mark.parametrize(
    "command, argument",
    [("bench --n 1000 --rungs v0 --json", "--json"), ("explain v3 --plot", "--plot")],
)
def test_a_write_that_fails_leaves_what_was_there(
    command: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.svg"
    path.write_text("old")

    def full(self: Path, content: str | bytes) -> NoReturn:
        with self.open("wb") as file:
            file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write_text", "write_bytes"):
        monkeypatch.setattr(Path, name, full)
    with pytest.raises(SystemExit) as error:
        main([*command.split(), str(path)])
    assert error.value.code == 2
    message = capfd.readouterr().err.partition("error: ")[2]
    assert message.startswith(f"argument {argument}: ") and message.count("\n") == 1
    assert "No space left on device" in message
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


def test_a_device_is_written_to_and_not_replaced(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--n", "1000", "--rungs", "v0", "--json", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_more_elements_than_any_machine_holds(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--n", str(2**62), "--rungs", "v0"]) == 1
    assert capfd.readouterr().err.startswith("out of memory: ")


def test_bad_arguments_end_the_process_with_2() -> None:
    result = bench("--rungs", "v9")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("python -m reduce_ops bench: error: argument --rungs")


def test_no_command_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main([])
    assert error.value.code == 2
    assert "COMMAND" in capfd.readouterr().err


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def test_race_of_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    cases = [
        *(bench_sum.Case(4096, torch.float32, 0), bench_sum.Case(4097, torch.float32, 0)),
        *(bench_sum.Case(4096, torch.float32, 1), bench_sum.Case(300, torch.int8, 0)),
        bench_sum.Case(4096 * 2048, torch.float32, 0, "x[:, ::2]", compiled=False),
    ]
    monkeypatch.setattr(bench_sum, "cases", lambda device, dtype: cases)
    plot = tmp_path / "sum.png"
    assert main(["bench", "sum", "--json", str(tmp_path / "sum.json"), "--plot", str(plot)]) == 0
    report = figures(tmp_path / "sum.json")
    assert report["benchmark"] == "sum"
    assert [(row["n"], row["dtype"], row["offset"], row["layout"]) for row in report["rows"]] == [
        (case.n, name(case.dtype), case.offset, case.layout) for case in cases
    ]
    on_gpu = torch.cuda.is_available()
    for row in report["rows"]:
        assert {"reduce.sum", "torch.sum"} <= row["seconds"].keys()
        assert ("read only" in row["seconds"]) == (row["offset"] == 0 and row["layout"] == "contiguous")
        with_cub = on_gpu and bool(shutil.which("nvcc")) and row["layout"] == "contiguous"
        assert ("CUB" in row["seconds"]) == with_cub
        assert all(seconds > 0 for seconds in row["seconds"].values())
        assert row["bytes"] == row["n"] * getattr(torch, row["dtype"]).itemsize
    assert {"torch.sum", "reduce_ops.sum", "torch.sum and backward"} <= report["host_seconds"].keys()
    assert plot.read_bytes().startswith(b"\x89PNG")
    table = capfd.readouterr().out
    for text in ("2^12", "2^12 + 1", "2^12 at +1", "300", "x[:, ::2]"):
        assert f" {text} " in table


def test_cases_of_sum() -> None:
    cases = bench_sum.cases(torch.device("cuda"))
    float32 = {(case.n, case.offset) for case in cases if case.dtype == torch.float32}
    for exponent in range(6, 32):
        n = 2**exponent
        assert {(n, 0), (n - 1, 0), (n + 1, 0), (n, 1)} <= float32
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.complex64):
        assert {case.n for case in cases if case.dtype == dtype} >= {2**exponent for exponent in range(6, 31)}
    for dtype in {case.dtype for case in cases}:
        inputs = {(case.n, case.offset) for case in cases if case.dtype == dtype}
        for exponent in (12, 16, 20, 28):
            n = 2**exponent
            assert {(n, 0), (n - 1, 0), (n + 1, 0), (n, 1)} <= inputs
    assert max(case.n * case.dtype.itemsize for case in cases if case.n.bit_count() == 1) == 2**33  # bytes
    for case in cases:
        if case.n.bit_count() == 1 and case.offset == 0 and case.layout == "contiguous":
            assert case.compiled or (case.dtype != torch.float32 and case.n.bit_length() % 2 == 0)
    assert {case.layout for case in cases} == {"contiguous", *bench_sum.LAYOUTS}
    on_cpu = Counter(case.dtype for case in bench_sum.cases(torch.device("cpu")))  # where each takes a second or more
    assert {count for dtype, count in on_cpu.items() if dtype != torch.float32} == {3}
    assert all(case.dtype == torch.int8 for case in bench_sum.cases(torch.device("cpu"), torch.int8))


def test_layouts_of_sum() -> None:
    x = torch.empty(bench_sum.LAYOUT_N, device="meta")
    for layout, view in bench_sum.LAYOUTS.items():
        assert not view(x).is_contiguous(), layout


def test_race_of_dims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    cases = [
        bench_dims.Case("list", (2**16, 3), (0,)),
        bench_dims.Case("list", (3, 2**16 + 1), (1,)),
        bench_dims.Case("training", (4, 3, 5, 6), (0, 2, 3), layout="channels_last"),
        bench_dims.Case("dtypes", (64, 32), (1,), torch.int8),
    ]
    monkeypatch.setattr(bench_dims, "cases", lambda device, dtype: cases)
    plot = tmp_path / "dims.png"
    assert main(["bench", "dims", "--json", str(tmp_path / "dims.json"), "--plot", str(plot)]) == 0
    report = figures(tmp_path / "dims.json")
    assert report["benchmark"] == "dims"
    rows = report["rows"]
    assert [(row["group"], tuple(row["shape"]), tuple(row["dim"]), row["dtype"], row["layout"]) for row in rows] == [
        (case.group, case.shape, case.dim, name(case.dtype), case.layout) for case in cases
    ]
    for row in rows:
        ours, peers = (
            row["seconds"]["reduce.sum"],
            [row["seconds"][peer] for peer in row["seconds"].keys() - {"reduce.sum"}],
        )
        assert row["over_fastest_peer"] == pytest.approx(min(peers) / ours)
        assert row["over_torch_sum"] == pytest.approx(row["seconds"]["torch.sum"] / ours)
    first = report["groups"][0]
    ratios = [row["over_fastest_peer"] for row in rows[:2]]
    assert [group["name"] for group in report["groups"]] == ["list", "training", "dtypes"]
    assert first["rows"] == 2
    assert first["least"] == pytest.approx(min(ratios))
    assert first["over_fastest_peer"] == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    assert first["ahead"] == sum(ratio > 1.01 for ratio in ratios)
    assert {"torch.sum", "reduce_ops.sum"} <= report["host_seconds"].keys()
    assert plot.read_bytes().startswith(b"\x89PNG")
    table = capfd.readouterr().out
    for text in ("(2^16, 3)", "(3, 2^16+1)", "0, 2, 3", "channels_last", "int8"):
        assert f" {text} " in table
    assert ("CPU figures" in table) == (not torch.cuda.is_available())


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_cases_of_dims(kind: str) -> None:
    cases = bench_dims.cases(torch.device(kind))
    assert len(set(cases)) == len(cases)
    assert {"list", "neighbours", "training", "dtypes"} <= {case.group for case in cases}
    for case in cases:
        meta = bench_dims.LAYOUTS[case.layout](case.shape, partial(torch.empty, dtype=case.dtype, device="meta"))
        assert meta.shape == case.shape and meta.dtype == case.dtype
        torch.sum(meta, case.dim)  # there are such dimensions
    assert {case.dtype for case in bench_dims.cases(torch.device(kind), torch.float64)} == {torch.float64}
    if kind == "cuda":
        assert sum(case.group == "list" for case in cases) == 24
        assert sum(case.group == "random" for case in cases) == bench_dims.RANDOM_SUMS
        widths = {case.shape[-1] for case in cases if case.group == "neighbours"}
        assert {9, 12, 17, 24, 31} <= widths


EXACT_CASES = [
    bench_exact.Case("sizes", (4096,)),
    *(bench_exact.Case("data", (2**14,), data=data) for data in ("mixed scale", "cancellation")),
    *(bench_exact.Case("dtypes", (3000,), dtype=dtype) for dtype in (torch.float64, torch.float8_e5m2)),
    bench_exact.Case("dims", (64, 300), 0),
    bench_exact.Case("dims", (3, 300), 1),
]


def test_race_of_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench_exact, "cases", lambda device, dtype: EXACT_CASES)
    plot = tmp_path / "exact.png"
    assert main(["bench", "exact", "--json", str(tmp_path / "exact.json"), "--plot", str(plot)]) == 0
    report = figures(tmp_path / "exact.json")
    assert report["benchmark"] == "exact"
    rows = report["rows"]
    assert [(row["group"], tuple(row["shape"]), row["dim"], row["dtype"], row["data"]) for row in rows] == [
        (case.group, case.shape, case.dim, name(case.dtype), case.data) for case in EXACT_CASES
    ]
    for row in rows:
        seconds, ulps = row["seconds"], row["ulps"]
        assert {"reduce.sum_exact", "reduce.sum", "read only", "torch.sum"} <= seconds.keys()
        assert seconds.keys() - {"read only"} == ulps.keys()
        assert ("torch.sum, float64" in seconds) == (row["dtype"] in ("float32", "bfloat16"))
        assert ("math.fsum" in seconds) == (row["dim"] is None)
        assert row["of_read"] == pytest.approx(seconds["read only"] / seconds["reduce.sum_exact"])
        assert row["of_sum"] == pytest.approx(seconds["reduce.sum"] / seconds["reduce.sum_exact"])
        assert row["beyond_sum"] == pytest.approx(seconds["reduce.sum_exact"] - seconds["reduce.sum"])
        assert row["wrong"] == 0 and row["checked"] == (
            1 if row["dim"] is None else min(4, row["shape"][1 - row["dim"]])
        )
        assert ulps["reduce.sum_exact"] <= 0.5
    errors = {row["data"]: row["ulps"] for row in rows if row["group"] == "data"}
    assert errors["cancellation"]["torch.sum"] > 1000
    assert {"torch.sum", "reduce_ops.sum_exact", "reduce_ops.exact_round"} <= report["host_seconds"].keys()
    for picture in (plot, tmp_path / "exact_errors.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    table = capfd.readouterr().out
    for text in ("float32 4096", "float32 2^14, cancellation", "float32 (3, 300) along 1", "reduce.sum_exact"):
        assert f" {text} " in table
    checked = sum(row["checked"] for row in rows)
    assert f"{checked} results of reduce.sum_exact compared with sums of Python integers, rounded once: 0 of" in table


def test_a_wrong_bit_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_value, "nearest", lambda value, dtype: 1.5)
    report = bench_exact.run(EXACT_CASES[:1])
    assert report.rows[0].wrong == 1
    assert any("1 WRONG" in cell for column in bench_exact.table(report).columns for cell in map(str, column.cells))


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_cases_of_exact(kind: str) -> None:
    cases = bench_exact.cases(torch.device(kind))
    assert len(set(cases)) == len(cases)
    assert {case.group for case in cases} == {"sizes", "data", "dtypes", "dims"}
    assert {case.data for case in cases} == set(bench_exact.DATA)
    if kind == "cuda":
        assert {case.shape for case in cases if case.group == "sizes"} == {(2**exponent,) for exponent in range(16, 31)}
        large = [case for case in cases if case.group != "sizes" and case.shape[0] != 4096]
        assert all(torch.Size(case.shape).numel() == 2**28 for case in large)
    assert {case.dtype for case in bench_exact.cases(torch.device(kind), torch.float64)} == {torch.float64}


@pytest.mark.parametrize(
    "dtype", [torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=name
)
def test_the_value_that_exact_sums_are_checked_by(dtype: torch.dtype) -> None:
    """Against `Fraction`, one element after the other, and NumPy's rounding."""
    bits = torch.randint(
        0, 256, (5000 * dtype.itemsize,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    x = bits.view(dtype)
    x = x[x.to(torch.float64).isfinite()]
    value = sum(map(Fraction, x.to(torch.float64).tolist()), Fraction(0))
    assert exact_value.exact_sum(x) == value
    for scale in (0, 1, Fraction(1, 3), Fraction(1, 2**120), Fraction(1, 2**160)):
        with np.errstate(over="ignore"):
            assert exact_value.nearest(Fraction(1, 3) * scale, torch.float32) == np.float32(float(scale / 3))
    assert exact_value.nearest(Fraction(65520), torch.float16) == float("inf")  # a tie, and even is beyond the largest
    assert exact_value.nearest(Fraction(65520) - Fraction(1, 10**30), torch.float16) == 65504
    assert exact_value.nearest(2**24 + 1 + Fraction(1, 10**30), torch.float32) == 2**24 + 2
    assert exact_value.nearest(Fraction(2**24 + 1), torch.float32) == 2**24
    assert exact_value.error_in_ulps(2.0**24, Fraction(2**24 + 1), torch.float32) == 0.5
    assert exact_value.error_in_ulps(float("inf"), value, torch.float32) is None


@pytest.mark.parametrize("layout", bench_dims.LAYOUTS)
def test_buffers_lie_in_memory_as_the_input_does(layout: str) -> None:
    x = bench_dims.make_input(bench_dims.Case("", (4, 3, 8, 6), (1,), layout=layout), torch.device("cpu"))
    y = measure.copy_of_view(x)
    assert torch.equal(x, y)
    assert (x.stride(), x.storage_offset()) == (y.stride(), y.storage_offset())
    assert x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()
