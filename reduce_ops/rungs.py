"""The rungs of the ladder and their schedules, from ``csrc/ladder/schedule.cpp``, without PyTorch.

``python -m reduce_ops explain`` needs no more than this and answers before PyTorch would be imported.
"""

import ctypes
import json
from dataclasses import dataclass
from typing import Any

from reduce_ops import _library

_lib = ctypes.CDLL(str(_library.find("reduce_ops_schedule")))
_lib.reduce_ops_ladder.argtypes = ()
_lib.reduce_ops_ladder.restype = ctypes.c_char_p
_lib.reduce_ops_schedule.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_lib.reduce_ops_schedule.restype = ctypes.c_char_p


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder, a line of ``csrc/ladder/ladder.def``."""

    number: int
    """N of ``sum_vN``."""
    name: str
    """The operator: ``sum_v3``."""
    title: str
    """What the step is called: ``add during load``."""
    summary: str
    """What changed from the rung before, in one line."""
    block_sizes: tuple[int, ...]
    """Threads a block that ``block_size`` may name; only the default, 256, where the rung does not take it."""


LADDER: tuple[Rung, ...] = tuple(
    Rung(number, f"sum_v{number}", rung["title"], rung["summary"], tuple(rung["block_sizes"]))
    for number, rung in enumerate(json.loads(_lib.reduce_ops_ladder()))
)
"""All rungs in order: ``LADDER[N]`` is vN."""


@dataclass(frozen=True)
class Round:
    """One round of a block: ``Round`` of ``csrc/ladder/schedule.h``."""

    step: str
    workers: int
    thread_step: int
    slot_step: int
    distance: int
    barrier: str


@dataclass(frozen=True)
class Schedule:
    """One pass of a rung over ``n`` elements."""

    n: int
    elements: int
    """A thread."""
    blocks: int
    max_blocks: int
    """What a CUDA grid has room for."""
    load: str
    rounds: tuple[Round, ...]


def schedule(rung: Rung, block_size: int, n: int) -> Schedule:
    """Return the schedule of one pass over ``n`` elements, 1 to 2**62, in blocks of a power of two from 64 to 1024."""
    columns: dict[str, Any] = json.loads(_lib.reduce_ops_schedule(rung.number, block_size, n))
    return Schedule(**columns | {"rounds": tuple(Round(**round) for round in columns["rounds"])})
