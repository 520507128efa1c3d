"""What each rung computes, thread by thread, in NumPy.

Written from the text of the ladder alone: nothing here comes from csrc/, so an error there cannot hide here.
A rung's function gets `a` of shape (m, T, B): a[j, tid, k] is the j-th element that thread `tid` of block `k`
loads, and s[tid] is what the block keeps in shared memory, for all blocks at once. One statement on `s` is
one step of every thread: all of them read before any of them writes, as between two barriers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

WARP = 32
MAX_BLOCKS = 1024  # of v6, v7 and v8
CHUNK = 2**21  # elements in work at once, in whole blocks: memory stays bounded for any n


def accumulate_dtype(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128 if dtype == torch.complex128 else torch.complex64
    if dtype.is_floating_point:
        return torch.float64 if dtype == torch.float64 else torch.float32
    return torch.int64


def result_dtype(dtype: torch.dtype) -> torch.dtype:
    """Without dtype=; float8 (and only float8) is a one-byte float."""
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize > 1):
        return dtype
    return accumulate_dtype(dtype)


def identity(dtype: np.dtype) -> np.generic:
    """What a missing element counts as."""
    value = {"i": 0, "f": -0.0, "c": complex(-0.0, -0.0)}[dtype.kind]
    return dtype.type(value)


# ---- pieces that rungs share ----


def halve_in_shared(s: np.ndarray, distances: list[int]) -> None:
    """Rounds of v2: tid < d does s[tid] += s[tid + d]."""
    for d in distances:
        tid = np.arange(d)
        s[tid] += s[tid + d]


def last_warp_in_lockstep(s: np.ndarray) -> None:
    """Every lane of warp 0 does every step; what lanes from d on compute is garbage lane 0 never sees."""
    lane = np.arange(WARP)
    for d in (32, 16, 8, 4, 2, 1):
        read = s[lane] + s[lane + d]
        s[lane] = read


def fold_with_shuffles(v: np.ndarray, first_offset: int) -> np.ndarray:
    """v[lane] += __shfl_down_sync(v, d); a lane whose source is outside of the warp gets its own value."""
    lane = np.arange(WARP)
    d = first_offset
    while d >= 1:
        v = v + v[np.where(lane + d < WARP, lane + d, lane)]
        d //= 2
    return v[0]


def add_own_elements(a: np.ndarray) -> np.ndarray:
    """Each thread's elements left to right, from its first element on."""
    own = a[0].copy()
    for j in range(1, len(a)):
        own += a[j]
    return own


# ---- the rungs: (m, T, B) -> (B,) ----


def v0(a: np.ndarray) -> np.ndarray:
    s = a[0].copy()
    tid = np.arange(256)
    for d in (1, 2, 4, 8, 16, 32, 64, 128):
        worker = tid[tid % (2 * d) == 0]
        s[worker] += s[worker + d]
    return s[0]


def v1(a: np.ndarray) -> np.ndarray:
    s = a[0].copy()
    tid = np.arange(256)
    for d in (1, 2, 4, 8, 16, 32, 64, 128):
        i = 2 * d * tid
        i = i[i < 256]
        s[i] += s[i + d]
    return s[0]


def v2(a: np.ndarray) -> np.ndarray:
    s = a[0].copy()
    halve_in_shared(s, [128, 64, 32, 16, 8, 4, 2, 1])
    return s[0]


def v3(a: np.ndarray) -> np.ndarray:
    s = a[0] + a[1]
    halve_in_shared(s, [128, 64, 32, 16, 8, 4, 2, 1])
    return s[0]


def v4(a: np.ndarray) -> np.ndarray:
    s = a[0] + a[1]
    halve_in_shared(s, [128, 64])
    last_warp_in_lockstep(s)
    return s[0]


def v5(a: np.ndarray) -> np.ndarray:
    block_size = a.shape[1]
    s = a[0] + a[1]
    halve_in_shared(s, [d for d in (256, 128, 64) if d < block_size])
    last_warp_in_lockstep(s)
    return s[0]


def v6(a: np.ndarray) -> np.ndarray:
    s = add_own_elements(a)
    halve_in_shared(s, [128, 64])
    last_warp_in_lockstep(s)
    return s[0]


def v7(a: np.ndarray) -> np.ndarray:
    _, block_size, blocks = a.shape
    own = add_own_elements(a)
    warps = block_size // WARP
    w_sum = np.full((WARP, blocks), identity(a.dtype))  # lanes beyond the last warp hold the identity
    for w in range(warps):
        w_sum[w] = fold_with_shuffles(own[w * WARP : (w + 1) * WARP], 16)
    return fold_with_shuffles(w_sum, block_size // 64)


def v8(a: np.ndarray) -> np.ndarray:
    s = add_own_elements(a)
    halve_in_shared(s, [128, 64])
    lane = np.arange(WARP)
    return fold_with_shuffles(s[lane] + s[lane + 32], 16)


RUNGS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (v0, v1, v2, v3, v4, v5, v6, v7, v8)


def elements_per_thread(version: int, n: int, threads: int) -> int:
    if version <= 2:
        return 1
    if version <= 5:
        return 2
    return max(1, -(-n // (MAX_BLOCKS * threads)))


def block_sums(x: np.ndarray, version: int, block_size: int | None = None) -> np.ndarray:
    """The block sums of the one-dimensional `x`, which already has its accumulate type."""
    threads = block_size or 256
    m = elements_per_thread(version, len(x), threads)
    covers = m * threads
    blocks_at_once = max(1, CHUNK // covers)
    sums = []
    with np.errstate(all="ignore"):
        for start in range(0, len(x), blocks_at_once * covers):
            chunk = x[start : start + blocks_at_once * covers]
            missing = -len(chunk) % covers
            chunk = np.concatenate([chunk, np.full(missing, identity(x.dtype), x.dtype)])
            a = np.ascontiguousarray(chunk.reshape(-1, m, threads).transpose(1, 2, 0))
            sums.append(RUNGS[version](a))
    return np.concatenate(sums) if sums else x[:0].copy()


def ladder_sum(x: np.ndarray, version: int, block_size: int | None = None) -> np.generic:
    """The same rung again on its own block sums until one value is left, in the accumulate type."""
    while len(x) > 1:
        x = block_sums(x, version, block_size)
    return x[0] if len(x) else x.dtype.type(0)


# ---- the canonical order ----


def tree_sum(x: np.ndarray) -> np.ndarray:
    """The specification, along the last axis: (..., n) -> (...)."""
    if x.shape[-1] == 0:
        return np.zeros(x.shape[:-1], x.dtype)
    with np.errstate(all="ignore"):
        while x.shape[-1] > 1:
            even = x.shape[-1] // 2 * 2
            x = np.concatenate([x[..., 0:even:2] + x[..., 1:even:2], x[..., even:]], axis=-1)
    return x[..., 0]


# ---- from and to torch ----


def accumulated_values(x: torch.Tensor, dtype: torch.dtype | None) -> np.ndarray:
    """The elements in row-major order, converted to `dtype` and then to the type they are added in."""
    x = x.detach().cpu().resolve_conj().resolve_neg()
    x = x.to(dtype or x.dtype)
    return x.to(accumulate_dtype(x.dtype)).reshape(-1).numpy()


def expected_block_sums(
    x: torch.Tensor, version: int, dtype: torch.dtype | None = None, block_size: int | None = None
) -> torch.Tensor:
    return torch.from_numpy(block_sums(accumulated_values(x, dtype), version, block_size))


def expected_sum(
    x: torch.Tensor, version: int, dtype: torch.dtype | None = None, block_size: int | None = None
) -> torch.Tensor:
    total = ladder_sum(accumulated_values(x, dtype), version, block_size)
    return torch.from_numpy(np.asarray(total)).to(dtype or result_dtype(x.dtype))


def canonical_sum(
    x: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """What reduce.sum computes: the elements of one output are taken in row-major order of the reduced dimensions."""
    rank = x.dim()
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    reduced = sorted(d % rank for d in dims) if rank else []
    kept = [d for d in range(rank) if d not in reduced]
    values = accumulated_values(x, dtype).reshape(x.shape).transpose(kept + reduced)
    kept_sizes = [x.shape[d] for d in kept]
    n = math.prod(x.shape[d] for d in reduced)
    totals = torch.from_numpy(np.array(tree_sum(values.reshape(*kept_sizes, n))))
    for d in reduced if keepdim else []:
        totals = totals.unsqueeze(d)
    return totals.to(dtype or result_dtype(x.dtype))
