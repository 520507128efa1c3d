"""Writes what `bench` measured as a page: tables and pictures, beside the results of others."""

import base64
import html
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from string import Template
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reduce_ops import race
from reduce_ops.files import try_folder
from reduce_ops.pictures import figure_for
from reduce_ops.race import READ

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]
"""What ``bench --json`` writes."""

_PAGE = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: 0.2rem 0.8rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
"""
)


class ReportError(Exception):
    """Why there is no report, in one sentence."""


def check_folder(folder: Path) -> None:
    """Raise a ReportError unless the folder is there or can be made, and can be written to."""
    if folder.exists() and not folder.is_dir():
        raise ReportError(f"argument --report: {folder} is a file")
    existing = folder if folder.exists() else folder.parent
    try:
        try_folder(existing)
    except OSError as error:
        raise ReportError(f"argument --report: {existing} is not a folder that can be written to: {error}") from error


def read(path: Path) -> Results:
    """Return the results of a race in a file.

    Raises:
        ReportError: It cannot be read, or is not what ``bench --json`` writes.
    """
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"argument --compare: {path} is not readable JSON: {error}") from error
    problem = _problem(results)
    if problem:
        raise ReportError(f"argument --compare: {path} is not what `bench --json` writes: {problem}")
    try:
        with tempfile.TemporaryDirectory() as folder:  # before minutes of measuring
            write(Path(folder) / "report", [results])
    except Exception as error:  # whatever a file can make matplotlib say
        reason = str(error).partition("\n")[0]
        raise ReportError(f"argument --compare: {path} cannot be shown: {reason}") from error
    return results  # type: ignore[no-any-return]


def _problem(results: Any) -> str | None:
    """What keeps these from being results of a race."""
    if not isinstance(results, dict):
        return f"it holds a {type(results).__name__}"
    race = results.get("benchmark")
    if race not in ("ladder", "sum", "dims", "exact"):
        return f"its benchmark is {race!r}"
    environment = results.get("environment")
    if not isinstance(environment, dict) or not isinstance(environment.get("device"), str):
        return "its environment names no device"
    return _problem_of_ladder(results) if race == "ladder" else _problem_of_cases(results)


def _problem_of_cases(results: Results) -> str | None:
    """What keeps these from being results of the race over sizes, along dimensions, or of the exact sum."""
    bench = _race(results)
    try:
        report = bench.from_json(results)
        numbers = [*report.host_seconds.items()]
        for i, row in enumerate(report.rows):
            if race.TORCH not in row.seconds or row.ours not in row.seconds:
                return f"row {i} has no {row.ours} or no {race.TORCH}"
            numbers += [("bytes", row.bytes), *row.seconds.items()]
        for name, value in numbers:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                return f"{name} is {value!r}"
        if not report.rows:
            return "it has no rows"
        bench.table(report)
        if results["benchmark"] != "dims":
            drawn = bench.drawn_rows(report)
            if not drawn or any(READ not in row.seconds for row in drawn):
                return "it has no row that is drawn"
    except Exception as error:  # whatever a file can make a float or rich say
        return f"a row or what it costs the host is not as it should be: {error}"
    return None


def _race(results: Results) -> ModuleType:
    from reduce_ops import bench_dims, bench_exact, bench_sum  # slow to import

    return {"sum": bench_sum, "dims": bench_dims, "exact": bench_exact}[results["benchmark"]]


def _problem_of_ladder(results: Results) -> str | None:
    """What keeps these from being results of the ladder."""
    numbers = {"n": results.get("n"), "bytes": results.get("bytes"), "read_seconds": results.get("read_seconds")}
    rows, sizes = results.get("rows"), results.get("sizes", [])
    if not isinstance(rows, list) or not rows or not isinstance(sizes, list):
        return "it has no rows"
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not isinstance(row.get("title"), str):
            return f"row {number} has no name or title"
        if "step" not in row:
            return f"row {number} has no step"
        numbers[f"seconds of {row['name']}"] = row.get("seconds")
        if row.get("step") is not None:
            numbers[f"step of {row['name']}"] = row["step"]
    for size in sizes:
        if not isinstance(size, dict) or not isinstance(size.get("seconds"), dict) or READ not in size["seconds"]:
            return "a size has no times"
        numbers |= {"bytes of a size": size.get("bytes"), "n of a size": size.get("n")} | size["seconds"]
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            return f"{name} is {value!r}"
    return None if isinstance(results.get("dtype"), str) else "it has no dtype"


def write(folder: Path, results: Sequence[Results]) -> None:
    """Write index.html, report.md and the pictures: all of them, or, where something fails, none.

    Args:
        folder: Where to; made if it is not there.
        results: Those of this run, then those of others.
    """
    where = folder if folder.is_dir() else folder.parent  # a folder may be a file system of its own
    with tempfile.TemporaryDirectory(dir=where, prefix=f".{folder.name}.") as name:
        made = Path(name)
        tables: Tables = []
        pictures: dict[str, Path] = {}
        for kind in dict.fromkeys(result["benchmark"] for result in results):
            of_kind = [result for result in results if result["benchmark"] == kind]
            tables += (_show_ladder if kind == "ladder" else _show_cases)(of_kind, made, pictures)
        title = f"Sums on {results[0]['environment']['device']}"
        (made / "report.md").write_text(_markdown(title, tables, pictures, results))
        (made / "index.html").write_text(_page(title, tables, pictures, results))
        folder.mkdir(exist_ok=True)
        for file in made.iterdir():
            file.replace(folder / file.name)


Rows = list[list[str]]
"""The cells of a table, the heading first."""

Tables = list[tuple[str, Rows]]
"""With a heading above each."""


def _show_ladder(results: Sequence[Results], folder: Path, pictures: dict[str, Path]) -> Tables:
    """Draw the results of the ladder into a folder, name the pictures, and return the tables."""
    pictures["The ladder"] = folder / "waterfall.svg"
    draw_waterfall(results, pictures["The ladder"])
    over_sizes = [result for result in results if result.get("sizes")]
    if over_sizes:
        pictures["Bytes a second"] = folder / "roofline.svg"
        draw_roofline(over_sizes, pictures["Bytes a second"])
    tables = [("Side by side", _side_by_side(results))] if len(results) > 1 else []
    return tables + [(_heading(result), _table(result)) for result in results]


def _show_cases(results: Sequence[Results], folder: Path, pictures: dict[str, Path]) -> Tables:
    """Likewise, of the race over sizes, along dimensions, or of the exact sum."""
    bench = _race(results[0])
    kind = results[0]["benchmark"]
    what = {"sum": "full sums", "dims": "sums along dimensions", "exact": "exact sums"}[kind]
    reports = [bench.from_json(result) for result in results]
    headings = [f"{report.environment['device']}, commit {report.environment.get('commit')}" for report in reports]
    tables: Tables = []
    if len(reports) > 1:
        speeds = [{bench.label(row): row for row in report.rows} for report in reports]
        cells = [[f"GB/s of {reports[0].rows[0].ours} (speed of the fastest peer)", *headings]]
        for label in dict.fromkeys(label for rows in speeds for label in rows):
            of_label = [rows.get(label) for rows in speeds]
            cells.append([label, *("" if row is None else _speed(row) for row in of_label)])
        tables.append((f"Side by side, {what}", cells))
    for number, (report, heading) in enumerate(zip(reports, headings, strict=True), 1):
        name = f"{what[0].upper()}{what[1:]}, {heading}" + (f" ({number})" if headings.count(heading) > 1 else "")
        pictures[name] = folder / f"{kind}{number}.svg"
        bench.plot(report, pictures[name])
        if kind == "exact":
            pictures[f"{name}, errors"] = bench.errors_path(pictures[name])
        columns = [[str(column.header), *column.cells] for column in bench.table(report).columns]
        cells = [list(row) for row in zip(*columns, strict=True)]
        tables.append((f"{name}, us of one call", cells))
        host = [[contender, f"{seconds * 1e6:.2f}"] for contender, seconds in report.host_seconds.items()]
        tables.append(("What a call costs the host", [["call", "us"], *host]))
    return tables


def _speed(row: race.Row) -> str:
    return f"{_rate(row.bytes / row.seconds[row.ours])} ({row.over_fastest_peer:.2f} x)"


def _heading(result: Results) -> str:
    return f"{result['environment']['device']}: {result['n']:,} x {result['dtype']}"


def _table(result: Results) -> Rows:
    cells = [["operator", "step", "us", "GB/s", "of the read rate", "over the rung before"]]
    for row in result["rows"]:
        cells.append(
            [
                row["name"],
                row["title"],
                f"{row['seconds'] * 1e6:.1f}",
                _rate(result["bytes"] / row["seconds"]),
                f"{result['read_seconds'] / row['seconds']:.0%}",
                f"{row['step']:.2f} x" if row["step"] is not None else "",
            ]
        )
    read_rate = _rate(result["bytes"] / result["read_seconds"])
    return [*cells, [READ, "", f"{result['read_seconds'] * 1e6:.1f}", read_rate, "100%", ""]]


def _side_by_side(results: Sequence[Results]) -> Rows:
    """Columns of bytes a second, which may be compared across sizes, and of the share of each one's read rate."""
    names = list(dict.fromkeys(row["name"] for result in results for row in result["rows"]))
    heading = ["GB/s (of the read rate)", *(_heading(result) for result in results)]
    cells = [heading]
    for name in names:
        line = [name]
        for result in results:
            seconds = next((row["seconds"] for row in result["rows"] if row["name"] == name), None)
            share = result["read_seconds"] / seconds if seconds else 0
            line.append(f"{_rate(result['bytes'] / seconds)} ({share:.0%})" if seconds else "")
        cells.append(line)
    return [*cells, [READ, *(_rate(result["bytes"] / result["read_seconds"]) for result in results)]]


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:,.4g}"


def _facts(result: Results) -> str:
    """The environment, in the order in which it was written down."""
    return ", ".join(f"{name} {value}" for name, value in result["environment"].items() if value is not None)


def _markdown(
    title: str, tables: Sequence[tuple[str, Rows]], pictures: dict[str, Path], results: Sequence[Results]
) -> str:
    lines = [f"# {title}", ""]
    for heading, (first, *rest) in tables:
        lines += [f"## {heading}", "", _markdown_row(first), "|---|" + "--:|" * (len(first) - 1)]
        lines += [*map(_markdown_row, rest), ""]
    for heading, path in pictures.items():
        lines += [f"![{heading}]({path.name})", ""]
    lines += ["## Measured on", "", *(f"- {_facts(result)}" for result in results)]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _page(title: str, tables: Sequence[tuple[str, Rows]], pictures: dict[str, Path], results: Sequence[Results]) -> str:
    parts = []
    for heading, path in pictures.items():
        data = base64.b64encode(path.read_bytes()).decode()
        text = html.escape(heading)
        parts.append(f'<h2>{text}</h2>\n<img alt="{text}" src="data:image/svg+xml;base64,{data}">')
    for heading, (first, *rest) in tables:
        parts.append(f"<h2>{html.escape(heading)}</h2>\n<table>\n<thead>{_html_row(first, 'th')}</thead>\n<tbody>")
        parts += [_html_row(row, "td") for row in rest]
        parts.append("</tbody>\n</table>")
    parts.append("<h2>Measured on</h2>\n<ul>")
    parts += [f"<li>{html.escape(_facts(result))}</li>" for result in results]
    parts.append("</ul>")
    return _PAGE.substitute(title=html.escape(title), body="\n".join(parts))


def _html_row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def draw_waterfall(results: Sequence[Results], path: Path) -> None:
    """A bar for each rung: the time it takes, and, pale, what the step before it has saved."""
    with figure_for(path, (9, 0.6 + 3.2 * len(results)), [_drawn(result) for result in results]) as figure:
        for axes, result in zip(figure.subplots(len(results), 1, squeeze=False).flat, results, strict=True):
            for place, row in enumerate(result["rows"]):
                time = row["seconds"] * 1e6
                top, label = time, f"{time:.4g}"
                if row["step"] is not None:
                    before = time * row["step"]
                    top, label = max(time, before), f"{label}\n{row['step']:.2f} x"
                    axes.bar(place, before - time, bottom=time, color="#0072b2", alpha=0.2)
                axes.bar(place, time, color="#0072b2" if row["title"] else "#999999")
                axes.text(place, top, label, ha="center", va="bottom", fontsize=7)
            _line(axes, result["read_seconds"] * 1e6, READ)
            names = [f"{row['name']}\n{row['title']}" for row in result["rows"]]
            axes.set_xticks(range(len(names)), names, fontsize=6)
            axes.set_ylabel("time of one call, us")
            axes.set_title(_heading(result))
            axes.margins(y=0.15)
            axes.legend(fontsize=7)


def _line(axes: "Axes", height: float, label: str) -> None:
    axes.axhline(height, color="black", linestyle="--", linewidth=1, label=label)


def _drawn(result: Results) -> dict[str, Any]:
    return {
        "device": result["environment"]["device"],
        "read_seconds": result["read_seconds"],
        "seconds": {row["name"]: row["seconds"] for row in result["rows"]},
    }


def draw_roofline(results: Sequence[Results], path: Path) -> None:
    """Bytes a second against n: below the slope of the launch floor and the flat of the read rate."""
    data = [{"device": result["environment"]["device"], "sizes": result["sizes"]} for result in results]
    with figure_for(path, (9, 0.6 + 4.2 * len(results)), data) as figure:
        for axes, result in zip(figure.subplots(len(results), 1, squeeze=False).flat, results, strict=True):
            sizes = result["sizes"]
            floor = min(size["seconds"][READ] for size in sizes)
            rate = max(size["bytes"] / size["seconds"][READ] for size in sizes)
            n = [size["n"] for size in sizes]
            names = [name for name in sizes[0]["seconds"] if name != READ]
            for place, name in enumerate(names):
                rates = [
                    size["bytes"] / size["seconds"][name] / 1e9 if name in size["seconds"] else math.nan
                    for size in sizes
                ]
                style = {"linewidth": 2.2, "color": "black"} if name == "reduce.sum" else {"color": f"C{place}"}
                axes.plot(n, rates, marker=".", **{"linewidth": 1} | style, label=name)
            _line(axes, rate / 1e9, f"read rate, {_rate(rate)} GB/s")
            slope = [size["bytes"] / floor / 1e9 for size in sizes]
            axes.plot(n, slope, color="black", linestyle=":", linewidth=1, label=f"launch floor, {floor * 1e6:.3g} us")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_ylim(top=2 * rate / 1e9)
            axes.set_xlabel("elements")
            axes.set_ylabel("GB/s")
            axes.set_title(f"{result['environment']['device']}: {result['dtype']}")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=6, ncols=2)
