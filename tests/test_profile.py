"""``python -m reduce_ops profile``, on what ncu 2025.3 said of the rungs on an H200.

tests/data has its two pages, cut down to the columns that are read, with some neighbours, and to the instructions that
are counted: 32 * 2^20 elements, float32 and float64, the table of each kernel twice, as ncu prints it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from reduce_ops import LADDER, explanation, profile
from reduce_ops.__main__ import main
from support import ROOT, load_benchmark

N = explanation.REFERENCE_N
RAW, SOURCE = (
    gzip.decompress((ROOT / "tests" / "data" / f"ncu_{page}.csv.gz").read_bytes()).decode()
    for page in ("raw", "source")
)
Items = dict[tuple[str, str, str], profile.Comparison]


def compared(raw: str = RAW, source: str = SOURCE) -> Items:
    report = profile.compare(N, LADDER, raw, source, {"device": "a GPU"})
    return {
        (kernel.name, kernel.dtype, item.quantity): item for kernel in report.kernels for item in kernel.comparisons
    }


def source_with(change: Callable[[str, dict[str, str]], None]) -> str:
    """The source page after ``change(kernel, row)`` of every line."""
    result = io.StringIO()
    writer = csv.writer(result, quoting=csv.QUOTE_ALL, lineterminator="\n")
    kernel, heading = "", list[str]()
    for row in csv.reader(io.StringIO(SOURCE)):
        if row[0] == "Kernel Name":
            kernel = row[1]
        elif row[0] == "Address":
            heading = row
        else:
            cells = dict(zip(heading, row, strict=True))
            change(kernel, cells)
            row = list(cells.values())
        writer.writerow(row)
    return result.getvalue()


def test_every_rung_is_as_predicted() -> None:
    """But for the conflicts by L1's own counter, which sees more than the instructions make."""
    items = compared()
    assert len(items) == 9 * 2 * 16
    for key, item in items.items():
        assert item.agrees or key[2].startswith(profile.L1_CONFLICTS), key
        if key[2].rpartition(",")[0] == "bank conflicts":
            assert item.counted == item.predicted, key


def test_the_numbers_of_v0_and_v1() -> None:
    items = compared()
    blocks = N // 256
    assert items["sum_v0", "float32", "bank conflicts, reads"].counted == 0
    assert items["sum_v1", "float32", "bank conflicts, reads"].counted == 70 * blocks
    assert items["sum_v1", "float64", "bank conflicts, reads"].counted == 120 * blocks
    assert items["sum_v0", "float64", "bank conflicts, reads"].counted == 2 * 32 * blocks  # passes of two halves
    lanes = {name: items[name, "float32", "lanes a shared read"].counted for name in ("sum_v0", "sum_v1")}
    assert lanes == pytest.approx({"sum_v0": 5.379, "sum_v1": 20.44}, rel=1e-3)
    # The compiler predicates both: with the warps that have no work they are the same.
    lanes = {name: items[name, "float32", "lanes a shared read, idle warps too"].counted for name in lanes}
    assert lanes == pytest.approx({"sum_v0": 3.961, "sum_v1": 3.961}, rel=1e-3)
    assert items["sum_v7", "float64", "shuffles"].counted == 2 * 1024 * (8 * 5 + 3)


def test_a_table_that_comes_twice_counts_once() -> None:
    once, seen, out = [], set(), True
    for line in SOURCE.splitlines():
        if line.startswith('"Kernel Name"'):
            out = line in seen
            seen.add(line)
        if not out:
            once.append(line)
    assert len(once) == len(SOURCE.splitlines()) / 2
    assert compared(source="\n".join(once)) == compared()


def test_conflicts_by_l1_are_explained() -> None:
    items = compared()
    differing = [item for item in items.values() if not item.agrees]
    assert differing and all(item.note for item in differing)
    reads = items["sum_v1", "float32", f"{profile.L1_CONFLICTS}, reads"]
    assert (reads.predicted, reads.counted) == (9_175_040, 9_459_443)
    assert reads.note.startswith("L1 makes 284,403 passes that no instruction asks for")
    assert reads.note.endswith(": @!P1 LDS R5, [R4]")
    halves = items["sum_v0", "float64", f"{profile.L1_CONFLICTS}, writes"]
    assert "half" in halves.note and "STS.64" in halves.note


def test_a_branch_is_explained_with_its_line() -> None:
    """Where a compiler skips idle warps instead of predicating, the instruction is executed by the others only."""

    def change(kernel: str, row: dict[str, str]) -> None:
        if "sum_v1<float" in kernel and row["Source"].startswith("@") and "LDS" in row["Source"]:
            row["Instructions Executed"] = str(12 * (N // 256))

    item = compared(source=source_with(change))["sum_v1", "float32", "lanes a shared read, idle warps too"]
    assert not item.agrees
    assert item.note == "idle warps branch around it, which makes 20.44: @!P1 LDS R5, [R4]"


def test_a_difference_that_nothing_explains_stays_one() -> None:
    def change(kernel: str, row: dict[str, str]) -> None:
        if "sum_v1<float" in kernel and "LDS" in row["Source"]:
            row["L1 Wavefronts Shared"] = str(int(row["L1 Wavefronts Shared"]) * 102 // 100)

    item = compared(source=source_with(change))["sum_v1", "float32", "bank conflicts, reads"]
    assert not item.agrees and item.note == ""
    raw = RAW.replace('"9,459,443"', '"9,959,443"')
    item = compared(raw=raw)["sum_v1", "float32", f"{profile.L1_CONFLICTS}, reads"]
    assert not item.agrees and item.note == ""


@pytest.mark.parametrize(
    "sass, opcode, predicated",
    [
        ("@!P1 LDS R5, [R4]", "LDS", True),
        ("  @P0 BRA 0x520", "BRA", True),
        ("@!UP0 STS.64 [R0], R4", "STS", True),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "BAR", False),
        ("SHFL.DOWN PT, R4, R3, 0x10, 0x1f", "SHFL", False),
    ],
)
def test_opcodes(sass: str, opcode: str, predicated: bool) -> None:
    line = profile.Line(sass, 1, 1, 0, 0)
    assert (line.opcode, line.predicated) == (opcode, predicated)


@pytest.mark.parametrize(
    "raw, source, words",
    [
        ("", SOURCE, "raw page has no"),
        (RAW.replace("gpu__time_duration.sum", "gpu__time"), SOURCE, "gpu__time_duration.sum"),
        (RAW.replace("sum_v1<double", "sum_v9<double"), SOURCE, "no sum_v1 of float64"),
        (RAW.replace('"322,272"', '"n/a"'), SOURCE, "could not count .*: it says 'n/a'"),
        (RAW, "", "no sum_v0 of float32"),
        (RAW, SOURCE.replace("Wavefronts Shared Ideal", "Ideal"), "no column 'L1 Wavefronts Shared Ideal'"),
    ],
)
def test_pages_that_lack_something(raw: str, source: str, words: str) -> None:
    with pytest.raises(profile.ProfileError, match=words):
        profile.compare(N, LADDER, raw, source, {})


def test_what_the_docs_make_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_benchmark("update_readme")
    environment = {"device": "a GPU", "date": "today"}
    report = profile.compare(N, LADDER, RAW, SOURCE, environment)
    (tmp_path / "profile.json").write_text(json.dumps(profile.as_json(report)))
    monkeypatch.setattr(script, "ROOT", tmp_path)
    table = script.table("profile.json")
    for rung in LADDER:
        assert table.count(f"| `{rung.name}` | float") == 2
    assert "Of 252 predictions 252 are within 1 % of the count, 230 of them equal to it." in table
    counted = script.claims("profile.json").splitlines()
    assert [line.partition(".")[0] for line in counted] == [str(number) for number in range(1, 8)]
    assert "v0 0, v1 13,762,560" in counted[0]
    assert "54" in counted[1] and "105.0 a block" in counted[1]
    assert "32, 32, 32, 16, 8, 4, 2, 1" in counted[2] and "`@!P1 LDS R5, [R4]`" in counted[2]


# ---- the command ----


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which writes down how it was called; `ncu.out` is where it takes its answers from."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "raw").write_text(RAW)
    (folder / "source").write_text("==PROF== Disconnected\n" + SOURCE)
    program = folder / "ncu"
    program.write_text(
        f"""#!/bin/sh
cd {folder}
echo "$@" >> calls
case "$*" in
  --version) echo Copyright; echo 'Version 2025.3.1.0' ;;
  *'--page raw'*) cat raw ;;
  *'--page source'*) cat source ;;
  *) [ -e failure ] && {{ cat failure; exit 1; }}
     while [ "$1" != -o ]; do shift; done; [ -e nothing ] || touch "$2" ;;
esac
"""
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(profile.measure, "environment", lambda device: {"device": "a GPU"})
    return folder


def test_command(ncu: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.json"
    assert main(["profile", "--n", str(N), "--rungs", "v1", "--json", str(path)]) == 0
    output = capfd.readouterr().out
    (float32, float64) = [line for line in output.splitlines() if " sum_v1 " in line and "│" in line]
    assert float32.count(" 13,762,560 ") == 2  # 2^17 blocks of 70 conflicts in reads and 35 in writes
    assert float64.count(" 23,592,960 ") == 2  # of 120 and 60
    assert "All are within 1 %" in output
    report = json.loads(path.read_text())
    assert (report["benchmark"], report["n"]) == ("profile", N)
    assert report["environment"] == {"device": "a GPU", "ncu": "Version 2025.3.1.0"}
    assert [(kernel["name"], kernel["dtype"]) for kernel in report["kernels"]] == [
        ("sum_v1", "float32"),
        ("sum_v1", "float64"),
    ]
    kernel = report["kernels"][0]
    assert kernel["counters"]["seconds"] == pytest.approx(198.112e-6)
    assert kernel["counters"]["occupancy"] == pytest.approx(0.8714)
    assert {line["sass"] for line in kernel["lines"]} == {
        "STS [R5], R0",
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "@!P1 LDS R5, [R4]",
        "@!P1 LDS R0, [R0]",
        "@!P1 STS [R4], R5",
        "LDS R5, [UR4]",
    } | {line["sass"] for line in kernel["lines"] if " BRA 0x" in line["sass"]}
    first = (ncu / "calls").read_text().splitlines()[0]
    assert "--clock-control none" in first and "--section SourceCounters" in first
    assert first.endswith(f"-m reduce_ops.profile_workload {N} 1 float32,float64")


@pytest.mark.parametrize(
    "failure, words",
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "run as root"),
        ("==PROF== Connected\n==ERROR== Unknown metric x\n", "ncu failed: ==ERROR== Unknown metric x"),
        ("", "it says nothing"),
    ],
)
def test_ncu_that_fails(ncu: Path, failure: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    (ncu / "failure").write_text(failure)
    assert_one_line(capfd, words)


def test_ncu_that_sees_no_kernel(ncu: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (ncu / "nothing").touch()
    assert_one_line(capfd, "ncu wrote no report")


def test_no_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_one_line(capfd, "ncu is not on the PATH")


def test_ncu_that_is_no_program(ncu: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (ncu / "ncu").write_bytes(b"\x7fELF, but not really")
    assert_one_line(capfd, "ncu does not start")


def test_no_gpu(ncu: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert_one_line(capfd, "no CUDA device")
    assert not (ncu / "calls").exists()


def assert_one_line(capfd: pytest.CaptureFixture[str], words: str) -> None:
    path = Path("profile.json")
    assert main(["profile", "--json", str(path)]) == 2
    output = capfd.readouterr()
    assert output.out == "" and not path.exists()
    assert words in output.err and output.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--n", "0"], "--n"),
        (["--rungs", "v9"], "unknown rung 'v9'"),
        (["--json", "missing/profile.json"], "missing is not a folder that can be written to"),
    ],
)
def test_bad_arguments(arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["profile", *arguments])
    assert error.value.code == 2
    output = capfd.readouterr()
    assert output.out == ""
    message = output.err.partition("error: ")[2]
    assert words in message and message.count("\n") == 1
