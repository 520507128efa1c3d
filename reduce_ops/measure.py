"""How times are taken: CUDA-graph replays over cold buffers on a GPU, ``torch.utils.benchmark`` everywhere else."""

import datetime
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]

HOST_N = 1024
"""Elements of the input on which the host's cost of a call is measured: too few for the GPU to be what takes time."""

RUN_SECONDS = 0.2
"""How long the calls of a function are timed for on the clock, at least."""

TURNS = 4
"""Turns in which functions share that time out, so that a clock or a neighbour that drifts meets all of them."""

HOST_TURNS = 100
"""The same of what a call costs the host, which slow spells make twice as much: in twelve turns some functions, but not
those timed beside them, took 13 to 20 us instead of 8 in most processes; in a hundred all agree within 1 us (H200)."""


@dataclass(frozen=True)
class Time:
    """Seconds of one call."""

    median: float
    iqr: float
    """Interquartile range of the repeats: a difference below it is noise."""


def _summarise(seconds: list[float]) -> Time:
    quartiles = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [seconds[0]] * 3
    return Time(statistics.median(seconds), quartiles[2] - quartiles[0])


def call_times(
    functions: Mapping[str, Function], x: Tensor, *, tick: Callable[[], None] = lambda: None
) -> dict[str, Time]:
    """Time one call of each function on ``x``; ``tick`` is called after each function."""
    device_times = _graph_times if x.is_cuda else _timer_times
    return device_times(functions, x, tick)


def host_times(
    functions: Mapping[str, Function], like: Tensor, *, tick: Callable[[], None] = lambda: None
) -> dict[str, Time]:
    """Time what a call costs the host: a small input of the dtype and device of ``like``, no wait for the device."""
    return _timer_times(functions, like[:HOST_N].clone(), tick, HOST_TURNS)


def copy_of_view(x: Tensor) -> Tensor:
    """Return the same view of a copy of the storage of ``x``: clone() would close gaps and align its first element."""
    storage = x.untyped_storage().clone()
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(storage, x.storage_offset(), x.shape, x.stride())


def _timer_times(
    functions: Mapping[str, Function], x: Tensor, tick: Callable[[], None], turns: int = TURNS
) -> dict[str, Time]:
    from torch.utils.benchmark import (
        Timer,  # with nvcc but no GPU it warns when imported: only who times is to see that
    )

    timers = {
        name: Timer("function(x)", globals={"function": function, "x": x}, num_threads=torch.get_num_threads())
        for name, function in functions.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(turns):
        for name, timer in timers.items():
            seconds[name] += timer.blocked_autorange(min_run_time=RUN_SECONDS / turns).times
            if turn == turns - 1:
                tick()
    return {name: _summarise(of_function) for name, of_function in seconds.items()}


def _graph_times(
    functions: Mapping[str, Function], x: Tensor, tick: Callable[[], None], replays: int = 30
) -> dict[str, Time]:
    times = {}
    for name, seconds in device_seconds(functions, x, replays).items():
        times[name] = _summarise(seconds)
        tick()
    return times


def gpu_of(device: torch.device) -> dict[str, int]:
    """Return what ``torch.ops.reduce._plan`` has to be told of a GPU to plan for it as a sum on it does."""
    properties = torch.cuda.get_device_properties(device)
    return {"multiprocessors": properties.multi_processor_count, "l2_bytes": properties.L2_cache_size}


def device_seconds(functions: Mapping[str, Function], x: Tensor, replays: int) -> dict[str, list[float]]:
    """Return the device time of one call inside a CUDA graph of many, of each replay but for two to warm up.

    No call finds its input in the L2 cache: the calls of a graph rotate over copies of ``x`` that together exceed the
    cache several times, and where that would take too many copies each call has one of its own and the cache is filled
    with something else before every replay. That is read, not written, or the calls would pay for writing it back.
    There are as many calls as read 4 GiB, up to 64, so that starting a graph (10 us) does not show in the shorter ones.
    Functions take turns from replay to replay, so that a drifting clock meets all.
    """
    l2 = torch.cuda.get_device_properties(x.device).L2_cache_size
    size = max(1, x.untyped_storage().nbytes())
    copies = min(max(2, math.ceil(4 * l2 / size)), 64)
    calls = max(copies, min(2**32 // size, 64), 8)
    buffers = [x, *(copy_of_view(x) for _ in range(copies - 1))]
    evict = torch.zeros(l2, dtype=torch.float32, device=x.device)

    graphs = {}
    for name, function in functions.items():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            function(x)  # loads the kernels: not allowed during capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                function(buffers[i % copies])
        graphs[name] = graph

    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in functions}
    for _ in range(replays):
        for name, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            evict.max()
            start.record()
            graph.replay()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {name: [start.elapsed_time(end) / 1e3 / calls for start, end in pairs[2:]] for name, pairs in events.items()}


def _run(*command: str) -> str | None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()


def environment(device: torch.device) -> dict[str, Any]:
    """Return what a figure must stand with: processor, driver, versions, commit, date."""
    commit = os.environ.get("REDUCE_OPS_COMMIT") or _run("git", "describe", "--always", "--dirty", "--abbrev=12")
    facts: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": commit,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        driver = _run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", f"--id={device.index or 0}")
        facts |= {
            "device": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "driver": driver,
            "cuda": torch.version.cuda,
        }
    else:
        facts |= {"device": f"{_cpu_model()}, {torch.get_num_threads()} threads"}
    return facts


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
