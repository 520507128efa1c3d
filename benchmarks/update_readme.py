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
    lines.append("")
    lines.append(
        f"{report['n']:,} x {report['dtype']}, device time of one call over cold buffers. A kernel that only reads "
        f"them takes {read}. {versions(report['environment'])}."
    )
    return "\n".join(lines) + "\n"


def sum_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of the race of sum: aligned powers of two of float32, and the other dtypes."""
    names = list(dict.fromkeys(name for row in report["rows"] for name in row["seconds"]))
    lines = [
        f"| dtype | elements | {' | '.join(names)} | speed of the fastest peer |",
        "|---|--:" + "|--:" * len(names) + "|--:|",
    ]
    for row in report["rows"]:
        exponent = row["n"].bit_length() - 1
        contiguous = row.get("layout", "contiguous") == "contiguous"  # older results have no other
        if not contiguous or row["offset"] or row["n"] != 2**exponent or (row["dtype"] == "float32" and exponent % 2):
            continue
        seconds = row["seconds"]
        peer = min(time for name, time in seconds.items() if name not in ("reduce.sum", "read only"))
        times = " | ".join(f"{seconds[name] * 1e6:.2f}" if name in seconds else "" for name in names)
        lines.append(f"| {row['dtype']} | 2^{exponent} | {times} | {peer / seconds['reduce.sum']:.2f} x |")
    lines += ["", f"{versions(report['environment'])}."]
    return "\n".join(lines) + "\n"


def dims_table(report: dict[str, Any]) -> str:
    """Return the Markdown tables of the race along dimensions: the groups, and the shapes of the list."""
    lines = [
        "| group | shapes | speed of the fastest peer | lowest | more than 1 % ahead | speed of `torch.sum` |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for group in report["groups"]:
        lines.append(
            f"| {group['name']} | {group['rows']} | {group['over_fastest_peer']:.3f} x | {group['least']:.3f} x "
            f"| {group['ahead']} | {group['over_torch_sum']:.2f} x |"
        )
    rows = [row for row in report["rows"] if row["group"] == report["rows"][0]["group"]]
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    lines += [
        "",
        f"| shape | dim | {' | '.join(names)} | GB/s | speed of the fastest peer | speed of `torch.sum` |",
        "|---|---|" + "--:|" * (len(names) + 3),
    ]
    for row in rows:
        seconds = row["seconds"]
        times = " | ".join(f"{seconds[name] * 1e6:.2f}" if name in seconds else "" for name in names)
        lines.append(
            f"| {tuple(row['shape'])} | {', '.join(map(str, row['dim']))} | {times} "
            f"| {row['bytes'] / seconds['reduce.sum'] / 1e9:.0f} "
            f"| {row['over_fastest_peer']:.3f} x | {row['over_torch_sum']:.2f} x |"
        )
    lines += ["", f"Geometric means over the shapes of a group; times in us. {versions(report['environment'])}."]
    return "\n".join(lines) + "\n"


def versions(environment: dict[str, Any]) -> str:
    """Return what a figure stands with."""
    return (
        f"{environment['device']}, driver {environment['driver']}, CUDA {environment['cuda']}, PyTorch "
        f"{environment['torch']}, commit {environment['commit']}, {environment['date']}"
    )


TABLES = {"ladder": ladder_table, "sum": sum_table, "dims": dims_table}


def table(file: str) -> str:
    """Return the table for one file of results."""
    report = json.loads((ROOT / file).read_text())
    return TABLES[report["benchmark"]](report)


def main() -> int:
    """Rewrite README.md, or with --check say whether it would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if README.md is out of date")
    check = parser.parse_args().check

    readme = ROOT / "README.md"
    old = readme.read_text()
    new = BLOCK.sub(lambda m: m[1] + table(m[2]) + m[3], old)
    if new == old:
        return 0
    if check:
        print("README.md is out of date: run python benchmarks/update_readme.py", file=sys.stderr)
        return 1
    readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
