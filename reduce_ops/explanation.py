"""What a rung does, counted: threads at work, shared-memory words and bank conflicts, barriers, adds.

Everything is computed from the schedule in ``csrc/ladder/schedule.cpp``, which the CPU twin of each rung runs, and in
the units in which Nsight Compute counts, so that ``python -m reduce_ops profile`` can set the two side by side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from reduce_ops.rungs import LADDER, Round, Rung, Schedule, schedule

REFERENCE_N = 32 * 2**20
"""The ladder's reference size, at which published figures are given too."""

WARP = 32
BANKS = 32
BANK_BYTES = 4
ELEMENT_BYTES = (4, 8)
"""The widths of a sum that bank conflicts are given for."""

MAX_N = 2**62
"""More elements than fit in any memory; beyond, the counts would leave 64 bits."""


@dataclass(frozen=True)
class Access:
    """One shared-memory instruction of a phase: which thread touches which element of the array."""

    kind: str
    """``read`` or ``write``."""
    threads: tuple[int, ...]
    slots: tuple[int, ...]
    """Slot i is that of thread i of ``threads``."""
    warps_inside: int
    """Warps that issue it where the compiler predicates it: all that walk through, with a working lane or without."""

    @property
    def requests(self) -> int:
        """Warps that take part, where the compiler predicates too: ``smsp__sass_inst_executed_op_shared``."""
        return len({thread // WARP for thread in self.threads})

    def wavefronts(self, element_bytes: int) -> int:
        """Passes through the 32 banks that serve all warps: ``L1 Wavefronts Shared`` of ncu's source page."""
        return sum(degree for warp in self._by_warp() for degree in _degrees(warp, element_bytes))

    def ideal_wavefronts(self, element_bytes: int) -> int:
        """The fewest passes that could move as many bytes, 128 each: ``L1 Wavefronts Shared Ideal``."""
        return sum(-(-len(warp) * element_bytes // (BANKS * BANK_BYTES)) for warp in self._by_warp())

    def conflicts(self, element_bytes: int) -> int:
        """Passes beyond the fewest, ``L1 Wavefronts Shared Excessive``.

        That is what Nsight Compute calls conflicts. With 8-byte elements not all of them are two lanes that meet in a
        bank: 16 lanes spread over both halves of a warp take a pass for each half, and next to one another take one.
        """
        return self.wavefronts(element_bytes) - self.ideal_wavefronts(element_bytes)

    def degree(self, element_bytes: int) -> int:
        """The worst n of an "n-way conflict" in any warp; 1 is no conflict."""
        return max((degree for warp in self._by_warp() for degree in _degrees(warp, element_bytes)), default=0)

    def _by_warp(self) -> list[list[tuple[int, int]]]:
        warps: dict[int, list[tuple[int, int]]] = {}
        for thread, slot in zip(self.threads, self.slots, strict=True):
            warps.setdefault(thread // WARP, []).append((thread % WARP, slot))
        return list(warps.values())


def _degrees(lanes: Iterable[tuple[int, int]], element_bytes: int) -> list[int]:
    """How many passes each phase of one warp's access takes.

    The banks deliver 32 words of 4 bytes at a time. A warp's 4-byte elements are one phase, its 8-byte elements two:
    the lower and the upper half of the lanes, each only if one of its lanes takes part. In a phase, lanes that want
    different words of one bank are served one after the other, lanes that want the same word together.
    """
    words = element_bytes // BANK_BYTES
    lanes_a_phase = WARP // words
    phases: dict[int, dict[int, set[int]]] = {}
    for lane, slot in lanes:
        banks = phases.setdefault(lane // lanes_a_phase, {})
        for word in range(slot * words, (slot + 1) * words):
            banks.setdefault(word % BANKS, set()).add(word)
    return [max(len(words) for words in banks.values()) for banks in phases.values()]


@dataclass(frozen=True)
class Phase:
    """What one block does between two waits: it loads, runs one round, or writes its result."""

    name: str
    """``load``, ``d = 128`` (a round at that distance), ``collect`` or ``result``."""
    step: str
    """What a round does, as schedule.h names it (``shared``, ``fetch``, ``shuffle``, ``collect``); how a load leaves
    its sum (``store``, ``accumulate``, ``keep``); ``result``."""
    distance: int
    """Between the two slots or lanes of an add; 0 where nothing is added over a distance."""
    workers: tuple[int, ...]
    """The threads that do it."""
    slots: tuple[int, ...]
    """The slot that each worker adds into."""
    warps_inside: int
    """Warps that walk through the phase, with or without a worker: where the compiler predicates the work instead of
    branching around it, all of these issue its instructions."""
    barrier: str
    """What is waited for afterwards: ``none``, ``warp`` or ``block``."""
    adds: int
    """Additions that are carried out, those included whose result nobody uses."""
    needed_adds: int
    """Additions that the result depends on."""
    shuffles: int
    """Warp shuffles, one a warp."""
    elements: int
    """Elements read from global memory."""
    accesses: tuple[Access, ...]
    """Its shared-memory instructions."""
    repeats: int
    """How often each of the accesses comes: the elements a thread, where they are added in shared memory."""

    @property
    def active_threads(self) -> int:
        """Threads that do something."""
        return len(self.workers)

    @property
    def active_warps(self) -> int:
        """Warps with at least one such thread."""
        return len({thread // WARP for thread in self.workers})

    @property
    def lanes(self) -> float:
        """Lanes at work per warp that has any: 32 is no divergence."""
        return self.active_threads / self.active_warps

    @property
    def lanes_inside(self) -> float:
        """Lanes at work per warp that walks through: what Nsight Compute reports of predicated instructions."""
        return self.active_threads / self.warps_inside

    @property
    def words(self) -> int:
        """Elements moved between shared memory and registers."""
        return self.repeats * sum(len(access.threads) for access in self.accesses)

    def degree(self, element_bytes: int) -> int:
        """The worst bank conflict of its accesses: lanes of a warp that meet in one bank; 0 without accesses."""
        return max((access.degree(element_bytes) for access in self.accesses), default=0)


@dataclass(frozen=True)
class Pass:
    """One launch: ``n`` values in, one sum a block out."""

    n: int
    threads: int
    elements: int
    """A thread."""
    blocks: int


@dataclass(frozen=True)
class Totals:
    """One launch, all blocks together, in Nsight Compute's units."""

    blocks: int
    global_bytes_read: int
    """For 4-byte elements; twice that for 8-byte ones."""
    adds: int
    """Lane by lane: ``smsp__sass_thread_inst_executed_op_fadd_pred_on``."""
    needed_adds: int
    shared_words_read: int
    shared_words_written: int
    shared_reads: int
    """Instructions, one a warp with a working lane: ``smsp__sass_inst_executed_op_shared_ld``."""
    shared_writes: int
    shared_reads_inside: int
    """Instructions where the compiler predicates: one a warp that walks through."""
    shared_writes_inside: int
    wavefronts_read: dict[int, int]
    """By bytes of an element."""
    wavefronts_written: dict[int, int]
    conflicts_read: dict[int, int]
    conflicts_written: dict[int, int]
    shuffles: int
    """For elements of 4 bytes; twice as many for 8, which a shuffle hands over in two halves."""
    block_barriers: int
    """Instructions, one a warp of the block: ``BAR.SYNC``."""
    warp_barriers: int
    lanes: float
    """Lanes at work per warp with work, over all rounds."""
    lanes_inside: float
    """Lanes at work per warp that walks through, over all rounds."""


@dataclass(frozen=True)
class Explanation:
    """A rung at one size. ``phases`` are those of one full block of the first pass."""

    rung: Rung
    n: int
    block_size: int
    passes: tuple[Pass, ...]
    phases: tuple[Phase, ...]
    totals: Totals
    """Of the first pass."""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain dicts and lists. Threads and slots are left out; their numbers are in."""
        return {
            "schema": "reduce_ops.explain/1",
            "rung": self.rung.name,
            "title": self.rung.title,
            "summary": self.rung.summary,
            "n": self.n,
            "block_size": self.block_size,
            "passes": [vars(launch) for launch in self.passes],
            "phases": [_phase_as_json(phase) for phase in self.phases],
            "totals": {
                name: {str(width): count for width, count in value.items()} if isinstance(value, dict) else value
                for name, value in vars(self.totals).items()
            },
        }


def _phase_as_json(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "step": phase.step,
        "distance": phase.distance,
        "active_threads": phase.active_threads,
        "active_warps": phase.active_warps,
        "warps_inside": phase.warps_inside,
        "lanes": phase.lanes,
        "lanes_inside": phase.lanes_inside,
        "conflict_degree": {str(width): phase.degree(width) for width in ELEMENT_BYTES},
        "barrier": phase.barrier,
        "adds": phase.adds,
        "needed_adds": phase.needed_adds,
        "shuffles": phase.shuffles,
        "elements": phase.elements,
        "shared_words": phase.words,
    }


def explain(
    version: int, *, n: int = REFERENCE_N, block_size: int | None = None, scaled_down: bool = False
) -> Explanation:
    """Count what rung ``version`` does with ``n`` elements, from the schedule that its CPU twin runs.

    Args:
        version: The rung, 0 to 8.
        n: Elements, from 1 on.
        block_size: Threads a block, for the rungs that take it (``LADDER[version].block_sizes``); 256 by default.
        scaled_down: Whether ``block_size`` may be any power of two from 64 to 1024: what the rung would do in blocks of
            that size, for pictures of it.

    Returns:
        The passes over the data, what one full block does phase by phase, and the totals of the first pass.

    Raises:
        ValueError: There is no such rung, it does not take this ``block_size``, or ``n`` is not 1 to 2**62.
        RuntimeError: The rung would need more blocks than a CUDA grid has.
    """
    if not isinstance(version, int) or not 0 <= version < len(LADDER):
        raise ValueError(f"explain: version={version!r} is not a rung; accepted are 0 to {len(LADDER) - 1}")
    if not isinstance(n, int) or not 1 <= n <= MAX_N:
        raise ValueError(f"explain: n={n!r} is not a number of elements; accepted are integers from 1 to 2**62")
    rung = LADDER[version]
    threads = 256 if block_size is None else block_size
    sizes = (64, 128, 256, 512, 1024) if scaled_down else rung.block_sizes
    if threads not in sizes:
        accepted = ", ".join(map(str, sizes))
        raise ValueError(f"explain: block_size={threads!r} is not accepted by v{version}; accepted are {accepted}")

    schedules = [schedule(rung, threads, n)]
    first = schedules[0]
    if first.blocks > first.max_blocks:
        raise RuntimeError(
            f"explain: n={n} takes {first.blocks} blocks of {first.elements * threads} elements in v{version}; a CUDA "
            f"grid has at most {first.max_blocks} (the rungs from v6 on take any number of elements)"
        )
    while schedules[-1].blocks > 1:
        schedules.append(schedule(rung, threads, schedules[-1].blocks))
    passes = tuple(Pass(launch.n, threads, launch.elements, launch.blocks) for launch in schedules)
    phases = _phases(threads, first)
    return Explanation(rung, n, threads, passes, phases, _totals(passes[0], first.load, phases))


def _phases(threads: int, launch: Schedule) -> tuple[Phase, ...]:
    load, elements = launch.load, launch.elements
    everyone = tuple(range(threads))
    warps = threads // WARP
    own_slot = {kind: Access(kind, everyone, everyone, warps) for kind in ("read", "write")}
    phases = [
        Phase(
            name="load",
            step=load,
            distance=0,
            workers=everyone,
            slots=everyone,
            warps_inside=warps,
            barrier="none" if load == "keep" else "block",
            # A register starts as its first element, a slot, and a register that many follow, as the identity.
            adds=threads * (elements - 1 if load == "store" else elements),
            needed_adds=threads * (elements - 1),
            shuffles=0,
            elements=threads * elements,
            accesses={"keep": (), "store": (own_slot["write"],), "accumulate": tuple(own_slot.values())}[load],
            repeats=elements if load == "accumulate" else 1,
        )
    ]
    for round_, needed_adds in zip(launch.rounds, _needed_adds(launch.rounds), strict=True):
        step, barrier, distance = round_.step, round_.barrier, round_.distance
        who = tuple(i * round_.thread_step for i in range(round_.workers))
        slots = tuple(i * round_.slot_step for i in range(round_.workers))
        there = tuple(slot + distance for slot in slots)
        active = len({thread // WARP for thread in who})
        inside = warps if barrier == "block" else active
        read = (Access("read", who, slots, inside), Access("read", who, there, inside))
        accesses = {
            "shared": (*read, Access("write", who, slots, inside)),
            "fetch": read,
            "shuffle": (),
            # One lane of each warp stores; then the first lanes of warp 0 load.
            "collect": (Access("write", who, slots, inside), Access("read", slots, slots, 1)),
        }[step]
        phases.append(
            Phase(
                name="collect" if step == "collect" else f"d = {distance}",
                step=step,
                distance=distance,
                workers=who,
                slots=slots,
                warps_inside=inside,
                barrier=barrier,
                adds=0 if step == "collect" else round_.workers,
                needed_adds=needed_adds,
                shuffles=active if step == "shuffle" else 0,
                elements=0,
                accesses=accesses,
                repeats=1,
            )
        )
    in_shared = launch.rounds[-1].step == "shared"
    phases.append(
        Phase(
            name="result",
            step="result",
            distance=0,
            workers=(0,),
            slots=(0,),
            warps_inside=1,
            barrier="none",
            adds=0,
            needed_adds=0,
            shuffles=0,
            elements=0,
            accesses=(Access("read", (0,), (0,), 1),) if in_shared else (),
            repeats=1,
        )
    )
    return tuple(phases)


def _needed_adds(rounds: Sequence[Round]) -> list[int]:
    """Walk back from value 0 and count, for each round, the adds that it depends on."""
    needed = []
    wanted = {0}
    for round_ in reversed(rounds):
        if round_.step == "collect":
            wanted = {w * WARP for w in wanted if w < round_.workers}
            needed.append(0)
            continue
        added = {slot for slot in (i * round_.slot_step for i in range(round_.workers)) if slot in wanted}
        if round_.step == "shuffle":
            added = {slot for slot in added if slot % WARP + round_.distance < WARP}
        wanted |= {slot + round_.distance for slot in added}
        needed.append(len(added))
    return needed[::-1]


def _totals(first: Pass, load: str, phases: Sequence[Phase]) -> Totals:
    """Multiply one block's phases by the blocks; only a load of many elements is shorter in the last, partial block."""
    blocks = first.blocks
    rounds = [phase for phase in phases if phase.step not in ("result", load)]
    load_phase = phases[0]
    warps = first.threads // WARP
    counts = {"read": [0, 0, 0], "write": [0, 0, 0]}  # words, instructions, instructions where all warps inside issue
    wavefronts = {kind: dict.fromkeys(ELEMENT_BYTES, 0) for kind in counts}
    conflicts = {kind: dict.fromkeys(ELEMENT_BYTES, 0) for kind in counts}

    def add(access: Access, times: int) -> None:
        counts[access.kind][0] += times * len(access.threads)
        counts[access.kind][1] += times * access.requests
        counts[access.kind][2] += times * access.warps_inside
        for width in ELEMENT_BYTES:
            wavefronts[access.kind][width] += times * access.wavefronts(width)
            conflicts[access.kind][width] += times * access.conflicts(width)

    for phase in phases:
        if phase.step != "accumulate":
            for access in phase.accesses:
                add(access, blocks)
    load_adds = blocks * load_phase.adds
    if load != "store":  # elements past the end are skipped, not replaced by the identity
        load_adds = first.n
    if load == "accumulate":
        everyone = tuple(range(first.threads))
        add(Access("write", everyone, everyone, warps), blocks)  # the identity
        full_rows, rest = divmod(first.n, first.threads)
        for threads, times in ((everyone, full_rows), (everyone[:rest], 1)):
            for kind in counts:
                add(Access(kind, threads, threads, -(-len(threads) // WARP)), times)

    active = sum(phase.active_threads for phase in rounds)
    return Totals(
        blocks=blocks,
        global_bytes_read=4 * first.n,
        adds=load_adds + blocks * sum(phase.adds for phase in rounds),
        needed_adds=first.n - blocks,
        shared_words_read=counts["read"][0],
        shared_words_written=counts["write"][0],
        shared_reads=counts["read"][1],
        shared_writes=counts["write"][1],
        shared_reads_inside=counts["read"][2],
        shared_writes_inside=counts["write"][2],
        wavefronts_read=wavefronts["read"],
        wavefronts_written=wavefronts["write"],
        conflicts_read=conflicts["read"],
        conflicts_written=conflicts["write"],
        shuffles=blocks * sum(phase.shuffles for phase in rounds),
        block_barriers=blocks * warps * sum(phase.barrier == "block" for phase in phases),
        warp_barriers=blocks * sum(_warp_barriers(phase) for phase in rounds),
        lanes=active / sum(phase.active_warps for phase in rounds),
        lanes_inside=active / sum(phase.warps_inside for phase in rounds),
    )


def _warp_barriers(phase: Phase) -> int:
    """Each worker's warp waits twice in a round: between its reads and its writes, and after these."""
    return 2 * phase.active_warps if phase.barrier == "warp" else 0
