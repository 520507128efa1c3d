"""``reduce::sum`` on the CPU in children that a process forks after it has summed with several threads itself.

GNU OpenMP's threads do not survive a fork: a child that asks for more than one hangs, in ``torch.sum`` too. DataLoader
sets its workers to one thread, and so does the child here.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import reduce_ops
from oracle import canonical_sum
from support import assert_same_bits, random_values

SUMS: tuple[tuple[tuple[int, ...], int | tuple[int, ...] | None], ...] = (
    ((1_000_003,), None),
    ((3, 300_001), 1),
    ((300_001, 3), 0),
    ((1000, 257), 0),
    ((1000, 257), 1),
    ((8, 5, 100, 100), (0, 2, 3)),
    ((40,), 0),
)
"""Shapes and dimensions."""


def ours(i: int) -> torch.Tensor:
    shape, dim = SUMS[i]
    return reduce_ops.sum(random_values(torch.Size(shape).numel(), torch.float32, seed=i).view(shape), dim)


def expected(i: int) -> torch.Tensor:
    shape, dim = SUMS[i]
    return canonical_sum(random_values(torch.Size(shape).numel(), torch.float32, seed=i).view(shape), dim)


class Sums(Dataset):
    def __len__(self) -> int:
        return len(SUMS)

    def __getitem__(self, i: int) -> tuple[int, torch.Tensor]:
        return i, ours(i)


@pytest.fixture
def several_threads() -> Iterator[None]:
    """The parent's threads are there, and wait for work, when it forks."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    for i in range(len(SUMS)):
        assert_same_bits(ours(i), expected(i), SUMS[i])
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("several_threads")
def test_data_loader_workers() -> None:
    loader = DataLoader(Sums(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60)
    for _ in range(2):
        seen = []
        for i, total in loader:
            assert_same_bits(total, expected(i), SUMS[i])
            assert_same_bits(ours(i), total, SUMS[i])  # in between the parent goes on with its threads
            seen.append(i)
        assert seen == list(range(len(SUMS)))


def _child(pipe: Connection) -> None:
    torch.set_num_threads(1)
    pipe.send([ours(i).numpy() for i in range(len(SUMS))])


@pytest.mark.usefixtures("several_threads")
def test_forked_child() -> None:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sender,), daemon=True)
    child.start()
    try:
        assert receiver.poll(60), "the child hangs"
        for i, total in enumerate(receiver.recv()):
            assert_same_bits(torch.from_numpy(total), expected(i), SUMS[i])
    finally:
        child.kill()
        child.join()
    for i in range(len(SUMS)):
        assert_same_bits(ours(i), expected(i), SUMS[i])
