"""Writes the tables of README.md from committed results: ``python benchmarks/update_readme.py [--check]``.

A table stands between ``<!-- table: FILE -->`` and ``<!-- end -->``, FILE being what ``bench --json`` wrote.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def ladder_table(report: dict[str, Any]) -> str:
    """Return the ladder's Markdown table, with what the figures stand on below it."""
    environment = report["environment"]
    lines = [
        "| operator | step | time, us | GB/s | share of read rate | gain over the rung before | speed of `torch.sum` |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in report["rows"]:
        lines.append(
            f"| `{row['name']}` | {row['title']} | {row['seconds'] * 1e6:.1f} | {row['bytes_per_second'] / 1e9:.0f} "
            f"| {row['read_share']:.0%} | {'' if row['step'] is None else format(row['step'], '.2f') + ' x'} "
            f"| {row['over_torch_sum']:.2f} x |"
        )
    read = f"{report['read_seconds'] * 1e6:.1f} us, {report['read_bytes_per_second'] / 1e9:.0f} GB/s"
    versions = f"driver {environment['driver']}, CUDA {environment['cuda']}, PyTorch {environment['torch']}"
    lines.append("")
    lines.append(
        f"{report['n']:,} x {report['dtype']}, device time of one call over cold buffers. A kernel that only reads "
        f"them takes {read}. {environment['device']}, {versions}, commit {environment['commit']}, "
        f"{environment['date']}."
    )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Rewrite README.md, or with --check say whether it would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if README.md is out of date")
    check = parser.parse_args().check

    readme = ROOT / "README.md"
    old = readme.read_text()
    new = BLOCK.sub(lambda m: m[1] + ladder_table(json.loads((ROOT / m[2]).read_text())) + m[3], old)
    if new == old:
        return 0
    if check:
        print("README.md is out of date: run python benchmarks/update_readme.py", file=sys.stderr)
        return 1
    readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
