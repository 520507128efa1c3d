"""Fills in README.md and the pages of docs/ from committed results and sources.

Usage: ``benchmarks/update_readme.py [--check]``

What is filled in stands between a line that says what, and ``<!-- end -->``:

    <!-- table: FILE -->                what ``bench --json``, ``profile --json`` or another benchmark wrote, as a table
    <!-- table: FILE | PART -->         a part of it: one dtype or "dtypes" of ``bench sum``; "groups" or one group of
                                        ``bench dims``; one kind or "all" of random_layouts.py
    <!-- claims: FILE -->               what ``profile --json`` counted of common claims about the ladder
    <!-- gain: FILE sum_vN -->          one rung of ``bench --json``, as a sentence
    <!-- sum: FILE -->                  what ``bench sum --json`` says of the full sum, as a sentence
    <!-- shares: FILE -->               what it says of how fast much data is read, as a sentence
    <!-- neighbours: FILE -->           what it says of sizes and bases off by one element, as a table
    <!-- host: FILE -->                 what a call costs the host, by ``bench sum --json`` or ``bench dims --json``
    <!-- exact: FILE -->                what ``bench exact --json`` says of the exact sum, as a sentence
    <!-- code: FILE | FIRST | LAST -->  the lines of a source from one that contains FIRST to the next with LAST
"""

import argparse
import json
import re
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(<!-- (table|claims|gain|sum|shares|neighbours|host|exact|code): ([^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL
)


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


def power_of_two(n: int) -> int | None:
    """Return the exponent of n, or None if n is no power of two."""
    return n.bit_length() - 1 if n & (n - 1) == 0 else None


def over_fastest_peer(seconds: dict[str, float]) -> float:
    """Return how many times as fast as the fastest contender ``reduce.sum`` is."""
    peers = [time for name, time in seconds.items() if name not in ("reduce.sum", "read only")]
    return min(peers) / seconds["reduce.sum"]


def sum_table(report: dict[str, Any], part: str = "") -> str:
    """Return the Markdown table of the race of sum: aligned powers of four, of all dtypes or of the one named.

    The part "dtypes" is another table: the speed beside the fastest peer at the powers that every dtype was raced at.
    """
    rows = report["rows"]
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    if part == "dtypes":
        lines = dtypes_table(rows)
    else:
        lines = times_table([row for row in rows if part in ("", row["dtype"])], names)
    return "\n".join([*lines, "", f"{versions(report['environment'])}."]) + "\n"


def times_table(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return the lines of a Markdown table: what the contenders take for aligned powers of four and other layouts."""
    lines = [
        f"| dtype | elements | {' | '.join(names)} | speed of the fastest peer |",
        "|---|--:" + "|--:" * len(names) + "|--:|",
    ]
    for row in rows:
        exponent = power_of_two(row["n"])
        if row["layout"] != "contiguous":
            elements = f"{row['layout']}, {row['n']:,}"
        elif row["offset"] or exponent is None or exponent % 2:
            continue
        else:
            elements = f"2^{exponent}"
        seconds = row["seconds"]
        times = " | ".join(f"{seconds[name] * 1e6:.2f}" if name in seconds else "" for name in names)
        lines.append(f"| {row['dtype']} | {elements} | {times} | {over_fastest_peer(seconds):.2f} x |")
    return lines


def dtypes_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table: each dtype's speed beside the fastest peer, at the powers that all have."""
    speeds: dict[str, dict[int, float]] = {}
    for row in rows:
        exponent = power_of_two(row["n"])
        if row["layout"] == "contiguous" and not row["offset"] and exponent is not None:
            speeds.setdefault(row["dtype"], {})[exponent] = over_fastest_peer(row["seconds"])
    shared = sorted(set.intersection(*(set(powers) for powers in speeds.values())))
    lines = [f"| dtype | {' | '.join(f'2^{exponent}' for exponent in shared)} |", "|---|" + "--:|" * len(shared)]
    for dtype, powers in speeds.items():
        lines.append(f"| {dtype} | {' | '.join(f'{powers[exponent]:.2f} x' for exponent in shared)} |")
    return lines


def shapes_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table of some rows of the race along dimensions."""
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    held = any(row["layout"] != "contiguous" for row in rows)
    lines = [
        f"| shape | dim |{' held |' * held} {' | '.join(names)} | GB/s | speed of the fastest peer "
        "| speed of `torch.sum` |",
        "|---|---|" + "---|" * held + "--:|" * (len(names) + 3),
    ]
    for row in rows:
        seconds = row["seconds"]
        times = " | ".join(f"{seconds[name] * 1e6:.2f}" if name in seconds else "" for name in names)
        layout = f" {row['layout']} |" if held else ""
        lines.append(
            f"| {tuple(row['shape'])} | {', '.join(map(str, row['dim']))} |{layout} {times} "
            f"| {row['bytes'] / seconds['reduce.sum'] / 1e9:.0f} "
            f"| {row['over_fastest_peer']:.3f} x | {row['over_torch_sum']:.2f} x |"
        )
    return lines


def dims_table(report: dict[str, Any], part: str = "") -> str:
    """Return the Markdown tables of the race along dimensions: the groups, the shapes of the list, and layouts.

    The part "groups" is the first of these tables; the name of a group is the table of its shapes.
    """
    groups = [
        "| group | shapes | speed of the fastest peer | lowest | more than 1 % ahead | speed of `torch.sum` |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for group in report["groups"]:
        groups.append(
            f"| {group['name']} | {group['rows']} | {group['over_fastest_peer']:.3f} x | {group['least']:.3f} x "
            f"| {group['ahead']} | {group['over_torch_sum']:.2f} x |"
        )

    def shapes(group: str) -> list[str]:
        return shapes_table([row for row in report["rows"] if row["group"] == group])

    if part == "groups":
        lines, meaning = groups, "Geometric means over the shapes of a group."
    elif part:
        lines, meaning = shapes(part), "Times in us."
    else:
        lines = [*groups, "", *shapes("list"), "", *shapes("layouts")]
        meaning = "Geometric means over the shapes of a group; times in us."
    lines = [*lines, "", f"{meaning} {versions(report['environment'])}."]
    return "\n".join(lines) + "\n"


def exact_table(report: dict[str, Any]) -> str:
    """Return the Markdown tables of the race of the exact sum: times of all inputs, and errors by kinds of data."""
    from reduce_ops import bench_exact  # not above: the other tables need no PyTorch

    inputs = [bench_exact.label(row) for row in bench_exact.from_json(report).rows]
    names = list(dict.fromkeys(name for row in report["rows"] for name in row["seconds"]))
    lines = [
        f"| input | {' | '.join(names)} | of the read rate | of reduce.sum's speed | us beyond it |",
        "|---|" + "--:|" * (len(names) + 3),
    ]
    for label, row in zip(inputs, report["rows"], strict=True):
        seconds = row["seconds"]
        if row["group"] == "sizes" and row["shape"][0].bit_length() % 2 == 0:  # every other power of two is enough here
            continue
        times = " | ".join(f"{seconds[name] * 1e6:.2f}" if name in seconds else "" for name in names)
        shares = f"{row['of_read']:.1%} | {row['of_sum']:.1%}"
        lines.append(f"| {label} | {times} | {shares} | {row['beyond_sum'] * 1e6:+.2f} |")
    names.remove("read only")
    lines += ["", f"| input | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    for label, row in zip(inputs, report["rows"], strict=True):
        if row["group"] in ("data", "dtypes"):
            errors = (f"{row['ulps'][name]:.2g}" if row["ulps"].get(name) is not None else "" for name in names)
            lines.append(f"| {label} | {' | '.join(errors)} |")
    checked, wrong = (sum(row[count] for row in report["rows"]) for count in ("checked", "wrong"))
    lines += [
        "",
        f"Times in us; errors in units in the last place. Of {checked} results of `reduce.sum_exact` that were "
        f"compared with sums of Python integers, rounded once, {wrong} had other bits. "
        f"{versions(report['environment'])}.",
    ]
    return "\n".join(lines) + "\n"


def processes_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of the exact sum over several GPUs."""
    lines = [
        "| GPUs | one's own share | of all | more | a call alone, share | of all | more |",
        "|--:|" + "--:|" * 6,
    ]
    for row in report["rows"]:
        pairs = [(row[f"share{kind}_seconds"], row[f"total{kind}_seconds"]) for kind in ("", "_alone")]
        cells = (f"{share * 1e6:.1f} | {total * 1e6:.1f} | {(total - share) * 1e6:+.1f}" for share, total in pairs)
        lines.append(f"| {row['processes']} | {' | '.join(cells)} |")
    lines += ["", f"{report['n']:,} x {report['dtype']} each; times in us. {versions(report['environment'])}."]
    return "\n".join(lines) + "\n"


def order_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of the errors of several orders of addition."""
    names = list(report["rows"][0]["errors"])
    lines = [
        f"| {report['dtype']} input | elements | {' | '.join(names)} | bound of the canonical order |",
        "|---|--:" + "|--:" * len(names) + "|--:|",
    ]
    for row in report["rows"]:
        errors = " | ".join(f"{value:,.0f}" if value >= 10 else f"{value:.2g}" for value in row["errors"].values())
        lines.append(f"| {row['input']} | {row['n']:,} | {errors} | {row['bound']} |")
    lines += ["", f"{versions(report['environment'])}."]
    return "\n".join(lines) + "\n"


def input_name(shape: list[int], dim: list[int]) -> str:
    """Return 2^20, or (64, 64) over 1."""
    power = shape[0].bit_length() - 1
    return f"2^{power}" if shape == [2**power] else f"{tuple(shape)} over {', '.join(map(str, dim))}"


def context_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of what a call takes by what stands before it."""
    names = list(report["rows"][0]["seconds"])
    lines = [f"| | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    for row in report["rows"]:
        times = " | ".join(f"{seconds * 1e6:.2f}" for seconds in row["seconds"].values())
        lines.append(f"| {input_name(row['shape'], row['dim'])} | {times} |")
    return "\n".join([*lines, "", f"{versions(report['environment'])}."]) + "\n"


def stalls_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of what warps wait for."""
    names = list(report["rows"][0])[1:]
    lines = [f"| elements | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    for row in report["rows"]:
        cells = (f"{row[name]:,.0f}" if row[name] > 1000 else f"{row[name]:.1f}" for name in names)
        lines.append(f"| {input_name([row['n']], [0])} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{versions(report['environment'])}."]) + "\n"


def random_table(report: dict[str, Any], part: str = "") -> str:
    """Return the Markdown table of random layouts, a line for each kind of kernel or of conversion, the worst first.

    A part is one of these lines, or the one that is called "all".
    """
    heading = "dtypes" if report["converting"] else "kernels"
    lines = [
        f"| {heading} | layouts | speed of `torch.sum` | under half of it |",
        "|---|--:|--:|--:|",
    ]
    kinds = sorted(report[heading], key=lambda kind: -kind["under_half"] / kind["layouts"])
    for kind in [*kinds, {"name": "all"} | {key: report[key] for key in ("layouts", "geometric_mean", "under_half")}]:
        if part and kind["name"] != part:
            continue
        lines.append(
            f"| {kind['name']} | {kind['layouts']:,} | {kind['geometric_mean']:.2f} x | {kind['under_half']:,} |"
        )
    worst = report["worst"][0]
    lines += [
        "",
        f"The worst, {worst['over_torch_sum']:.2f} x: {tuple(worst['shape'])} {worst['dtype']}, strides "
        f"{tuple(worst['strides'])}, over {', '.join(map(str, worst['dim']))}. {versions(report['environment'])}.",
    ]
    return "\n".join(lines) + "\n"


def cpu_threads_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of the race on a CPU: a line an input, for each number of threads four columns."""
    counts = sorted({row["threads"] for row in report["rows"]})
    threads = {count: f"{count} thread{'s' * (count > 1)}" for count in counts}
    lines = [
        "| | dtype | "
        + " | ".join(f"GB/s, {name} | read only | speed of `torch.sum` | from .. to" for name in threads.values())
        + " |",
        "|---|---|" + "--:|--:|--:|--:|" * len(counts),
    ]
    inputs: dict[tuple[str, str], str] = {}
    for row in sorted(report["rows"], key=lambda row: row["threads"]):
        key = (input_name(row["shape"], row["dim"]), row["dtype"])
        ratios = row["over_torch_sum"]
        rate, read = (row["bytes"] / statistics.median(row[of]) / 1e9 for of in ("seconds", "read_seconds"))
        cells = (
            f" {rate:.3g} | {read:.3g} | {statistics.median(ratios):.2f} x | {min(ratios):.2f} .. {max(ratios):.2f} |"
        )
        inputs[key] = inputs.get(key, "") + cells
    lines += [f"| {' | '.join(key)} |{cells}" for key, cells in inputs.items()]
    processes = len(report["rows"][0]["seconds"])
    lines += ["", f"Median, lowest and highest of {processes} processes. {versions(report['environment'])}."]
    return "\n".join(lines) + "\n"


def operators_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of the race of an operator: a line an input."""
    operator = report["operator"]
    lines = [
        f"| dtype | | reduce.{operator} | reduce.sum | torch.{operator} | torch.compile | time beside `reduce.sum` "
        "| speed beside the fastest peer |",
        "|---|---|" + "--:|" * 6,
    ]
    of_sum, of_peer = [], []
    for row in report["rows"]:
        names = (f"reduce.{operator}", "reduce.sum", f"torch.{operator}")
        ours, total, torchs = (row["seconds"][name] for name in names)
        of_sum.append(ours / total)
        compiled = row["seconds"].get("torch.compile")
        of_peer.append(min(torchs, compiled or torchs) / ours)
        lines.append(
            f"| {row['dtype']} | {input_name(row['shape'], row['dim'])} | {ours * 1e6:.2f} | {total * 1e6:.2f} | "
            f"{torchs * 1e6:.2f} | {f'{compiled * 1e6:.2f}' if compiled else ''} | {of_sum[-1]:.3f} "
            f"| {of_peer[-1]:.2f} x |"
        )
    means = (statistics.geometric_mean(ratios) for ratios in (of_sum, of_peer))
    host = ", ".join(f"{name} {seconds * 1e6:.2f}" for name, seconds in report["host_seconds"].items())
    lines += [
        "",
        "us. Geometric means: {:.3f} of `reduce.sum`'s time, {:.2f} times as fast as the fastest peer. ".format(*means)
        + f"Host time of a call: {host}. {versions(report['environment'])}.",
    ]
    return "\n".join(lines) + "\n"


def operator_errors_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of errors, ours and PyTorch's, a line a number of elements."""
    operators = list(report["rows"][0]["errors"])
    lines = [
        f"| dtype | data | n | {' | '.join(f'{name}, torch' for name in operators)} |",
        "|---|---|--:|" + "--:|" * len(operators),
    ]
    for row in report["rows"]:
        cells = (f"{ours:.1f}, {theirs:.1f}" for ours, theirs in (row["errors"][name] for name in operators))
        lines.append(f"| {row['dtype']} | {row['data']} | 2^{power_of_two(row['n'])} | {' | '.join(cells)} |")
    lines += ["", f"Units in the last place. {versions(report['environment'])}."]
    return "\n".join(lines) + "\n"


def profile_table(report: dict[str, Any]) -> str:
    """Return the Markdown table of what was counted, and the list of what differs from the prediction."""
    lines = [
        "| operator | dtype | us | GB/s | occupancy | shared memory busy | instructions | lanes on, an instruction "
        "| bank conflicts, counted | predicted | by L1's counter | lanes a shared read, counted | predicted "
        "| idle warps too, counted | predicted | barriers | shuffles |",
        "|---|---|" + "--:|" * 15,
    ]
    differences = []
    by_l1 = []
    exact = 0
    for kernel in report["kernels"]:
        counters = kernel["counters"]
        items = {item["quantity"]: item for item in kernel["comparisons"]}
        conflicts = [items[f"bank conflicts, {kind}"] for kind in ("reads", "writes")]
        lanes = [items["lanes a shared read"], items["lanes a shared read, idle warps too"]]
        counted, predicted = (sum(item[side] for item in conflicts) for side in ("counted", "predicted"))
        size = report["n"] * (4 if kernel["dtype"] == "float32" else 8)
        lines.append(
            f"| `{kernel['name']}` | {kernel['dtype']} | {counters['seconds'] * 1e6:.1f} "
            f"| {size / counters['seconds'] / 1e9:.0f} | {counters['occupancy']:.0%} "
            f"| {counters['shared_share_of_peak']:.0%} "
            f"| {counters['instructions'] / 1e6:.2f} M | {counters['threads_not_predicated_off']:.1f} "
            f"| {counted:,.0f} | {predicted:,.0f} | {counters['conflicts_read'] + counters['conflicts_written']:,.0f} "
            + "".join(f"| {item['counted']:.2f} | {item['predicted']:.2f} " for item in lanes)
            + f"| {items['block barriers']['counted']:,.0f} | {items['shuffles']['counted']:,.0f} |"
        )
        for item in kernel["comparisons"]:
            if item["quantity"].startswith("bank conflicts by L1"):
                by_l1.append(item)
            elif not item["agrees"]:
                differences.append(
                    f"- `{kernel['name']}` {kernel['dtype']}, {item['quantity']}: predicted {item['predicted']:.6g}, "
                    f"counted {item['counted']:.6g}" + (f"; {note(item['note'])}" if item["note"] else "")
                )
            else:
                exact += item["counted"] == item["predicted"]
    others = sum(len(kernel["comparisons"]) for kernel in report["kernels"]) - len(by_l1)
    lines += ["", f"First pass of {report['n']:,} elements. {versions(report['environment'])}."]
    lines += [
        "",
        f"Of {others} predictions {others - len(differences)} are within 1 % of the count, {exact} of them equal to it"
        + (". The others:" if differences else "."),
        *(["", *differences, ""] if differences else []),
        f"Not among these are the {len(by_l1)} of conflicts by L1's counter, of which "
        f"{sum(item['agrees'] for item in by_l1)} agree{'s' * (sum(item['agrees'] for item in by_l1) == 1)}.",
    ]
    return "\n".join(lines) + "\n"


def note(text: str) -> str:
    """Return a note with its machine instruction marked as code."""
    words, colon, sass = text.rpartition(": ")
    return f"{words}{colon}`{sass}`"


def versions(environment: dict[str, Any]) -> str:
    """Return what a figure stands with."""
    parts = [environment["device"]]
    parts += [f"{name} {environment[key]}" for key, name in VERSIONS.items() if key in environment]
    return ", ".join([*parts, environment["date"]])


VERSIONS = {
    "driver": "driver",
    "cuda": "CUDA",
    "torch": "PyTorch",
    "numpy": "NumPy",
    "ncu": "Nsight Compute",
    "commit": "commit",
}

TABLES = {
    "ladder": ladder_table,
    "sum": sum_table,
    "dims": dims_table,
    "exact": exact_table,
    "processes": processes_table,
    "order": order_table,
    "profile": profile_table,
    "cpu_threads": cpu_threads_table,
    "operators": operators_table,
    "operator_errors": operator_errors_table,
    "context": context_table,
    "stalls": stalls_table,
    "random": random_table,
}


def load(file: str) -> dict[str, Any]:
    """Return a file of results."""
    return json.loads((ROOT / file).read_text())


def table(argument: str) -> str:
    """Return the table for one file of results, or a part of it: ``FILE`` or ``FILE | PART``."""
    file, *part = argument.split(" | ")
    report = load(file)
    text: str = TABLES[report["benchmark"]](report, *part)
    if sum(line.startswith("|") for line in text.splitlines()) < 3:
        raise ValueError(f"{file} has no rows of {' | '.join(part)!r}")
    return text


def gain(argument: str) -> str:
    """Return what one rung measured, as a sentence: ``FILE sum_vN``."""
    file, name = argument.split()
    report = load(file)
    (row,) = [row for row in report["rows"] if row["name"] == name]
    step = "" if row["step"] is None else f", {row['step']:.2f} times the speed of the rung before"
    speed = (
        f"{row['bytes_per_second'] / 1e9:.0f} GB/s, {row['read_share']:.0%} of what a kernel that only reads reaches"
    )
    where = f"{report['environment']['device']}, {report['n']:,} x {report['dtype']}"
    return f"**{row['seconds'] * 1e6:.1f} us{step}**: {speed} ({where}).\n"


def beside_read(report: dict[str, Any]) -> list[tuple[int, dict[str, float]]]:
    """Return the numbers of float32s that were also only read, and what each contender took."""
    rows = ((row["dtype"], row["n"], row["seconds"]) for row in report["rows"])
    return [(n, seconds) for dtype, n, seconds in rows if dtype == "float32" and "read only" in seconds]


def full_sum(file: str) -> str:
    """Return how far the full sum is from a kernel that only reads, as a sentence."""
    report = load(file)
    times = [(n, seconds["reduce.sum"], seconds["read only"]) for n, seconds in beside_read(report)]
    beyond = max(ours - read for n, ours, read in times if n <= 2**26 + 1)
    share = max(ours / read - 1 for n, ours, read in times if n > 2**26 + 1)
    return (
        f"It reads each byte once. Up to 2^26 float32s take at most {beyond * 1e6:.1f} us more than a kernel that does "
        f"nothing but read them, larger tensors at most {share:.1%} more ({report['environment']['device']}).\n"
    )


def shares(file: str) -> str:
    """Return which share of the read rate each contender reaches on much data, as a sentence."""
    report = load(file)
    reached: dict[str, list[float]] = {}
    for n, seconds in beside_read(report):
        for name, time in seconds.items():
            if n >= 2**26 - 1 and name != "read only":
                reached.setdefault(name, []).append(seconds["read only"] / time)
    ranges = (f"`{name}` {min(values):.0%} to {max(values):.0%}" for name, values in reached.items())
    return (
        "Of float32s from 2^26 on, powers of two and one element more or less, of what a kernel that only reads "
        f"reaches: {', '.join(ranges)} ({report['environment']['device']}).\n"
    )


def neighbours(file: str) -> str:
    """Return what one element more or less, or a base off by one, costs the full sum, as a table."""
    report = load(file)
    powers: dict[tuple[str, int], dict[str, float]] = {}
    for row in report["rows"]:
        if row["layout"] != "contiguous":
            continue
        exponent = (row["n"] + 1).bit_length() - 1
        kind = "base off by one" if row["offset"] else {-1: "n - 1", 0: "n", 1: "n + 1"}[row["n"] - 2**exponent]
        powers.setdefault((row["dtype"], exponent), {})[kind] = row["seconds"]["reduce.sum"]
    others = ("n - 1", "n + 1", "base off by one")
    lines = [f"| dtype | n | {' | '.join(('us', *others))} |", "|---|---|" + "--:|" * (1 + len(others))]
    for (dtype, exponent), seconds in powers.items():
        if len(seconds) == 1:
            continue
        changes = {kind: round(seconds[kind] / seconds["n"] - 1, 2) + 0.0 for kind in others}  # not -0.0
        cells = (f"{seconds[kind] * 1e6:.2f}, {change:+.0%}" for kind, change in changes.items())
        lines.append(f"| {dtype} | 2^{exponent} | {seconds['n'] * 1e6:.2f} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{versions(report['environment'])}."]) + "\n"


def host(file: str) -> str:
    """Return what a call costs the host, as a table."""
    report = load(file)
    lines = ["| call | us |", "|---|--:|"]
    lines += [f"| `{name}` | {seconds * 1e6:.1f} |" for name, seconds in report["host_seconds"].items()]
    return "\n".join([*lines, "", f"{versions(report['environment'])}."]) + "\n"


def exact(file: str) -> str:
    """Return what the exact sum costs, as a sentence: its share of the read rate, its time beyond ``reduce.sum``."""
    report = load(file)
    shares = {row["data"]: row["of_read"] for row in report["rows"] if row["group"] == "data"}
    worst = min(shares, key=shares.__getitem__)
    (n,) = {row["shape"][0].bit_length() - 1 for row in report["rows"] if row["group"] == "data"}
    small = [row for row in report["rows"] if row["group"] == "sizes" and row["shape"][0] <= 2**20]
    beyond = [row["beyond_sum"] * 1e6 for row in small]
    sizes = f"2^{small[0]['shape'][0].bit_length() - 1} to 2^{small[-1]['shape'][0].bit_length() - 1}"
    return (
        f"Of 2^{n} float32s it sums **{shares['randn']:.0%} of what a kernel that only reads them reaches**, "
        f"{shares[worst]:.0%} on the worst data of those tried ({worst}); at {sizes} elements it takes "
        f"{min(beyond):.1f} to {max(beyond):.1f} us more than `reduce.sum` ({report['environment']['device']}).\n"
    )


def claims(file: str) -> str:
    """Return what was counted of each of the claims that docs/ladder.md lists, by their numbers."""
    kernels = {kernel["name"]: kernel for kernel in load(file)["kernels"] if kernel["dtype"] == "float32"}
    v0, v1, v4, v5, v6, v7, v8 = (kernels[f"sum_v{number}"] for number in (0, 1, 4, 5, 6, 7, 8))

    def counted(kernel: dict[str, Any], *quantities: str) -> float:
        return sum(item["counted"] for item in kernel["comparisons"] if item["quantity"] in quantities)

    def conflicts(kernel: dict[str, Any]) -> float:
        return counted(kernel, "bank conflicts, reads", "bank conflicts, writes")

    def blocks(kernel: dict[str, Any]) -> int:  # each of the 8 warps of a block meets the first barrier once
        return int(next(line["warps"] for line in kernel["lines"] if line["sass"].startswith("BAR"))) // 8

    def a_warp(kernel: dict[str, Any]) -> str:
        return f"{kernel['counters']['instructions'] / blocks(kernel) / 8:.1f}"

    def microseconds(kernel: dict[str, Any]) -> str:
        return f"{kernel['counters']['seconds'] * 1e6:.1f} us"

    def branches(kernel: dict[str, Any]) -> str:
        executed = sum(line["warps"] for line in kernel["lines"] if "BRA" in line["sass"])
        return f"{executed / blocks(kernel) / 8:.2f}"

    diverged = sum(kernel["counters"]["divergent_branches"] for kernel in kernels.values())
    rounds = [phase for phase in v1["phases"] if phase["name"].startswith("d =")]
    far = sum(phase["conflicts"] for phase in rounds if int(phase["name"][4:]) >= 8)
    near = sum(phase["conflicts"] for phase in rounds) - far
    guarded = next(line["sass"] for line in v1["lines"] if line["sass"].startswith("@") and "LDS" in line["sass"])
    waiting = [line["sass"] for line in v4["lines"] if line["sass"].startswith("BAR")]
    distance_32 = sum(line["warps"] for line in v5["lines"] if "LDS" in line["sass"] and "+0x80]" in line["sass"])
    facts = [
        f"Bank conflicts: v0 {conflicts(v0):,.0f}, v1 {conflicts(v1):,.0f}.",
        f"Predicted are {near} conflicts a block up to d = 4 and {far} from d = 8 on; counted "
        f"{conflicts(v1) / blocks(v1):.1f} a block.",
        f"At work in the rounds are {', '.join(format(phase['lanes'], 'g') for phase in rounds)} lanes a warp. Counted "
        f"in all shared reads, `{guarded}` among them: {counted(v1, 'lanes a shared read'):.2f}, in v0 "
        f"{counted(v0, 'lanes a shared read'):.2f}; with the warps that issue them without work "
        f"{counted(v1, 'lanes a shared read, idle warps too'):.2f} and "
        f"{counted(v0, 'lanes a shared read, idle warps too'):.2f}. Branches on which lanes of a warp disagreed: "
        f"{diverged:.0f} in all nine rungs. Instructions a warp: {a_warp(v1)}, in v0 {a_warp(v0)}.",
        f"v4 has {len(waiting)} instructions that make a block wait and executed {counted(v4, 'block barriers'):,.0f}: "
        "its six last steps wait by warp.",
        f"Instructions a warp: v4 {a_warp(v4)}, v5 {a_warp(v5)}, branches among them {branches(v4)}, {branches(v5)}. "
        f"Time of one launch: {microseconds(v4)}, {microseconds(v5)}.",
        f"Barriers, one a warp: v6 {counted(v6, 'block barriers'):,.0f}, v7 {counted(v7, 'block barriers'):,.0f}, v8 "
        f"{counted(v8, 'block barriers'):,.0f}. Instructions a warp: v6 {a_warp(v6)}, v7 {a_warp(v7)}, v8 {a_warp(v8)}."
        f" Time of one launch: {microseconds(v6)}, {microseconds(v7)}, {microseconds(v8)}.",
        f"In v5, unrolled, words at distance 32 (`+0x80`) are read by {distance_32 / blocks(v5):g} warp a block.",
    ]
    return "".join(f"{number}. {fact}\n" for number, fact in enumerate(facts, 1))


def code(argument: str) -> str:
    """Return an excerpt of a source: ``FILE | text of its first line | text of its last line``."""
    file, first, last = argument.split(" | ")
    lines = (ROOT / file).read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if first in line]
    if len(starts) != 1:
        raise ValueError(f"{file}: {len(starts)} lines contain {first!r}")
    end = next((i for i, line in enumerate(lines) if i >= starts[0] and last in line), None)
    if end is None:
        raise ValueError(f"{file}: no line from there on contains {last!r}")
    return "```cpp\n" + textwrap.dedent("\n".join(lines[starts[0] : end + 1])) + "\n```\n"


FILL = {
    "table": table,
    "claims": claims,
    "gain": gain,
    "sum": full_sum,
    "shares": shares,
    "neighbours": neighbours,
    "host": host,
    "exact": exact,
    "code": code,
}


def main() -> int:
    """Rewrite the files, or with --check say which of them would change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a file is out of date")
    check = parser.parse_args().check

    stale = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        old = path.read_text()
        new = BLOCK.sub(lambda m: m[1] + FILL[m[2]](m[3]) + m[4], old)
        if new != old:
            stale.append(path.relative_to(ROOT).as_posix())
            if not check:
                path.write_text(new)
    if check and stale:
        print(f"{', '.join(stale)} out of date: run make docs", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
