// v1, no divergence: v0's tree, add for add, done by other threads.
//
// Changed: in round d the adds are dealt to the first threads, 0, 1, 2, ...: thread t does s[i] += s[i + d] with
// i = 2 * d * t. The bits of the result are v0's.
//
//            v0: thread that adds        v1: thread that adds
//   d = 1    0 2 4 6 8 10 12 14 ...      0 1 2 3 4 5 6 7 ...
//   d = 2    0   4   8    12    ...      0 1 2 3 ...
//   d = 4    0       8          ...      0 1 ...
//
// Faster because `%` is gone, which is 17 of the 28 instructions of v0's round in SASS (ptxas 13.0, sm_90); this round
// has 14. That the workers fill whole warps, 4, 2, then 1 of them, saves nothing: the compiler predicates the add, so
// that a warp without work issues it all the same, in v0 as here, and ncu counts no divergent branch in either. (And
// below 32 workers, from d = 8 on, the one warp left has idle lanes after all.) On an H200, 32 * 2^20 float32, first
// pass: v0 322.6 us, v0 with `tid & (2 * d - 1)` 161.2, v1 198.4, v1 with v0's `%` computed as well 250.5, v2 153.7.
// So against a v0 without `%` this rung loses.
// What limits it: bank conflicts. Neighbouring threads are 2d words apart, so that with 4-byte words 2, 4, 8, 8, 8, 4,
// 2, 1 lanes of a warp meet in one of the 32 banks for d = 1, 2, 4, ..., 128, and are served one by one.
// (Ladders that count from 1 call this rung V2.)

#pragma once

#include "ladder/rung.cuh"

namespace reduce_ops::ladder {

template <typename In, typename Acc, typename Out>
__global__ void sum_v1(const In* __restrict__ a, int64_t n, Out* __restrict__ sums) {
  __shared__ Acc s[kBlockSize];
  const unsigned tid = threadIdx.x;

  s[tid] = load<Acc>(a, n, int64_t{blockIdx.x} * blockDim.x + tid);
  __syncthreads();

  for (unsigned d = 1; d < blockDim.x; d *= 2) {
    const unsigned i = 2 * d * tid;
    if (i < blockDim.x) s[i] += s[i + d];
    __syncthreads();
  }

  if (tid == 0) sums[blockIdx.x] = convert<Out>(s[0]);
}

}  // namespace reduce_ops::ladder
