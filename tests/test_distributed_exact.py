"""Exact sums over processes: the bits of one process's sum, however the elements lie; mistakes are errors in all."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.autograd import forward_ad
from torch.distributed.distributed_c10d import _get_default_store

from processes import spawn
from support import assert_same_bits, random_values

OPS = torch.ops.reduce

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch is without torch.distributed")

PATIENCE = {"cpu": 2, "cuda": 20}
"""Seconds that processes wait for one that does not come: NCCL takes some to set up."""

INPUTS = (
    *(torch.float32, torch.float16, torch.float8_e5m2, torch.float64, torch.complex64),
    *(torch.int64, torch.uint64, torch.int8, torch.bool),
)


# What runs in each process


def shards_of(x: torch.Tensor, seed: int) -> torch.Tensor:
    """What this process has of x along its first dimension: the cuts are anywhere, so that some have nothing."""
    generator = torch.Generator().manual_seed(seed)
    cuts = torch.randint(0, len(x) + 1, (dist.get_world_size() - 1,), generator=generator).sort().values.tolist()
    return x[([0, *cuts])[dist.get_rank()] : ([*cuts, len(x)])[dist.get_rank()]]


def results_for(dtype: torch.dtype) -> list[torch.dtype | None]:
    if dtype.is_complex:
        return [None, torch.complex128]
    return [None, torch.float64, torch.bfloat16, torch.complex64, torch.int32, torch.bool]


def shards_of_any_size(device: str, inputs: Sequence[torch.dtype] = INPUTS) -> None:
    from reduce_ops.distributed import sum_exact

    for seed, dtype in enumerate(inputs):
        x = random_values(37 * 12, dtype, seed).view(37, 12).to(device)
        mine = shards_of(x, seed)
        for result in results_for(dtype):
            for dim in (None, 0, (1, 0), [-2]):
                expected = OPS.sum_exact(x, dim, dtype=result)
                assert_same_bits(sum_exact(mine, dim, dtype=result), expected, (dtype, result, dim))
        assert_same_bits(sum_exact(mine, 0, True), OPS.sum_exact(x, 0, True), dtype)
        # A dimension that is kept may lie in memory in any way, and have no elements at all.
        assert_same_bits(sum_exact(mine.t(), 1), OPS.sum_exact(x, 0), dtype)
        assert_same_bits(sum_exact(mine[:, :0], 0), OPS.sum_exact(x[:, :0], 0), dtype)


def shards_of_some(device: str) -> None:
    shards_of_any_size(device, (torch.bfloat16, torch.complex128, torch.int64))


def special_values(device: str) -> None:
    from reduce_ops.distributed import sum_exact

    rank, world = dist.get_rank(), dist.get_world_size()
    inf, nan = float("inf"), float("nan")
    for values in ([nan], [inf], [-inf], [inf, -inf], [inf, nan], [-0.0], [0.0], [-0.0, 0.0], [1e38, 3e38, -3e38]):
        own = torch.tensor(values[rank] if rank < len(values) else -0.0, device=device)
        whole = [values[r] if r < len(values) else -0.0 for r in range(max(world, len(values)))][:world]
        assert_same_bits(sum_exact(own), OPS.sum_exact(torch.tensor(whole, device=device)), values)
    nothing = torch.empty(0, device=device)
    assert_same_bits(sum_exact(nothing), torch.tensor(0.0, device=device))
    assert_same_bits(sum_exact(nothing if rank else -torch.zeros(1, device=device)), torch.tensor(-0.0, device=device))
    # All but 1 cancels, across processes, and sums in a float64 would lose it.
    ends = torch.tensor([1e30, 1.0] if rank == 0 else [-1e30] if rank == world - 1 else [], device=device)
    assert sum_exact(ends).item() == 1.0


def groups_of_some(device: str) -> None:
    from reduce_ops.distributed import sum_exact

    rank = dist.get_rank()
    pair, alone = dist.new_group([0, 2]), dist.new_group([1])
    own = torch.tensor([10.0**rank], device=device)
    for _ in range(3):
        if rank != 1:
            assert sum_exact(own, group=pair).item() == 101.0
        else:
            assert sum_exact(own, group=alone).item() == 10.0
    if rank == 1:
        with pytest.raises(ValueError, match="this process is in no such group"):
            sum_exact(own, group=pair)
    assert sum_exact(own).item() == 111.0


def mistakes(device: str) -> None:
    """Each is an error in every process, and the next call goes on as if nothing had been."""
    from reduce_ops.distributed import sum_exact

    odd = dist.get_rank() == 1
    x = torch.ones(3, 4, device=device)
    for wrong in (
        lambda: sum_exact(x.half() if odd else x),
        lambda: sum_exact(x, 1 if odd else 0),
        lambda: sum_exact(x, (0, 1) if odd else 0),
        lambda: sum_exact(x.view(12) if odd else x),
        lambda: sum_exact(x[:, :3] if odd else x, 0),
        lambda: sum_exact(x, 0, keepdim=odd),
        lambda: sum_exact(x, dtype=torch.float64 if odd else None),
    ):
        with pytest.raises(ValueError, match="have to pass the same, but rank . passed .* and rank . passed"):
            wrong()
        assert sum_exact(x).item() == 12 * dist.get_world_size()

    def dual() -> torch.Tensor:
        with forward_ad.dual_level():
            return sum_exact(forward_ad.make_dual(x, x) if odd else x)

    nested = torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged)
    failing: tuple[tuple[Callable[[], object], type[Exception], str], ...] = (
        (lambda: sum_exact(x, 2 if odd else 0), IndexError, "[Dd]imension"),
        (lambda: sum_exact(x.cfloat() if odd else x, dtype=torch.float32), RuntimeError, "complex"),
        (lambda: sum_exact(x.clone().requires_grad_() if odd else x), RuntimeError, "has no gradient"),
        (dual, RuntimeError, "has no gradient"),
        (
            lambda: sum_exact(x.to_sparse() if odd else x),
            NotImplementedError,
            "self is not strided.*accepted is a dense",
        ),
        (lambda: sum_exact(nested if odd else x), NotImplementedError, "self is nested.*accepted is a dense"),
        (lambda: sum_exact([1.0] if odd else x), TypeError, "sum_exact: x is of type list"),  # type: ignore[arg-type]
    )
    for wrong, error, words in failing:
        with pytest.raises(error if odd else ValueError, match=words if odd else "rank 1 passed what failed with"):
            wrong()
        assert sum_exact(x).item() == 12 * dist.get_world_size()
    with pytest.raises(IndexError):  # the same mistake in all
        sum_exact(x, 2)


def one_does_not_come(device: str) -> None:
    from reduce_ops.distributed import sum_exact

    x = torch.ones(3, device=device)
    assert sum_exact(x).item() == 3 * dist.get_world_size()
    if dist.get_rank() == 1:
        time.sleep(1.5 * PATIENCE[device])
    else:
        with pytest.raises(dist.DistError):
            sum_exact(x)


def made_anew(store: dist.Store) -> dist.ProcessGroup:
    """Return a group with its notes where the one before had them.

    That stands for destroy_process_group() and init_process_group() with the same store, which gloo and NCCL do not
    survive reliably: they find there how to reach the group before.
    """
    from reduce_ops import process_group

    process_group._get_process_group_store = lambda group: store
    return dist.new_group()


def one_comes_too_late(device: str) -> None:
    """The call that failed leaves nothing behind, in this group and in one made anew."""
    on_default = _get_default_store().clone()
    on_file = dist.FileStore(f"{tempfile.gettempdir()}/{os.environ['MASTER_PORT']}", 2)
    for store, calls in ((on_default, 0), (on_default, 2), (on_file, 0)):
        store.set_timeout(timedelta(seconds=1))
        late(device, made_anew(store), calls)


def late(device: str, group: dist.ProcessGroup, calls: int) -> None:
    from reduce_ops.distributed import sum_exact

    ones = torch.ones(3, device=device)
    for _ in range(calls):
        assert sum_exact(ones, group=group) == 6
    dist.barrier()
    if dist.get_rank() == 0:
        start = time.perf_counter()
        with pytest.raises(RuntimeError):
            sum_exact(ones.double(), group=group)
        assert 0.9 < time.perf_counter() - start < 10
    dist.barrier()
    for _ in range(3):
        assert sum_exact(ones, group=group) == 6
    with pytest.raises(ValueError, match="have to pass the same"):
        sum_exact(ones.double() if dist.get_rank() == 1 else ones, group=group)


def groups_made_anew(device: str) -> None:
    """What the group before wrote in the store is none of their business."""
    from reduce_ops.distributed import sum_exact

    rank, world, store = dist.get_rank(), dist.get_world_size(), _get_default_store().clone()
    ones = torch.ones(3, device=device)
    for calls in (3, 1, 0):
        group = made_anew(store)
        for _ in range(calls):
            assert sum_exact(ones, group=group) == 3 * world
        with pytest.raises(ValueError, match="have to pass the same"):
            sum_exact(ones.double() if rank == 1 else ones, group=group)
        assert sum_exact(ones, group=group) == 3 * world


def sums_under_autocast(device: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from reduce_ops.distributed import sum_exact

    mesh = init_device_mesh(device, (dist.get_world_size(),))
    x = torch.full((8, 4), 3e4, dtype=torch.half, device=device)  # whose sum is infinite in float16
    with torch.autocast(device, torch.bfloat16):
        for dtype in (None, torch.bfloat16):
            expected = OPS.sum_exact(x, dtype=dtype)
            assert dtype or expected.dtype == (torch.float32 if device == "cuda" else torch.half)
            assert_same_bits(sum_exact(shards_of(x, 1), dtype=dtype), expected)
            assert_same_bits(OPS.sum_exact(distribute_tensor(x, mesh, [Shard(0)]), dtype=dtype).full_tensor(), expected)


def sums_of_dtensors(
    device: str,
    sizes: Sequence[int] | None = None,
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.complex64, torch.int64),
) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    import reduce_ops.distributed  # noqa: F401

    mesh = init_device_mesh(device, tuple(sizes or (dist.get_world_size(),)))
    for dtype in dtypes:
        x = random_values(7 * 5 * 6, dtype).view(7, 5, 6).to(device)  # not divisible: the last shards are smaller
        for placements in itertools.product((Replicate(), Shard(0), Shard(1), Shard(2)), repeat=mesh.ndim):
            d = distribute_tensor(x, mesh, placements)
            for dim, keepdim in itertools.product((None, 0, (0, 2), -1), (False, True)):
                reduced = {k % 3 for k in ((dim,) if isinstance(dim, int) else dim or range(3))}
                with CommDebugMode() as communication:
                    actual = OPS.sum_exact(d, dim, keepdim)
                across = [p for p in placements if p.is_shard() and p.dim in reduced]
                if len(set(placements)) == len(placements) == 1:
                    assert communication.get_total_counts() == len(across), (placements, dim)
                what = (dtype, placements, dim, keepdim)
                assert_same_bits(actual.full_tensor(), OPS.sum_exact(x, dim, keepdim), what)
                for before, after in zip(placements, actual.placements, strict=True):
                    kept = before.is_shard() and before.dim not in reduced
                    assert after.is_shard() == kept and not after.is_partial(), what
            assert_same_bits(OPS.sum_exact.default(d).full_tensor(), OPS.sum_exact(x), placements)
            expected = OPS.sum_exact(x, 0, dtype=torch.complex128)
            assert_same_bits(OPS.sum_exact(d, 0, dtype=torch.complex128).full_tensor(), expected, placements)
        few = distribute_tensor(x[:1], mesh, [Shard(0)] * mesh.ndim)  # most have nothing
        assert_same_bits(OPS.sum_exact(few, 0).full_tensor(), OPS.sum_exact(x[:1], 0), dtype)
    state = OPS.exact_state(distribute_tensor(x, mesh, [Shard(0)] * mesh.ndim), 0)
    assert all(placement == Partial() for placement in state.placements)
    twice = OPS.exact_round(state + state, dtype=x.dtype).full_tensor()
    assert_same_bits(twice, OPS.sum_exact(torch.cat([x, x]), 0))
    with pytest.raises(RuntimeError, match="complex"):
        OPS.sum_exact(distribute_tensor(x.cfloat(), mesh), dtype=torch.float32)


def sums_of_dtensors_on_a_grid(device: str) -> None:
    sums_of_dtensors(device, (2, 2), (torch.float64,))


def gradients_of_dtensors(device: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    from reduce_ops.distributed import sum_exact

    mesh = init_device_mesh(device, (dist.get_world_size(),))
    x = random_values(28, torch.float32).view(7, 4).to(device)
    for placement, dim in itertools.product((Replicate(), Shard(0), Shard(1)), (None, 0, 1)):
        d = distribute_tensor(x, mesh, [placement]).requires_grad_()
        reference = x.clone().requires_grad_()
        for leaf in (d, reference):
            OPS.sum_exact(leaf.square(), dim).sin().sum().backward()
        assert d.grad is not None and reference.grad is not None
        torch.testing.assert_close(d.grad.full_tensor(), reference.grad)
    with pytest.raises(TypeError, match="a DTensor knows its group"):
        sum_exact(d.detach())


def norms_of_dtensors(device: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.int32):
        x = random_values(28, dtype).view(7, 4).to(device)
        real = torch.float32 if dtype == torch.int32 else None
        for placement, dim, ord in itertools.product((Replicate(), Shard(0), Shard(1)), (None, 0, 1), (1, 2)):
            if ord == 1 and dtype.is_complex:
                continue
            d = distribute_tensor(x, mesh, [placement])
            norm = OPS.vector_norm_exact(d, ord, dim, dtype=real)
            assert_same_bits(norm.full_tensor(), OPS.vector_norm_exact(x, ord, dim, dtype=real), (placement, dim, ord))
            if real is None:
                for of in ("squares", "elements", "magnitudes")[: 2 if dtype.is_complex else 3]:
                    state, expected = OPS.exact_state(d, dim, of=of).full_tensor(), OPS.exact_state(x, dim, of=of)
                    assert state.shape == expected.shape
                    rounded, wanted = (OPS.exact_round(of, dtype=torch.float64) for of in (state, expected))
                    assert_same_bits(rounded, wanted, (placement, dim, dtype))
    x = random_values(28, torch.float32).view(7, 4).to(device)
    d = distribute_tensor(x, mesh, [Shard(0)])
    state = OPS.exact_state(d, of="squares")
    assert state.placements == (Partial(),) and state.shape == (25,)
    total = OPS.exact_round((state + state).redistribute(placements=[Replicate()]), dtype=torch.float32, root=True)
    assert_same_bits(total.full_tensor(), OPS.vector_norm_exact(torch.cat([x, x])))
    leaf, reference = d.requires_grad_(), x.requires_grad_()
    for t in (leaf, reference):
        OPS.vector_norm_exact(t, 2, 0).sin().sum().backward()
    assert leaf.grad is not None and reference.grad is not None
    torch.testing.assert_close(leaf.grad.full_tensor(), reference.grad)


def test_two(device: torch.device) -> None:
    checks = [
        shards_of_any_size,
        special_values,
        mistakes,
        sums_of_dtensors,
        sums_under_autocast,
        gradients_of_dtensors,
        norms_of_dtensors,
    ]
    spawn(checks, device, 2)


def test_three(device: torch.device) -> None:
    spawn([shards_of_some, special_values, groups_of_some, mistakes, sums_of_dtensors, norms_of_dtensors], device, 3)


def test_four(device: torch.device) -> None:
    spawn([shards_of_some, special_values, sums_of_dtensors_on_a_grid], device, 4)


def test_five(device: torch.device) -> None:
    spawn([shards_of_some, special_values], device, 5)


def test_a_process_that_does_not_come_is_an_error_in_the_others(device: torch.device) -> None:
    spawn([one_does_not_come], device, 3, seconds=PATIENCE[device.type])


def test_groups_made_anew(device: torch.device) -> None:
    spawn([groups_made_anew, one_comes_too_late], device, 2)


def test_the_benchmark_of_many_processes(tmp_path: Path) -> None:
    """It compares its sum with one of Python integers itself."""
    if torch.cuda.device_count() == 1:
        pytest.skip("needs two GPUs, or none")
    script = Path(__file__).parent.parent / "benchmarks" / "many_processes.py"
    file = tmp_path / "figures.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, script, "--json", file, "--n", "1000"], check=True, env=environment)
    report = json.loads(file.read_text())
    assert (report["benchmark"], report["n"]) == ("processes", 1000)
    assert report["rows"][0]["processes"] == 2
    for row in report["rows"]:
        assert all(row[f"{way}_seconds"] > 0 for way in ("share", "total", "share_alone", "total_alone"))
