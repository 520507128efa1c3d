from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# Inductor believes the processor what vectors it has, instead of compiling a program for each: 11 seconds a process.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# In CI the same examples every time; elsewhere new ones, and the line that repeats a failure is printed.
settings.register_profile(
    "reduce_ops",
    deadline=None,  # the first call of an operator is slow
    max_examples=100,
    derandomize="CI" in os.environ,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # `device` does not change between examples
)
settings.load_profile("reduce_ops")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def short_timings(monkeypatch: pytest.MonkeyPatch) -> None:
    from reduce_ops import measure
    from support import SHORT_RUN_SECONDS

    monkeypatch.setattr(measure, "RUN_SECONDS", SHORT_RUN_SECONDS)


@pytest.hookimpl(optionalhook=True)  # pytest without xdist does not know it
def pytest_xdist_auto_num_workers() -> int:
    """Two files at a time; with a GPU one, whose memory may have no room for several large tests."""
    return 0 if torch.cuda.is_available() else min(2, os.cpu_count() or 1)


@pytest.hookimpl(trylast=True)  # behind -k and -m, or the one that stands for others might not be selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests come first: else one worker ends with them while the other one has nothing to do.

    Without a GPU, one of each test that needs it is skipped and stands for the others, which are thousands.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if torch.cuda.is_available():
        return
    on_gpu: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("gpu"):
            on_gpu.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for first, *others in on_gpu.values():
        more = f", nor for {len(others)} more of this test" if others else ""
        first.add_marker(pytest.mark.skip(reason=f"no GPU{more}"))
        left_out.update(others)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def folder_of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one that all workers of pytest-xdist share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(autouse=True)
def turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Among the workers of pytest-xdist a test marked `alone` waits for those that run, and holds up all others."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    shared = folder_of_run(tmp_path_factory)
    how = fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH
    with (shared / "room").open("w") as room:
        with (shared / "gate").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)  # closed while one waits to be alone, or others might never leave it room
            fcntl.flock(room, how)
        yield
        fcntl.flock(room, fcntl.LOCK_UN)  # by closing it would be held on for as long as a forked process lives
