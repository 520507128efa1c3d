"""The pictures of docs/: they show the schedule, and are those that the script draws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reduce_ops import LADDER, Rung, explain, pictures
from reduce_ops.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "docs" / "draw.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, env=environment)


def test_committed_pictures_are_what_the_script_draws() -> None:
    result = run_script("--check")
    assert result.returncode == 0, result.stderr


def test_a_changed_picture_is_noticed(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import draw
    finally:
        sys.path.pop(0)
    drawn = tmp_path / "v3.svg"
    pictures.draw(explain(3), drawn)
    assert draw.is_the_same(PICTURES / "v3.svg", drawn)
    changed = tmp_path / "changed.svg"
    for old, new in ((">d = 64<", ">d = 63<"), ("stroke-width: 0.8", "stroke-width: 0.9"), ("256", "255")):
        assert old in drawn.read_text()
        changed.write_text(drawn.read_text().replace(old, new, 1))
        assert not draw.is_the_same(changed, drawn), old
    # Drawn by another matplotlib, lines may lie elsewhere, but data and texts may not differ.
    other = drawn.read_text().replace("Matplotlib v", "Matplotlib v9.")
    changed.write_text(other.replace("stroke-width: 0.8", "stroke-width: 0.9"))
    assert draw.is_the_same(changed, drawn)
    changed.write_text(other.replace(">d = 64<", ">d = 63<"))
    assert not draw.is_the_same(changed, drawn)
    assert not draw.is_the_same(tmp_path / "missing.svg", drawn)


@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.name)
def test_what_a_picture_shows(rung: Rung) -> None:
    data, texts = pictures.what_is_drawn(PICTURES / f"v{rung.number}.svg")
    explanation = explain(rung.number)
    assert json.loads(data) == explanation.as_json()
    assert f"v{rung.number}, {rung.title}" in texts
    for phase in explanation.phases[:-1]:
        assert (f"shuffle {phase.distance}" if phase.step == "shuffle" else phase.name) in texts
    conflicts = {f"{phase.degree(width)}-way" for phase in explanation.phases for width in (4, 8)} - {"0-way", "1-way"}
    assert {text for text in texts if text.endswith("-way")} == conflicts


def test_what_the_overview_shows() -> None:
    texts = pictures.what_is_drawn(PICTURES / "overview.svg")[1]
    for rung in LADDER:
        assert f"v{rung.number}, {rung.title}" in texts


def test_plot(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rung.svg"
    assert main(["explain", "v1", "--plot", str(path)]) == 0
    assert capfd.readouterr().out == ""
    assert pictures.what_is_drawn(path) == pictures.what_is_drawn(PICTURES / "v1.svg")


def test_the_same_picture_every_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        pictures.draw(explain(7, block_size=512), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_png(tmp_path: Path) -> None:
    assert main(["explain", "v5", "--block-size", "512", "--plot", str(tmp_path / "v5.png")]) == 0
    assert (tmp_path / "v5.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--plot", "v3.gif"], "accepted are .svg and .png"),
        (["--plot", "v3"], "accepted are .svg and .png"),
        (["--plot", "missing/v3.svg"], "missing is not a folder"),
        (["--plot", "folder.svg"], "folder.svg"),
        (["--plot", "v3.svg", "--json"], "--json"),
        (["--plot", "v3.svg", "--against", "v2"], "--against"),
    ],
)
def test_bad_arguments(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.svg").mkdir()
    with pytest.raises(SystemExit) as error:
        main(["explain", "v3", *arguments])
    assert error.value.code == 2
    message = capfd.readouterr().err.partition("error: ")[2]
    assert words in message and message.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder.svg"]
