"""Draws docs/pictures from the schedule and the committed figures: ``python docs/draw.py [--check]``."""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from reduce_ops import LADDER, explain, pictures, report

FOLDER = Path(__file__).resolve().parent / "pictures"
RESULTS = FOLDER.parent.parent / "benchmarks" / "results" / "ladder_h200.json"


def draw(folder: Path) -> list[Path]:
    """Draw every picture into a folder and return the files."""
    files = []
    for rung in LADDER:
        files.append(folder / f"v{rung.number}.svg")
        pictures.draw(explain(rung.number), files[-1])
    files.append(folder / "overview.svg")
    pictures.draw_overview(files[-1])
    files.append(folder / "waterfall.svg")
    report.draw_waterfall([report.read(RESULTS)], files[-1])
    return files


def is_the_same(committed: Path, drawn: Path) -> bool:
    """Compare bytes where one matplotlib drew both, else the data and the texts, since versions place lines apart."""
    if not committed.exists():
        return False
    old, new = committed.read_text(), drawn.read_text()
    if re.findall(r"Matplotlib v[\d.]+", old) == re.findall(r"Matplotlib v[\d.]+", new):
        return old == new
    return pictures.what_is_drawn(committed) == pictures.what_is_drawn(drawn)


def main() -> int:
    """Draw the pictures, or with --check say which of them would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a picture is out of date")
    if not parser.parse_args().check:
        draw(FOLDER)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        files = draw(Path(folder))
        stale = [file.name for file in files if not is_the_same(FOLDER / file.name, file)]
        stale += sorted({file.name for file in FOLDER.iterdir()} - {file.name for file in files})
    if stale:
        print(f"docs/pictures: {', '.join(stale)} out of date: run python docs/draw.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
