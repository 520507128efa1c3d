"""``bench --report``: a page and a summary of what was measured, beside the results of others."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from reduce_ops import bench_exact, bench_sum, measure, pictures, report
from reduce_ops.__main__ import main
from support import SHORT_RUN_SECONDS

pytestmark = pytest.mark.usefixtures("short_timings")

ROOT = Path(__file__).resolve().parent.parent
H200 = ROOT / "benchmarks" / "results" / "ladder_h200.json"
FILES = {"index.html", "report.md", "waterfall.svg", "roofline.svg"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "report"
    arguments = ["--n", "1500", "--rungs", "v0,v1", "--json", str(folder.parent / "figures.json")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "RUN_SECONDS", SHORT_RUN_SECONDS)  # as short_timings, which lasts for one test
        assert main(["bench", *arguments, "--report", str(folder), "--compare", str(H200)]) == 0
    return folder


def figures(folder: Path) -> dict:
    return json.loads((folder.parent / "figures.json").read_text())


def test_files(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    assert {path.name for path in folder.parent.iterdir()} == {"report", "figures.json"}


def test_page_is_self_contained(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    assert not re.search(r"""(src|href)=(?!"data:)""", page)
    assert "<script" not in page and "@import" not in page and "url(" not in page
    embedded = [base64.b64decode(data) for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)]
    assert embedded == [(folder / name).read_bytes() for name in ("waterfall.svg", "roofline.svg")]
    environment = figures(folder)["environment"]
    for fact in (environment["device"], environment["commit"], environment["torch"], "NVIDIA H200"):
        assert str(fact) in page


def test_summary(folder: Path) -> None:
    text = (folder / "report.md").read_text()
    run = figures(folder)
    side_by_side = text.partition("## Side by side\n")[2].partition("\n## ")[0]
    h200 = json.loads(H200.read_text())
    for row in h200["rows"]:
        (line,) = [line for line in side_by_side.splitlines() if line.startswith(f"| {row['name']} |")]
        ours, theirs = [cell.strip() for cell in line.split("|")[2:4]]
        assert theirs == f"{row['bytes_per_second'] / 1e9:,.4g} ({row['read_share']:.0%})"
        assert (ours != "") == (row["name"] in {entry["name"] for entry in run["rows"]})
    for row in run["rows"]:
        assert re.search(rf"^\| {row['name']} \| {row['title']} \| {row['seconds'] * 1e6:.1f} \|", text, re.MULTILINE)
    for name in ("waterfall.svg", "roofline.svg"):
        assert f"]({name})" in text
    assert str(run["environment"]["commit"]) in text


def test_sizes(folder: Path) -> None:
    sizes = figures(folder)["sizes"]
    assert [size["n"] for size in sizes] == [1024, 1500]
    for size in sizes:
        assert size["bytes"] == 4 * size["n"]
        assert set(size["seconds"]) == {"read only", "sum_v0", "sum_v1", "torch.sum", "reduce.sum"}
        assert all(seconds > 0 for seconds in size["seconds"].values())


def test_pictures(folder: Path) -> None:
    run, h200 = figures(folder), json.loads(H200.read_text())
    data, texts = pictures.what_is_drawn(folder / "waterfall.svg")
    assert [entry["seconds"] for entry in json.loads(data)] == [
        {row["name"]: row["seconds"] for row in result["rows"]} for result in (run, h200)
    ]
    assert f"{h200['rows'][1]['step']:.2f} x" in texts
    data, texts = pictures.what_is_drawn(folder / "roofline.svg")
    assert [entry["sizes"] for entry in json.loads(data)] == [run["sizes"], h200["sizes"]]
    for result in (run, h200):
        floor = min(size["seconds"]["read only"] for size in result["sizes"])
        assert f"launch floor, {floor * 1e6:.3g} us" in texts
    assert any(text.startswith("read rate, ") for text in texts)


def test_again_into_the_same_folder(folder: Path) -> None:
    before = (folder / "index.html").read_text()
    report.write(folder, [figures(folder)])
    after = (folder / "index.html").read_text()
    assert {path.name for path in folder.iterdir()} == FILES
    assert "Side by side" in before and "Side by side" not in after


def test_results_of_any_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [bench_sum.Case(2**12, torch.float32, 0), bench_sum.Case(2**10 + 1, torch.float32, 0)]
    monkeypatch.setattr(bench_sum, "cases", lambda device, dtype: cases)
    some = json.loads(H200.with_name("dims_h200.json").read_text())
    some["rows"] = some["rows"][::6]  # all of them take longer to draw, twice, than the rest of this test
    dims = tmp_path / "dims_h200.json"
    dims.write_text(json.dumps(some))
    theirs = [str(file) for file in (H200.with_name("sum_h200.json"), dims, H200, dims)]
    folder = tmp_path / "report"
    assert main(["bench", "sum", "--report", str(folder), "--compare", *theirs]) == 0
    pictures_of_races = {"sum1.svg", "sum2.svg", "dims1.svg", "dims2.svg", "waterfall.svg", "roofline.svg"}
    assert {path.name for path in folder.iterdir()} == {"index.html", "report.md"} | pictures_of_races
    page, text = (folder / "index.html").read_text(), (folder / "report.md").read_text()
    embedded = {base64.b64decode(data) for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)}
    assert embedded == {(folder / name).read_bytes() for name in pictures_of_races}
    sums = text.partition("## Side by side, full sums\n")[2].partition("\n## ")[0]
    (line,) = [line for line in sums.splitlines() if line.startswith("| float32 2^12 |")]
    ours, theirs_cell = [cell.strip() for cell in line.split("|")[2:4]]
    (row,) = [
        row
        for row in json.loads(H200.with_name("sum_h200.json").read_text())["rows"]
        if (row["n"], row["dtype"], row["offset"]) == (2**12, "float32", 0)
    ]
    peer = min(time for name, time in row["seconds"].items() if name not in ("reduce.sum", "read only"))
    rate = row["bytes"] / row["seconds"]["reduce.sum"] / 1e9
    assert theirs_cell == f"{rate:,.4g} ({peer / row['seconds']['reduce.sum']:.2f} x)"
    assert re.fullmatch(r"[\d.]+ \([\d.]+ x\)", ours)
    dims = text.partition("## Side by side, sums along dimensions\n")[2].partition("\n## ")[0]
    assert all(line.split("|")[2] == line.split("|")[3] for line in dims.splitlines()[4:] if line)
    assert "| sum_v7 | shuffle |" in text


def test_results_of_exact_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [bench_exact.Case("sizes", (2**12,)), bench_exact.Case("data", (2**12,), data="outliers")]
    monkeypatch.setattr(bench_exact, "cases", lambda device, dtype: cases)
    run = tmp_path / "run.json"
    assert main(["bench", "exact", "--json", str(run)]) == 0
    folder = tmp_path / "report"
    assert main(["bench", "exact", "--report", str(folder), "--compare", str(run)]) == 0
    drawn = {"exact1.svg", "exact1_errors.svg", "exact2.svg", "exact2_errors.svg"}
    assert {path.name for path in folder.iterdir()} == {"index.html", "report.md"} | drawn
    page, text = (folder / "index.html").read_text(), (folder / "report.md").read_text()
    embedded = {base64.b64decode(data) for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)}
    assert embedded == {(folder / name).read_bytes() for name in drawn}
    sums = text.partition("## Side by side, exact sums\n")[2].partition("\n## ")[0]
    (row,) = [row for row in json.loads(run.read_text())["rows"] if row["group"] == "data"]
    (line,) = [line for line in sums.splitlines() if line.startswith("| float32 4096, outliers |")]
    peer = min(time for name, time in row["seconds"].items() if name not in ("reduce.sum_exact", "read only"))
    rate = row["bytes"] / row["seconds"]["reduce.sum_exact"] / 1e9
    ratio = peer / row["seconds"]["reduce.sum_exact"]
    assert line.split("|")[3].strip() == f"{rate:,.4g} ({ratio:.2f} x)"

    results = json.loads(run.read_text())
    for change in (
        {"ulps": {"torch.sum": "far"}},
        {"ulps": None},
        {"seconds": {"reduce.sum_exact": 1.0, "torch.sum": 1.0}},
    ):
        run.write_text(json.dumps(results | {"rows": [results["rows"][0] | change]}))
        with pytest.raises(report.ReportError, match="as it should be"):
            report.read(run)
    run.write_text(json.dumps(results | {"rows": results["rows"][1:]}))
    with pytest.raises(report.ReportError, match="it has no row that is drawn"):
        report.read(run)


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(report, "_page", fail)
    with pytest.raises(OSError, match="no space left"):
        report.write(tmp_path / "report", [json.loads(H200.read_text())])
    assert list(tmp_path.iterdir()) == []


def test_names_are_text_in_the_page(tmp_path: Path) -> None:
    results = json.loads(H200.read_text())
    results["environment"]["device"] = "<b>GPU</b> & co"
    report.write(tmp_path / "report", [results])
    page = (tmp_path / "report" / "index.html").read_text()
    assert "<b>" not in page and "&lt;b&gt;GPU&lt;/b&gt; &amp; co" in page


def broken(**changes: object) -> str:
    return json.dumps(copy.deepcopy(json.loads(H200.read_text())) | changes)


def broken_case(race: str, **changes: object) -> str:
    results = json.loads(H200.with_name(f"{race}_h200.json").read_text())
    return json.dumps(results | {"rows": [results["rows"][0] | changes]})


RESULTS = json.loads(H200.read_text())
ROW = RESULTS["rows"][0]


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "is not readable JSON"),
        ("{", "is not readable JSON"),
        ("[" * 200_000, "is not readable JSON"),
        ("[]", "it holds a list"),
        ("{}", "its benchmark is None"),
        (broken(benchmark="order"), "its benchmark is 'order'"),
        (broken(benchmark="sum"), "is not as it should be: 'dtype'"),
        (broken_case("sum", seconds={"reduce.sum": 1e-6}), "row 0 has no reduce.sum or no torch.sum"),
        (broken_case("sum", seconds={"reduce.sum": 1e-6, "torch.sum": 0}), "torch.sum is 0"),
        (broken_case("sum", seconds={"reduce.sum": 1e-6, "torch.sum": 1e-6}), "no row that is drawn"),
        (broken_case("sum", seconds=None), "is not as it should be"),
        (broken_case("dims", shape=3), "is not as it should be"),
        (broken_case("dims", bytes="many"), "bytes is 'many'"),
        (broken_case("dims", bytes=10**400), "is not as it should be"),
        (broken_case("dims", layout=3), "is not as it should be"),
        (broken(rows=[]), "it has no rows"),
        (broken(rows=[ROW | {"seconds": 10**400}]), "cannot be shown"),
        (broken(rows=[ROW | {"title": "\ud800"}]), "cannot be shown"),
        (broken(rows=[{"seconds": 1.0}]), "row 0 has no name or title"),
        (broken(rows=[{"name": "sum_v0", "title": "", "seconds": 1.0}]), "row 0 has no step"),
        (broken(rows=[ROW | {"seconds": "fast"}]), "seconds of sum_v0 is 'fast'"),
        (broken(rows=[ROW | {"seconds": -1.0}]), "seconds of sum_v0 is -1.0"),
        (broken(rows=[ROW | {"step": True}]), "step of sum_v0 is True"),
        (broken(read_seconds=0), "read_seconds is 0"),
        (broken(read_seconds=float("nan")), "read_seconds is nan"),
        (broken(n=None), "n is None"),
        (broken(environment={}), "names no device"),
        (broken(environment=3), "names no device"),
        (broken(dtype=None), "no dtype"),
        (broken(sizes=[{"n": 4}]), "a size has no times"),
        (broken(sizes=[{"n": 4, "bytes": 16, "seconds": {"read only": "x"}}]), "read only is 'x'"),
    ],
)
def test_files_of_another_schema(
    content: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "theirs.json").write_text(content)
    before = list(tmp_path.iterdir())
    assert_refused(["--report", "report", "--compare", "theirs.json"], words, tmp_path, monkeypatch, capfd)
    assert list(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--report", "missing/report"], "missing is not a folder that can be written to"),
        (["--report", "file"], "file is a file"),
        (["--report", "file/report"], "file is not a folder"),
        (["--compare", str(H200)], "--compare: needs --report"),
        (["sum", "--report", "missing/report"], "missing is not a folder that can be written to"),
        (["dims", "--compare", str(H200)], "--compare: needs --report"),
    ],
)
def test_bad_arguments(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert_refused(arguments, words, tmp_path, monkeypatch, capfd)


def test_a_folder_without_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> NoReturn:
        raise PermissionError("Permission denied")

    # As for others than root, who runs the tests in CI.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(report.tempfile, "TemporaryDirectory", refuse)
    assert_refused(["--report", "report"], ". is not a folder that can be written to", tmp_path, monkeypatch, capfd)
    assert_refused(["--json", "figures.json"], ". is not a folder that can", tmp_path, monkeypatch, capfd)


def test_a_file_system_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is put together where it goes to, since files move within a file system only."""
    folders = []
    temporary = report.tempfile.TemporaryDirectory
    monkeypatch.setattr(
        report.tempfile, "TemporaryDirectory", lambda dir, prefix: folders.append(dir) or temporary(dir=dir)
    )
    for folder in (tmp_path, tmp_path / "new"):
        report.write(folder, [json.loads(H200.read_text())])
        assert sorted(file.name for file in folder.iterdir() if file.is_file())[0] == "index.html"
    # The pictures are put together in folders of their own, in that of the report.
    assert [folder for folder in folders if folder.parent == tmp_path.parent] == [tmp_path, tmp_path]


def test_names_are_escaped(tmp_path: Path) -> None:
    for race in ("ladder", "sum"):
        results = json.loads((H200.parent / f"{race}_h200.json").read_text())
        results["environment"]["device"] = '<b>GPU</b> "x" & more'
        results.pop("sizes", None)  # which a file need not have
        report.write(tmp_path / race, [results])
        assert not (tmp_path / race / "roofline.svg").exists()
        page = (tmp_path / race / "index.html").read_text()
        assert "<b>" not in page
        assert "&lt;b&gt;GPU&lt;/b&gt;" in page


def assert_refused(
    arguments: list[str],
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as error:
        main(["bench", *arguments])
    assert error.value.code == 2
    output = capfd.readouterr()
    assert output.out == ""
    message = output.err.partition("error: ")[2]
    assert words in message and message.count("\n") == 1
