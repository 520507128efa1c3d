"""README.md shows what it says: its tables are those of the committed results, its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_tables_are_up_to_date() -> None:
    script = ROOT / "benchmarks" / "update_readme.py"
    result = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "| `sum_v7` |" in README


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    """In order and in one namespace, as a reader would type them."""
    namespace: dict[str, object] = {}
    for code in EXAMPLES:
        exec(compile(code, "README.md", "exec"), namespace)
        assert "tensor(" in capsys.readouterr().out
