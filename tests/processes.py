"""What the tests of torch.distributed share: processes that run checks, with gloo on CPUs, with NCCL on GPUs."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

Check = Callable[[str], None]
"""What each process runs; it is told the type of the device."""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return int(s.getsockname()[1])


def forkserver() -> multiprocessing.context.BaseContext:
    """Starts processes from a server that has imported PyTorch, which takes seconds; what was forked may not use CUDA.
    Their environment is that of the server."""
    multiprocessing.set_forkserver_preload(["torch.distributed", "reduce_ops.distributed"])
    return multiprocessing.get_context("forkserver")


def in_process(rank: int, checks: list[Check], device: str, port: int, world: int, seconds: int) -> None:
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, rank=rank, world_size=world, timeout=timedelta(seconds=seconds))
    for check in checks:
        check(device)
    dist.barrier()  # so that neither goes while the other still talks to it
    dist.destroy_process_group()
    # Not by way of Python's own end: one of gloo's threads may yet release a tensor, and then aborts the process.
    os._exit(0)


def spawn(checks: list[Check], device: torch.device, world: int = 2, seconds: int = 600) -> None:
    """Run the checks in as many processes; ``seconds``: how long they wait for each other."""
    if device.type == "cuda" and torch.cuda.device_count() < world:
        pytest.skip(f"needs {world} GPUs")
    arguments = (checks, device.type, free_port(), world, seconds)
    method = "spawn" if device.type == "cuda" else forkserver().get_start_method()
    torch.multiprocessing.start_processes(
        in_process, arguments, nprocs=world, start_method=method
    )  # raises their errors
