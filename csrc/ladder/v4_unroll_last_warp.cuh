// v4, unroll last warp: once 64 values are left, warp 0 finishes alone.
//
// Changed: the loop stops after d = 64; then the 32 lanes of warp 0 do d = 32, 16, 8, 4, 2, 1 in a straight line,
// every lane in every step. Lanes past the ones that matter add values that nobody reads again.
// Faster because six block-wide barriers, six loop tests and six `tid < d` are gone, and seven of eight warps
// retire early.
// What limits it: the loop above d = 32 is still a loop, whose bound the compiler does not know.
//
// A warp's lanes have run independently since Volta: `volatile`, the classic way to write this, no longer keeps one
// lane's store behind another lane's load. Each step reads, waits for the warp, writes, and waits again.
// (tests/sanitizer builds this file with the waits taken out, to show that racecheck sees the race.)

#pragma once

#include "ladder/rung.cuh"

namespace reduce_ops::ladder {

/// Adds s[0..64) up into s[0]. Called by the 32 lanes of one warp.
template <typename Acc>
__device__ void fold_last_warp(Acc* s, unsigned lane) {
#pragma unroll
  for (unsigned d = kWarpSize; d > 0; d /= 2) {
    const Acc sum = s[lane] + s[lane + d];
    __syncwarp();
    s[lane] = sum;
    __syncwarp();
  }
}

template <typename In, typename Acc, typename Out>
__global__ void sum_v4(const In* __restrict__ a, int64_t n, Out* __restrict__ sums) {
  __shared__ Acc s[kBlockSize];
  const unsigned tid = threadIdx.x;

  const int64_t i = int64_t{blockIdx.x} * (2 * blockDim.x) + tid;
  s[tid] = load<Acc>(a, n, i) + load<Acc>(a, n, i + blockDim.x);
  __syncthreads();

  for (unsigned d = blockDim.x / 2; d > kWarpSize; d /= 2) {
    if (tid < d) s[tid] += s[tid + d];
    __syncthreads();
  }

  if (tid < kWarpSize) fold_last_warp(s, tid);
  if (tid == 0) sums[blockIdx.x] = convert<Out>(s[0]);
}

}  // namespace reduce_ops::ladder
