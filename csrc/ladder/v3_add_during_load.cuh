// v3, add during load: a block covers 512 elements, and no thread only loads.
//
// Changed: thread t loads two elements, 256 apart so that both loads of a warp stay coalesced, and stores their
// sum. Then v2's rounds.
// Faster because half as many blocks start, synchronise and end for the same bytes, and each thread has two loads
// on their way at once instead of one.
// What limits it: the rounds still cost eight barriers of all eight warps, although from d = 16 on one single warp
// has work.

#pragma once

#include "ladder/rung.cuh"

namespace reduce_ops::ladder {

template <typename In, typename Acc, typename Out>
__global__ void sum_v3(const In* __restrict__ a, int64_t n, Out* __restrict__ sums) {
  __shared__ Acc s[kBlockSize];
  const unsigned tid = threadIdx.x;

  const int64_t i = int64_t{blockIdx.x} * (2 * blockDim.x) + tid;
  s[tid] = load<Acc>(a, n, i) + load<Acc>(a, n, i + blockDim.x);
  __syncthreads();

  for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
    if (tid < d) s[tid] += s[tid + d];
    __syncthreads();
  }

  if (tid == 0) sums[blockIdx.x] = convert<Out>(s[0]);
}

}  // namespace reduce_ops::ladder
