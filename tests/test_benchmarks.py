"""The programs in benchmarks/ that time sums where the command line's races do not: they run, and their tables fit."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import torch

from reduce_ops import measure
from support import load_benchmark


def report_of(script: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", [script.__name__, "--json", str(path), *arguments])
    assert script.main() == 0
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def table_of(report: dict[str, Any]) -> list[str]:
    """The rows of its table in docs/, without the headings."""
    lines: list[str] = load_benchmark("update_readme").TABLES[report["benchmark"]](report).splitlines()
    assert report["environment"]["device"] in lines[-1]
    rows = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in rows} == {rows[0].count("|")}
    return rows[2:]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "RUN_SECONDS", 0.002)


def test_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_benchmark("in_context")
    monkeypatch.setattr(script, "SUMS", [((2**10,), (0,)), ((256, 256), (0,))])
    report = report_of(script, tmp_path / "context.json", monkeypatch)
    contenders = {"reduce.sum", "torch.sum", *(["torch.compile"] if torch.cuda.is_available() else [])}
    for row in report["rows"]:
        names = contenders | {f"{name}, behind another kernel" for name in contenders}
        assert row["seconds"].keys() - {"reduce.sum, compiled"} == names
        assert all(row["seconds"][name] > 0 for name in contenders)
    rows = table_of(report)
    assert [row.split(" | ")[0] for row in rows] == ["| 2^10", "| (256, 256) over 0"]


def test_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_benchmark("cpu_threads")
    cases = [((2**12,), (0,), torch.float32), ((64, 64), (1,), torch.float16)]
    monkeypatch.setattr(script, "CASES", cases)
    monkeypatch.setattr(script, "in_new_process", lambda threads: script.race(threads))
    before = torch.get_num_threads()
    report = report_of(script, tmp_path / "threads.json", monkeypatch, "--processes", "2")
    torch.set_num_threads(before)
    assert len(report["rows"]) == len({1, before}) * len(cases)
    for row in report["rows"]:
        assert len(row["seconds"]) == len(row["over_torch_sum"]) == 2
        assert min(row["seconds"] + row["over_torch_sum"]) > 0
    rows = table_of(report)
    assert [row.split(" | ")[:2] for row in rows] == [["| 2^12", "float32"], ["| (64, 64) over 1", "float16"]]


def test_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_benchmark("operators")
    cases = [((2**12,), (0,), torch.float32), ((64, 64), (1,), torch.bfloat16)]
    monkeypatch.setattr(script, "CASES", cases)
    report = report_of(script, tmp_path / "norm.json", monkeypatch, "norm")
    assert [set(row["seconds"]) for row in report["rows"]] == [{"reduce.norm", "reduce.sum", "torch.norm"}] * 2
    assert min(report["host_seconds"].values()) > 0
    rows = table_of(report)
    assert [row.split(" | ")[:2] for row in rows] == [["| float32", "2^12"], ["| bfloat16", "(64, 64) over 1"]]


def load_random_layouts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, of little data."""
    script = load_benchmark("random_layouts")
    monkeypatch.setattr(script, "LEAST", 2**8)
    monkeypatch.setattr(script, "MOST", 2**14)
    return script


def test_random_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_random_layouts(monkeypatch)
    drawn = [script.draw(Random(seed)) for seed in range(100)]
    assert drawn == [script.draw(Random(seed)) for seed in range(100)]
    for draw in drawn:
        reach = 1 + sum((size - 1) * stride for size, stride in zip(draw.shape, draw.strides, strict=True))
        assert reach * draw.dtype.itemsize <= 2**14
        assert 2 * math.prod(draw.shape) * draw.dtype.itemsize >= 2**8
        assert draw.dim == sorted(set(draw.dim)) and 0 < len(draw.dim) <= len(draw.shape)
    report = report_of(script, tmp_path / "random.json", monkeypatch, "--seconds", "0")
    assert report["layouts"] == sum(kind["layouts"] for kind in report["kernels"]) == script.AT_ONCE
    assert report["under_half"] == sum(kind["under_half"] for kind in report["kernels"])
    for kind in report["kernels"]:
        family, *layout = kind["name"].split(", ")
        assert bool(layout) == (family == "rows")
    ratios = [row["over_torch_sum"] for row in report["worst"]]
    assert ratios == sorted(ratios) and min(ratios) > 0
    assert len(ratios) == min(max(40, report["under_half"]), report["layouts"])
    assert len(table_of(report)) == len(report["kernels"]) + 1


def test_random_layouts_that_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_random_layouts(monkeypatch)
    report = report_of(script, tmp_path / "random.json", monkeypatch, "--seconds", "0", "--converting")
    names = {" to ".join(str(dtype).removeprefix("torch.") for dtype in pair) for pair in script.CONVERSIONS}
    assert {kind["name"] for kind in report["dtypes"]} <= names
    assert report["layouts"] == sum(kind["layouts"] for kind in report["dtypes"])
    assert len(table_of(report)) == len(report["dtypes"]) + 1
    draws = [script.draw(Random(seed), converting=True) for seed in range(20)]
    placed = list(script.place(draws, torch.zeros(2**20)))
    for i, (x, drawn) in enumerate(zip(placed, draws, strict=True)):
        assert (x.dtype, list(x.shape), list(x.stride())) == (drawn.dtype, drawn.shape, drawn.strides)
        assert x.storage_offset() * x.element_size() % 512 == i % 2 * x.element_size()


def test_random_layouts_that_two_builds_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_random_layouts(monkeypatch)
    monkeypatch.setattr(script, "AT_ONCE", 4)
    told = []
    for _ in range(2):
        report = report_of(script, tmp_path / "random.json", monkeypatch, "--layouts", "10", "--worst", "12")
        assert report["layouts"] == len(report["worst"]) == 12  # in groups of four
        told.append(sorted((row["shape"], row["strides"], row["dim"], row["dtype"]) for row in report["worst"]))
    assert told[0] == told[1]


def test_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ncu says, in the form of tests/data; the program itself needs a GPU."""
    script = load_benchmark("stalls")
    heading = ["ID", "Kernel Name", *script.COUNTERS.values()]
    units = ["", "", "inst", "", "", ""]
    kernels = [[str(i), "sum_grid<float>", f"{1234 * i:,}", "33.7", "3.8", "0.5"] for i in range(9)]
    quoted = ['"' + '","'.join(line) + '"' for line in (heading, units, *kernels)]
    page = "\n".join(["==PROF== Connected", *quoted, ""])
    rows = script.rows_of(page)
    assert rows[8] == {
        "n": 2**28,
        "instructions of all warps": 9872.0,
        "for memory": 33.7,
        "at a barrier": 3.8,
        "for the instruction itself": 0.5,
    }
    with pytest.raises(ValueError, match="8 kernels instead of 9"):
        script.rows_of("\n".join(quoted[:-1]))
    report = {"benchmark": "stalls", "environment": {"device": "a GPU", "date": "today"}, "rows": rows}
    assert table_of(report)[8] == "| 2^28 | 9,872 | 33.7 | 3.8 | 0.5 |"


@pytest.mark.parametrize("name", ["in_context", "cpu_threads", "operators", "random_layouts", "stalls"])
def test_they_say_what_they_need(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit, match="2"):
        load_benchmark(name).main()
    assert "--json" in capsys.readouterr().err
