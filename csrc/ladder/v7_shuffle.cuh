// v7, shuffle: sums stay in registers.
//
// Changed: a thread adds its m elements in a register. A warp folds its 32 lanes with shuffles at distance 16, 8, 4,
// 2, 1; lane 0 of each warp leaves the warp's sum in shared memory, and after the only barrier of the kernel warp 0
// folds those. Blocks of 64, 128, 256, 512 or 1024 threads.
// Faster because an element costs one add instead of a shared-memory read, add and write, a fold step costs one
// shuffle instead of a read, a write and two waits, and of v6's three barriers one is left.
// What limits it: the memory. Loads are 4 bytes a lane, and the sum of the block sums takes two more launches.

#pragma once

#include "ladder/rung.cuh"

namespace reduce_ops::ladder {

/// Lane 0 gets the sum of the values of lanes 0 .. 2 * kFirst - 1. Called by all 32 lanes of a warp.
template <int kFirst, typename Acc>
__device__ Acc fold_warp(Acc x) {
#pragma unroll
  for (int d = kFirst; d > 0; d /= 2) x += shuffle_down(x, d);
  return x;
}

template <typename In, typename Acc, typename Out, int kThreads>
__global__ void __launch_bounds__(kThreads)
    sum_v7(const In* __restrict__ a, int64_t n, int64_t m, Out* __restrict__ sums) {
  constexpr unsigned kWarps = kThreads / kWarpSize;
  __shared__ Acc warp_sums[kWarps];
  const unsigned warp = threadIdx.x / kWarpSize;
  const unsigned lane = threadIdx.x % kWarpSize;

  Acc sum = identity<Acc>();
  for_each_element<Acc>(a, n, m, [&sum](Acc x) { sum += x; });

  sum = fold_warp<kWarpSize / 2>(sum);
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();

  if (warp == 0) {
    sum = lane < kWarps ? warp_sums[lane] : identity<Acc>();
    sum = fold_warp<kWarps / 2>(sum);
    if (lane == 0) sums[blockIdx.x] = convert<Out>(sum);
  }
}

}  // namespace reduce_ops::ladder
