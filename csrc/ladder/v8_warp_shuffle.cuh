// v8, warp shuffle: v6 with only its last warp out of shared memory.
//
// Changed from v6: elements and the rounds d = 128, 64 stay in shared memory; then each lane of warp 0 takes
// s[lane] + s[lane + 32] into a register and the warp folds with shuffles at distance 16, 8, 4, 2, 1. In what it does
// it stands between v6 and v7: the classic first use of shuffles, shown after v7 to tell their two effects apart.
//
//   rung   elements summed in   rounds in shared memory       rounds in registers
//   v6     shared memory        128, 64, 32, 16, 8, 4, 2, 1   none
//   v8     shared memory        128, 64 (and 32, to load)     16, 8, 4, 2, 1
//   v7     registers            none                          16, 8, 4, 2, 1 and, over the warps, 4, 2, 1
//
// Faster than v6 because five shuffles replace five times a read, a write and two waits of the warp.
// What limits it: v6's read, add and write in shared memory for every element, which v7 is rid of.

#pragma once

#include "ladder/v6_multi_add.cuh"
#include "ladder/v7_shuffle.cuh"

namespace reduce_ops::ladder {

template <typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(kBlockSize)
    sum_v8(const In* __restrict__ a, int64_t n, int64_t m, Out* __restrict__ sums) {
  __shared__ Acc s[kBlockSize];
  const unsigned tid = threadIdx.x;

  add_into_shared(a, n, m, &s[tid]);
  __syncthreads();

  if (tid < 128) s[tid] += s[tid + 128];
  __syncthreads();
  if (tid < 64) s[tid] += s[tid + 64];
  __syncthreads();

  if (tid < kWarpSize) {
    const Acc sum = fold_warp<kWarpSize / 2>(s[tid] + s[tid + kWarpSize]);
    if (tid == 0) sums[blockIdx.x] = convert<Out>(sum);
  }
}

}  // namespace reduce_ops::ladder
