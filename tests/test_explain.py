"""``explain``: its counts against the text of the ladder, a second count, and what a race would need."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import reduce_ops
from reduce_ops import LADDER, Explanation, Phase, explain
from reduce_ops.__main__ import main
from reduce_ops.explanation_view import view

SIZED = [(rung.number, size) for rung in LADDER for size in rung.block_sizes]
EVERY_RUNG = pytest.mark.parametrize("version, block_size", SIZED)


def rounds(explanation: Explanation) -> list[Phase]:
    return list(explanation.phases[1:-1])


def test_the_conflicts_that_the_ladder_names() -> None:
    def degrees(version: int, width: int) -> list[int]:
        return [phase.degree(width) for phase in rounds(explain(version))]

    assert degrees(0, 4) == degrees(0, 8) == [1] * 8
    assert degrees(1, 4) == [2, 4, 8, 8, 8, 4, 2, 1]
    assert degrees(1, 8) == [2, 4, 8, 16, 8, 4, 2, 1]  # at d = 8 a half-warp's 16 lanes are 32 words apart
    for version in (2, 3, 4, 5, 6):
        assert degrees(version, 4) == degrees(version, 8) == [1] * 8
    assert set(degrees(7, 4)) == {0, 1}  # it touches shared memory once


def test_the_lanes_that_the_ladder_names() -> None:
    v0, v1 = explain(0), explain(1)
    assert [phase.lanes for phase in rounds(v0)] == [16, 8, 4, 2, 1, 1, 1, 1]
    assert [phase.active_warps for phase in rounds(v0)] == [8, 8, 8, 8, 8, 4, 2, 1]
    assert [phase.lanes for phase in rounds(v1)] == [32, 32, 32, 16, 8, 4, 2, 1]
    assert [phase.active_warps for phase in rounds(v1)] == [4, 2, 1, 1, 1, 1, 1, 1]
    assert [phase.adds for phase in rounds(v0)] == [phase.adds for phase in rounds(v1)]
    # Packing the workers halves nothing in shared memory: what v1 saves in instructions it pays in conflicts.
    assert v0.totals.wavefronts_read == v1.totals.wavefronts_read
    assert v0.totals.shared_reads == 3.8 * v1.totals.shared_reads


def test_passes() -> None:
    assert [launch.blocks for launch in explain(0, n=2**25).passes] == [2**17, 2**9, 2, 1]
    assert [(launch.elements, launch.blocks) for launch in explain(7, n=2**25).passes] == [(128, 1024), (1, 4), (1, 1)]
    assert [launch.n for launch in explain(3, n=513).passes] == [513, 2]
    assert [launch.blocks for launch in explain(5, n=1, block_size=128).passes] == [1]


@pytest.mark.parametrize(
    "version, block_barriers, warp_steps", [(0, 9, 0), (3, 9, 0), (4, 3, 6), (5, 3, 6), (6, 3, 6), (7, 1, 0), (8, 3, 0)]
)
def test_barriers_of_the_kernels(version: int, block_barriers: int, warp_steps: int) -> None:
    phases = explain(version).phases
    assert Counter(phase.barrier for phase in phases)["block"] == block_barriers
    assert Counter(phase.barrier for phase in phases)["warp"] == warp_steps


@EVERY_RUNG
def test_no_thread_reads_what_another_may_still_write(version: int, block_size: int) -> None:
    assert not races(explain(version, block_size=block_size).phases, without=None)


@pytest.mark.parametrize(
    "version, needed",
    [
        (0, ["d = 16", "d = 32", "d = 64"]),  # up to d = 16 a warp stays within its own 32 words
        (2, ["load", "d = 128", "d = 64"]),  # from d = 32 on one warp is alone, which is v4's idea
        *[(version, ["load", "d = 128", "d = 64"]) for version in (4, 5, 6, 8)],
        (7, ["collect"]),
    ],
)
def test_block_barriers_that_a_race_would_miss(version: int, needed: list[str]) -> None:
    phases = explain(version).phases
    barriers = [i for i, phase in enumerate(phases) if phase.barrier == "block"]
    assert [phases[i].name for i in barriers if races(phases, without=i)] == needed


def races(phases: tuple[Phase, ...], without: int | None) -> bool:
    """Two warps touch a word, one of them writing, with no block-wide barrier between."""
    writers: dict[int, set[int]] = {}
    readers: dict[int, set[int]] = {}
    for i, phase in enumerate(phases):
        for access in phase.accesses:
            if phase.step == "collect" and access.kind == "read" and i != without:
                writers, readers = {}, {}  # its barrier lies between its store and its load
            for thread, slot in zip(access.threads, access.slots, strict=True):
                warp = {thread // 32}
                if writers.get(slot, set()) - warp or (access.kind == "write" and readers.get(slot, set()) - warp):
                    return True
                (writers if access.kind == "write" else readers).setdefault(slot, set()).update(warp)
        if phase.barrier == "block" and i != without:
            writers, readers = {}, {}
    return False


def counted(version: int, width: int) -> Counter[str]:
    """One block of 256 threads, once more, from the text of the kernels: instructions and bank passes, warp by warp."""
    counts: Counter[str] = Counter()

    def touch(kind: str, slot_of: dict[int, int]) -> None:
        for warp in range(8):
            lanes = {t % 32: slot for t, slot in slot_of.items() if t // 32 == warp}
            counts[f"{kind} instructions"] += bool(lanes)
            for half in ([range(32)], [range(16), range(16, 32)])[width == 8]:
                words = {
                    slot * width // 4 + w for lane, slot in lanes.items() if lane in half for w in range(width // 4)
                }
                if words:
                    counts[f"{kind} passes"] += max(Counter(word % 32 for word in words).values())
            counts[f"{kind} fewest"] += -(-len(lanes) * width // 128)

    everyone = {t: t for t in range(256)}
    touch("write", everyone)
    if version in (6, 8):
        for _ in range(128):
            touch("read", everyone)
            touch("write", everyone)
    for r in range(8):
        up, down = 2**r, 128 >> r
        if version == 0:
            slots, d = {t: t for t in range(256) if t % (2 * up) == 0}, up
        elif version == 1:
            slots, d = {t: 2 * up * t for t in range(256) if 2 * up * t < 256}, up
        else:
            slots, d = {t: t for t in range(down)}, down
            if version >= 4 and d <= 32:
                slots = {t: t for t in range(32)}
        if version == 8 and d < 32:
            continue
        touch("read", slots)
        touch("read", {t: slot + d for t, slot in slots.items()})
        if version != 8 or d > 32:
            touch("write", slots)
    if version != 8:
        touch("read", {0: 0})
    return counts


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5, 6, 8])
def test_totals_against_a_second_count(version: int, width: int) -> None:
    totals = explain(version).totals
    for name, total in {
        "read instructions": totals.shared_reads,
        "write instructions": totals.shared_writes,
        "read passes": totals.wavefronts_read[width],
        "write passes": totals.wavefronts_written[width],
        "read fewest": totals.wavefronts_read[width] - totals.conflicts_read[width],
        "write fewest": totals.wavefronts_written[width] - totals.conflicts_written[width],
    }.items():
        assert total == counted(version, width)[name] * totals.blocks, name


def test_totals_of_the_shuffles() -> None:
    totals = explain(7, block_size=1024).totals  # 32 warps: 5 shuffles each, then 5 of the first
    assert totals.shuffles == 1024 * (32 * 5 + 5)
    assert (totals.shared_words_written, totals.shared_words_read) == (1024 * 32, 1024 * 32)
    assert (totals.shared_writes, totals.shared_reads) == (1024 * 32, 1024)
    assert explain(8).totals.shuffles == 1024 * 5


@EVERY_RUNG
def test_one_block_needs_one_add_less_than_it_has_elements(version: int, block_size: int) -> None:
    explanation = explain(version, block_size=block_size)
    block = explanation.passes[0].elements * block_size
    assert sum(phase.needed_adds for phase in explanation.phases) == block - 1
    assert all(phase.needed_adds <= phase.adds for phase in explanation.phases)


@given(sized=st.sampled_from(SIZED), n=st.integers(1, 2**22))
def test_totals_at_any_size(sized: tuple[int, int], n: int) -> None:
    explanation = explain(sized[0], n=n, block_size=sized[1])
    totals = explanation.totals
    assert totals.adds >= totals.needed_adds == n - totals.blocks
    assert totals.global_bytes_read == 4 * n
    assert explanation.passes[-1].blocks == 1
    for width in (4, 8):
        assert totals.wavefronts_read[width] >= totals.shared_reads
        assert totals.wavefronts_written[width] >= totals.shared_writes
    if explanation.phases[0].step == "accumulate":
        assert totals.shared_words_read >= n


@pytest.mark.alone
def test_every_rung_is_explained_within_a_second() -> None:
    start = time.perf_counter()
    for version, block_size in SIZED:
        explain(version, block_size=block_size)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"version": 9}, "version=9"),
        ({"version": -1}, "version=-1"),
        ({"version": "v3"}, "version='v3'"),
        ({"version": 3, "n": 0}, "n=0"),
        ({"version": 3, "n": 2**63}, "n=9223372036854775808"),
        ({"version": 3, "n": 1.5}, "n=1.5"),
        ({"version": 3, "block_size": 128}, "block_size=128.*v3.*256"),
        ({"version": 7, "block_size": 96}, "block_size=96.*v7.*64, 128"),
    ],
)
def test_bad_values(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(**arguments)


def test_a_grid_that_cuda_does_not_have() -> None:
    with pytest.raises(RuntimeError, match="2147483647"):
        explain(0, n=2**50)


# ---- python -m reduce_ops explain ----


def output(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capfd.readouterr().out


@EVERY_RUNG
def test_plain_text_of_80_columns_in_a_pipe(version: int, block_size: int, capfd: pytest.CaptureFixture[str]) -> None:
    text = output(capfd, f"v{version}", "--block-size", str(block_size))
    assert "\x1b" not in text and "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert f"v{version}, {LADDER[version].title}" in text
    explanation = explain(version, block_size=block_size)
    for phase in explanation.phases:
        name = f"shuffle {phase.distance}" if phase.step == "shuffle" else phase.name
        words = [line.split() for line in text.splitlines() if line.startswith(name + " ")]
        assert any(
            str(phase.active_threads) in line and (phase.barrier == "none" or line[-1] == phase.barrier)
            for line in words
        ), name
    assert f"{explanation.totals.adds:,}" in text


@EVERY_RUNG
def test_80_columns_in_a_terminal(version: int, block_size: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, legacy_windows=False)
    console.print(view(explain(version, block_size=block_size), explain(0)))
    text = console.file.getvalue()
    assert "\x1b[1m" in text and "…" not in text
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in text.splitlines()) <= 80


def test_against(capfd: pytest.CaptureFixture[str]) -> None:
    lines = output(capfd, "v3", "--against", "2").splitlines()
    (blocks,) = [line.split() for line in lines if line.startswith("blocks ")]
    assert blocks == ["blocks", "131,072", "65,536", "0.5", "x"]
    assert any(line.split() == ["v2", "v3", "ratio"] for line in lines)


def test_against_in_blocks_of_another_size(capfd: pytest.CaptureFixture[str]) -> None:
    headings = {
        other: [line.split() for line in output(capfd, "v7", "--block-size", "512", "--against", other).splitlines()]
        for other in ("v4", "v5")
    }
    assert ["v4", "(256)", "v7", "(512)", "ratio"] in headings["v4"]
    assert ["v5", "v7", "ratio"] in headings["v5"]


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    report = json.loads(output(capfd, "sum_v1", "--n", "1000", "--json"))
    assert report["schema"] == "reduce_ops.explain/1"
    assert (report["rung"], report["n"], report["block_size"]) == ("sum_v1", 1000, 256)
    assert [phase["conflict_degree"]["4"] for phase in report["phases"][1:-1]] == [2, 4, 8, 8, 8, 4, 2, 1]
    assert report["totals"]["conflicts_read"] == {"4": 4 * 70, "8": 4 * 120}
    assert report == explain(1, n=1000).as_json()
    both = json.loads(output(capfd, "v5", "--against", "v4", "--block-size", "512", "--json"))
    assert (both["block_size"], both["against"]["block_size"]) == (512, 256)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["v9"], "unknown rung 'v9'"),
        (["v1,v2"], "more than one rung"),
        ([], "rung"),
        (["v3", "--n", "0"], "--n"),
        (["v3", "--block-size", "128"], "block_size=128"),
        (["v7", "--block-size", "many"], "--block-size"),
        (["v3", "--against", "v10"], "--against"),
        (["v3", "--format", "xml"], "--format"),
        (["v0", "--n", str(2**50)], "at most 2147483647"),
    ],
)
def test_bad_arguments(arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["explain", *arguments])
    assert error.value.code == 2
    written = capfd.readouterr()
    assert written.out == ""
    message = written.err.partition("error: ")[2]
    assert words in message and message.count("\n") == 1


def command(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-m", "reduce_ops", "explain", "v4"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parent,
        check=True,
    )


def test_as_a_command() -> None:
    result = command()
    assert result.stdout.startswith("v4, unroll last warp")
    assert result.stderr == ""


def test_the_command_does_not_import_pytorch() -> None:
    imported = re.findall(r"\| +(\S+)$", command("-X", "importtime").stderr, re.MULTILINE)
    assert {"reduce_ops", "reduce_ops.rungs", "rich"} <= set(imported)
    assert "torch" not in imported


def test_a_reader_that_leaves_early() -> None:
    command = [sys.executable, "-m", "reduce_ops", "explain", "v4", "--json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == b""


def test_the_command_answers_within_a_second() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        command()
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 1  # 0.15 s, unless something else has the machine


def test_it_is_in_the_package() -> None:
    assert reduce_ops.explain(3).rung is LADDER[3]
