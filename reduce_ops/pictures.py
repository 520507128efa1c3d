"""Pictures of a rung, drawn from its explanation: the tree of adds, the threads at work, the banks that they hit."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from reduce_ops.explanation import BANK_BYTES, BANKS, ELEMENT_BYTES, WARP, Access, Explanation, Phase, explain
from reduce_ops.files import replacing
from reduce_ops.rungs import LADDER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")

TREE_THREADS = 128
"""The tree is that of a block of four warps: one of 256 threads does the same, in lines too thin to follow."""

_WARP_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a5195")
_IDLE = "#d9d9d9"
_UNUSED = 0.25  # opacity of an add whose result nobody reads
_BANK_COLOURS = ("#b8e0c8", "#fdd49e", "#fdbb84", "#fc8d59", "#ef6548", "#d7301f", "#b30000", "#7f0000")

_STYLE: Any = {  # matplotlib types its keys, from some version on
    "svg.fonttype": "none",  # text as text: smaller, searchable, and the same whatever shapes it
    "svg.hashsalt": "reduce_ops",  # the same names of elements every time
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
}


def draw(explanation: Explanation, path: Path) -> None:
    """Draw one rung: its tree, its threads and its banks.

    Raises:
        ValueError: The file is neither .svg nor .png.
    """
    small = explain(explanation.rung.number, n=explanation.n, block_size=TREE_THREADS, scaled_down=True)
    phases = explanation.phases[:-1]
    heights = (len(small.phases) + 1, len(phases), max(5, sum(bool(phase.accesses) for phase in phases)))
    with figure_for(path, (10, 2.8 + 0.19 * sum(heights)), explanation.as_json()) as figure:
        rows = figure.add_gridspec(3, 1, height_ratios=heights)
        rung = explanation.rung
        figure.suptitle(f"v{rung.number}, {rung.title}", x=0.01, ha="left", fontsize=12)
        _draw_tree(figure.add_subplot(rows[0]), small)
        _draw_threads(figure.add_subplot(rows[1]), phases, explanation.block_size)
        banks = rows[2].subgridspec(1, len(ELEMENT_BYTES))
        for column, width in enumerate(ELEMENT_BYTES):
            _draw_banks(figure.add_subplot(banks[column]), phases, width)


def draw_overview(path: Path) -> None:
    """Draw the threads at work of all rungs side by side.

    Raises:
        ValueError: The file is neither .svg nor .png.
    """
    explanations = [explain(rung.number) for rung in LADDER]
    with figure_for(path, (11, 8), [explanation.as_json() for explanation in explanations]) as figure:
        panels = figure.subplots(-(-len(explanations) // 3), 3, squeeze=False).flat
        for axes, explanation in zip(panels, explanations, strict=False):
            phases = explanation.phases[:-1]
            _draw_threads(axes, phases, explanation.block_size, notes=False)
            totals = explanation.totals
            conflicts = max(phase.degree(4) for phase in phases)
            barriers = sum(phase.barrier == "block" for phase in phases)
            axes.set_title(f"v{explanation.rung.number}, {explanation.rung.title}", fontsize=9)
            axes.set_xlabel(
                f"{totals.lanes:.1f} lanes a working warp, {f'{conflicts}-way' if conflicts > 1 else 'no'} conflicts\n"
                f"{barriers} barrier{'' if barriers == 1 else 's'}, {totals.blocks:,} blocks",
                fontsize=7,
            )


def what_is_drawn(path: Path) -> tuple[str, list[str]]:
    """Return the data that an .svg of this module says it shows, and its texts: the same with any matplotlib."""
    root = ElementTree.fromstring(path.read_text())
    (description,) = root.iter("{http://purl.org/dc/elements/1.1/}description")
    texts = ["".join(text.itertext()).strip() for text in root.iter("{http://www.w3.org/2000/svg}text")]
    return description.text or "", [re.sub(r"\s+", " ", text) for text in texts]


def check_format(path: Path) -> None:
    """Raise a ValueError unless the file is an .svg or a .png."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: accepted are {' and '.join(FORMATS)} files")


@contextmanager
def figure_for(path: Path, size: tuple[float, float], data: Any) -> Iterator["Figure"]:
    """Give a figure to draw on, and write it when that is done; an .svg carries ``data`` as its description.

    Raises:
        ValueError: The file is neither .svg nor .png.
    """
    check_format(path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        metadata = {"Date": None, "Description": json.dumps(data)} if path.suffix == ".svg" else {}
        picture = io.BytesIO()
        figure.savefig(picture, format=path.suffix[1:], metadata=metadata, dpi=120)
    content = picture.getvalue()
    with replacing(path) as new:
        new.write_bytes(_tidied(content.decode()).encode() if path.suffix == ".svg" else content)


def _tidied(svg: str) -> str:
    """Make a drawing the same every time, and half as large.

    matplotlib names clips and markers after a hash of coordinates, whose last bit differs from run to run: here they
    are numbered. Coordinates of paths keep two of six decimals, 1/7200 of an inch.
    """
    names: dict[str, str] = {}
    number = re.compile(r"-?\d+\.\d+")

    def rounded(path: re.Match[str]) -> str:
        return number.sub(lambda x: f"{float(x[0]):.2f}".rstrip("0").rstrip("."), path[0]).replace("\n", "")

    svg = re.sub(r"\b[pm][0-9a-f]{10}\b", lambda name: names.setdefault(name[0], f"id{len(names)}"), svg)
    return re.sub(r' d="[^"]*"', rounded, svg)


def _segments(axes: "Axes", segments: Iterable[tuple[float, float, float, float]], **style: Any) -> None:
    """Draw lines (x, y, x, y) as one path: an .svg of a path for each would be ten times as large."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    points = [point for x0, y0, x1, y1 in segments for point in ((x0, y0), (x1, y1))]
    if points:
        codes = [Outline.MOVETO, Outline.LINETO] * (len(points) // 2)
        axes.add_patch(PathPatch(Outline(points, codes), fill=False, **style))


def _boxes(axes: "Axes", threads: Iterable[int], row: int, **style: Any) -> None:
    """Fill the cells of these threads: neighbours as one bar."""
    bars = []
    for _, run in groupby(enumerate(sorted(threads)), key=lambda item: item[1] - item[0]):
        members = [thread for _, thread in run]
        bars.append((members[0] - 0.5, len(members)))
    axes.broken_barh(bars, (row - 0.4, 0.8), linewidth=0, **style)


def _colour(warp: int) -> str:
    return _WARP_COLOURS[warp % len(_WARP_COLOURS)]


def _by_warp(threads: Iterable[int]) -> dict[int, list[int]]:
    warps: dict[int, list[int]] = {}
    for thread in threads:
        warps.setdefault(thread // WARP, []).append(thread)
    return warps


def _draw_tree(axes: "Axes", explanation: Explanation) -> None:
    """A row for each phase, a column for each value; lines lead from the values read to the one written."""
    phases = explanation.phases[:-1]
    threads = explanation.block_size
    wanted = _wanted(phases)
    for row, phase in enumerate(phases):
        idle = sorted(set(range(threads)) - set(phase.slots))
        _segments(axes, [(slot - 0.15, row, slot + 0.15, row) for slot in idle], color=_IDLE, linewidth=1.5)
        slot_of = dict(zip(phase.workers, phase.slots, strict=True))
        for warp, workers in _by_warp(phase.workers).items():
            for used in (False, True):
                slots = [(t, slot_of[t]) for t in workers if (slot_of[t] in wanted[row]) is used]
                _segments(
                    axes,
                    [line for t, slot in slots for line in _lines(phase, t, slot, row)],
                    color=_colour(warp),
                    linewidth=0.8 if used else 0.5,
                    alpha=1 if used else _UNUSED,
                )
    axes.set_title(
        f"Who adds what, in a block of {threads} threads: a line from each value read, in the colour of the warp that "
        "reads it; pale: nobody uses the result"
    )
    axes.set_ylim(len(phases) - 0.5, -0.9)
    axes.set_xlim(-1, threads)
    axes.set_yticks(range(len(phases)), [_name(phase) for phase in phases])
    axes.set_xticks(range(0, threads + 1, WARP))
    axes.set_xlabel("slot of shared memory, or thread whose register it is")
    axes.spines[:].set_visible(False)


def _lines(phase: Phase, thread: int, slot: int, row: int) -> list[tuple[float, float, float, float]]:
    if phase.step in ("store", "accumulate", "keep"):
        return [(slot, row - 0.6, slot, row)]
    if phase.step == "collect":
        return [(thread, row - 1, slot, row)]
    own = (slot, row - 1, slot, row)
    if phase.step == "shuffle" and slot % WARP + phase.distance >= WARP:
        return [own]  # it would look past its warp
    return [own, (slot + phase.distance, row - 1, slot, row)]


def _wanted(phases: Iterable[Phase]) -> list[set[int]]:
    """For each phase, the slots whose values the result depends on."""
    backwards = []
    wanted = {0}
    for phase in reversed(list(phases)):
        backwards.append(wanted)
        if phase.step == "collect":
            wanted = {worker for worker, slot in zip(phase.workers, phase.slots, strict=True) if slot in wanted}
        elif phase.distance:
            reach = {slot for slot in wanted if slot in phase.slots}
            if phase.step == "shuffle":
                reach = {slot for slot in reach if slot % WARP + phase.distance < WARP}
            wanted = wanted | {slot + phase.distance for slot in reach}
    return backwards[::-1]


def _name(phase: Phase) -> str:
    return f"shuffle {phase.distance}" if phase.step == "shuffle" else phase.name


def _draw_threads(axes: "Axes", phases: Iterable[Phase], threads: int, *, notes: bool = True) -> None:
    """A row for each phase, a cell for each thread: at work, idle in a warp that walks through, or not there."""
    phases = list(phases)
    for row, phase in enumerate(phases):
        inside = range(WARP * phase.warps_inside)
        _boxes(axes, set(inside) - set(phase.workers), row, color=_IDLE)
        for warp, workers in _by_warp(phase.workers).items():
            _boxes(axes, workers, row, color=_colour(warp))
        if notes:
            waits = f", {phase.barrier} barrier" if phase.barrier != "none" else ""
            text = f"{phase.active_threads} at work, {phase.lanes:.3g} in a warp{waits}"
            axes.text(threads + 2, row, text, va="center", fontsize=7)
    axes.set_ylim(len(phases) - 0.5, -0.5)
    axes.set_xlim(-1, threads * (1.35 if notes else 1))
    axes.set_yticks(range(len(phases)), [_name(phase) for phase in phases], fontsize=7)
    axes.set_xticks(range(0, threads + 1, max(WARP, threads // 8)))
    axes.spines[:].set_visible(False)
    if notes:
        axes.set_title(
            f"Threads of a block of {threads}: coloured (by warp) at work, grey idle while their warp walks through"
        )


def _draw_banks(axes: "Axes", phases: Iterable[Phase], width: int) -> None:
    """A row for each phase, a cell for each bank: the words that the worst warp wants of it at one time."""
    shown = [phase for phase in phases if phase.accesses]
    for row, phase in enumerate(shown):
        hits = _hits(max(phase.accesses, key=lambda access: (access.degree(width), -access.requests)), width)
        for count in sorted(set(hits.values())):
            banks = [bank for bank, words in hits.items() if words == count]
            _boxes(axes, banks, row, color=_BANK_COLOURS[min(count, len(_BANK_COLOURS)) - 1])
        degree = phase.degree(width)
        axes.text(BANKS + 0.5, row, f"{degree}-way" if degree > 1 else "no conflict", va="center", fontsize=7)
    axes.set_title(f"Banks hit by the worst {'warp' if width == BANK_BYTES else 'half-warp'}, {width}-byte elements")
    axes.set_ylim(max(5, len(shown)) - 0.5, -0.5)
    axes.set_xlim(-1, BANKS + 7)
    axes.set_yticks(range(len(shown)), [_name(phase) for phase in shown], fontsize=7)
    axes.set_xticks(range(0, BANKS + 1, 4))
    axes.spines[:].set_visible(False)


def _hits(access: Access, width: int) -> dict[int, int]:
    """Words wanted of each bank in the worst phase of the access."""
    words = width // BANK_BYTES
    phases: dict[int, dict[int, set[int]]] = {}
    for thread, slot in zip(access.threads, access.slots, strict=True):
        banks = phases.setdefault(thread // (WARP // words), {})
        for word in range(slot * words, (slot + 1) * words):
            banks.setdefault(word % BANKS, set()).add(word)
    worst = max(phases.values(), key=lambda banks: max(map(len, banks.values())))
    return {bank: len(wanted) for bank, wanted in worst.items()}
