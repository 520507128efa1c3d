"""How an explanation is shown on a terminal of 80 columns: a block's phases, the totals, two rungs side by side."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from reduce_ops.explanation import ELEMENT_BYTES, WARP, Explanation, Phase

_STEPS = {
    "store": "elements summed in a register, stored in shared memory",
    "accumulate": "elements summed in shared memory: a read, an add and a write each",
    "keep": "elements summed in a register, where the sum stays",
}


def view(explanation: Explanation, against: Explanation | None = None) -> RenderableType:
    """Lay an explanation out; with ``against`` also its totals beside another's."""
    rung = explanation.rung
    first = explanation.passes[0]
    launches = " -> ".join(f"{launch.n:,}" for launch in explanation.passes) + " -> 1"
    head = Text.assemble(
        (f"v{rung.number}, {rung.title}", "bold"),
        f": {rung.summary}\n\n"
        f"{len(explanation.passes)} passes: {launches}\n"
        f"first pass: {first.blocks:,} blocks of {first.threads} threads ({first.threads // WARP} warps), "
        f"{first.elements} elements a thread\n"
        f"load: {_STEPS[explanation.phases[0].step]}\n\n",
        ("one block, phase by phase", "italic"),
    )
    heading = Text("first pass, all blocks; instructions count once a warp", style="italic")
    return Group(head, _phases(explanation), _notes(explanation), heading, _totals(explanation, against))


def _table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)


def _phases(explanation: Explanation) -> Table:
    table = _table()
    table.add_column("phase", no_wrap=True)
    for heading in ("threads", "warps", "lanes", *(f"{width}-byte" for width in ELEMENT_BYTES), "adds", "words"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("barrier", no_wrap=True)
    for phase in explanation.phases:
        table.add_row(
            f"shuffle {phase.distance}" if phase.step == "shuffle" else phase.name,
            f"{phase.active_threads}",
            f"{phase.active_warps} of {phase.warps_inside}",
            f"{phase.lanes:.3g}",
            *(_degree(phase, width) for width in ELEMENT_BYTES),
            _number(phase.adds) if phase.adds else "",
            _number(phase.words) if phase.words else "",
            "" if phase.barrier == "none" else phase.barrier,
        )
    return table


def _degree(phase: Phase, width: int) -> str:
    degree = phase.degree(width)
    return f"{degree}-way" if degree > 1 else "free" if degree else ""


def _notes(explanation: Explanation) -> Text:
    lines = [
        "warps: with a working thread, of those that walk through",
        "lanes: at work in a warp with a working thread",
        "4-byte, 8-byte: worst bank conflict of a warp with elements of that size",
        "words: elements moved between shared memory and registers",
        "conflicts: bank passes beyond the fewest for as many bytes, as ncu counts",
    ]
    wasted = sum(phase.adds - phase.needed_adds for phase in explanation.phases[1:])
    if wasted:
        lines.append(f"adds: {wasted:,} of those in the rounds are of lanes that nobody reads any more")
    return Text("\n" + "\n".join(lines) + "\n", style="dim")


def totals(explanation: Explanation) -> dict[str, float]:
    """Return the totals of the first pass under the headings that people see."""
    figures = explanation.totals
    rows: dict[str, float] = {
        "blocks": figures.blocks,
        "lanes at work / working warp": figures.lanes,
        "lanes at work / warp inside": figures.lanes_inside,
        "adds": figures.adds,
        "adds that count": figures.needed_adds,
        "shared words read": figures.shared_words_read,
        "shared words written": figures.shared_words_written,
        "shared reads, instructions": figures.shared_reads,
        "shared writes, instructions": figures.shared_writes,
    }
    for width in ELEMENT_BYTES:
        rows[f"bank passes, {width}-byte"] = figures.wavefronts_read[width] + figures.wavefronts_written[width]
        rows[f"of these conflicts, {width}-byte"] = figures.conflicts_read[width] + figures.conflicts_written[width]
    return rows | {
        "shuffles": figures.shuffles,
        "block barriers": figures.block_barriers,
        "warp barriers": figures.warp_barriers,
        "passes over the data": len(explanation.passes),
    }


def _totals(explanation: Explanation, against: Explanation | None) -> Table:
    table = _table()
    table.add_column("", no_wrap=True)
    sides = [explanation] if against is None else [against, explanation]
    block_sizes = {side.block_size for side in sides}
    for side in sides:
        size = f" ({side.block_size})" if len(block_sizes) > 1 else ""
        table.add_column(f"v{side.rung.number}{size}", justify="right", no_wrap=True)
    if against is not None:
        table.add_column("ratio", justify="right", no_wrap=True)
    columns = [totals(side) for side in sides]
    for name in columns[0]:
        values = [column[name] for column in columns]
        table.add_row(name, *map(_number, values), *([_ratio(*values)] if against is not None else []))
    return table


def _ratio(before: float, after: float) -> str:
    if before == after:
        return "same"
    return f"{after / before:.3g} x" if before else ""


def _number(value: float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if value < 10**12 else f"{value:.4g}"
