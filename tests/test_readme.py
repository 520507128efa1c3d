"""README.md and docs/ show what they say: tables are of the committed results, code is the sources', examples run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from reduce_ops import LADDER
from reduce_ops.__main__ import _parser, main
from support import ROOT, load_benchmark

README = (ROOT / "README.md").read_text()
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
EACH_PAGE = pytest.mark.parametrize("page", PAGES)


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_benchmark("update_readme")


def test_tables_and_excerpts_are_up_to_date() -> None:
    path = ROOT / "benchmarks" / "update_readme.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, path, "--check"], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert "| `sum_v7` |" in README


def test_powers_of_four_in_one_table_and_neighbours_in_another(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [("int64", exponent, difference, 0) for exponent in (6, 7) for difference in (0, -1, 1)]
    inputs += [("int64", exponent, 0, 1) for exponent in (6, 7)] + [("int8", 6, 0, 0)]
    rows = [
        {
            "dtype": dtype,
            "n": 2**exponent + difference,
            "offset": offset,
            "layout": "contiguous",
            "seconds": {"reduce.sum": (1 + difference / 10 + offset / 2) * 1e-6, "torch.sum": 2e-6},
        }
        for dtype, exponent, difference, offset in inputs
    ]
    report = {"rows": rows, "environment": {"device": "a GPU", "date": "today"}}
    assert re.findall(r"^\| (\w+) \| 2\^(\d+) \|", script.sum_table(report), re.MULTILINE) == [
        ("int64", "6"),
        ("int8", "6"),
    ]
    monkeypatch.setattr(script, "load", lambda file: report)
    changes = "1.00 | 0.90, -10% | 1.10, +10% | 1.50, +50%"
    assert [line for line in script.neighbours("").splitlines() if "2^" in line] == [
        f"| int64 | 2^{exponent} | {changes} |" for exponent in (6, 7)
    ]


def test_parts_of_tables(script: ModuleType) -> None:
    file = "benchmarks/results/sum_h200.json"
    everything = script.table(file).splitlines()
    part = script.table(f"{file} | float16").splitlines()
    assert [line for line in everything if line.startswith("| float16 |")] == part[2:-2]
    assert (part[:2], part[-2:]) == (everything[:2], everything[-2:])
    cells = (line.split(" | ") for line in script.table(f"{file} | dtypes").splitlines())
    speeds = {dtype: speeds for dtype, *speeds in cells}
    assert speeds["| dtype"] == ["2^12", "2^16", "2^20", "2^28 |"]
    for line in everything[2:-2]:
        dtype, elements, *_, speed = line.split(" | ")
        if elements in ("2^12", "2^16", "2^20"):
            assert speeds[dtype][speeds["| dtype"].index(elements)] == speed.removesuffix(" |")

    file = "benchmarks/results/dims_h200.json"
    tables = script.table(file).split("\n\n")
    parts = [script.table(f"{file} | {part}").split("\n\n")[0] for part in ("groups", "list", "layouts")]
    assert parts == tables[:3]
    for unknown in ("float128", "no such group"):
        with pytest.raises(ValueError, match="has no rows of"):
            script.table(f"{file} | {unknown}")

    file = "benchmarks/results/random_h200.json"
    assert script.table(f"{file} | all").splitlines()[2] == script.table(file).splitlines()[-3]


def test_an_excerpt_follows_its_source(script: ModuleType) -> None:
    text = script.code("csrc/ladder/v2_no_bank_conflict.cuh | for (unsigned d = | __syncthreads();")
    assert text.startswith("```cpp\nfor (unsigned d = blockDim.x / 2;")
    assert text.endswith("\n  __syncthreads();\n```\n")
    for gone in ("no such line | }", "for (unsigned d = | no such line", "// | }"):
        with pytest.raises(ValueError, match=r"v2_no_bank_conflict\.cuh: "):
            script.code(f"csrc/ladder/v2_no_bank_conflict.cuh | {gone}")


def test_the_ladder_shows_every_rung() -> None:
    page = PAGES["docs/ladder.md"]
    for rung in LADDER:
        section = page.partition(f"\n## v{rung.number}, {rung.title}\n")[2].partition("\n## ")[0]
        assert f"(pictures/v{rung.number}.svg)" in section
        (code,) = blocks("cpp", section)
        assert 3 <= code.count("\n") <= 16
        assert f"csrc/ladder/v{rung.number}_" in section
        assert f"ladder_h200.json {rung.name} -->" in section
        assert "What limits it" in section


def test_there_are_examples() -> None:
    assert blocks("python", README) and blocks("python", PAGES["docs/order.md"])


@EACH_PAGE
def test_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In order and in one namespace, as a reader would type them."""
    namespace: dict[str, object] = {}
    for code in blocks("python", PAGES[page]):
        exec(compile(code, page, "exec"), namespace)
        assert "print(" not in code or "tensor(" in capsys.readouterr().out


@EACH_PAGE
def test_commands_are_commands(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes no GPU and no minutes is run, the rest is taken apart as the command line would."""
    monkeypatch.chdir(tmp_path)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in "".join(blocks("sh", PAGES[page])).splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert words[1] in targets
        elif words[:4] == ["python", "-m", "reduce_ops", "explain"]:
            assert main(words[3:]) == 0
        elif words[:3] == ["python", "-m", "reduce_ops"]:
            _parser().parse_args(words[3:])
        else:
            assert not words, line


def test_the_errors_of_the_canonical_order_are_still_those() -> None:
    """They are the same on every machine, so the committed figures can be computed again."""
    module = load_benchmark("order_errors")
    report = json.loads((ROOT / "benchmarks" / "results" / "order_cpu.json").read_text())
    rows = {row["input"]: row for row in report["rows"]}
    for name, x in module.inputs().items():
        row = rows.pop(name)
        error = module.error(x, float(module.canonical_sum(module.torch.from_numpy(x))))
        assert error == row["errors"]["canonical order"], name
        assert error <= row["bound"], name
    assert not rows
