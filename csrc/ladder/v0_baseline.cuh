// v0, baseline: a block sums 256 elements as a binary tree in shared memory.
//
// Each thread loads one element. In round d = 1, 2, 4, ... every 2d-th thread adds the value d further on:
//
//   d = 1   s[0] += s[1]   s[2] += s[3]   s[4] += s[5]   s[6] += s[7]  ...
//   d = 2   s[0] += s[2]                  s[4] += s[6]                 ...
//   d = 4   s[0] += s[4]                                               ...
//
// Node j of level l of this tree covers elements [j * 2^l, (j + 1) * 2^l): neighbours meet first, as in the canonical
// order, so sum_v0 gives the bits of torch.ops.reduce.sum.
//
// What limits it: `%`, half of its time (v1 has the figures), and lanes without work. The working threads are spread
// over all warps: of the 32 lanes of a warp 16, 8, 4, 2, 1, 1, ... work, yet every warp issues the round's
// instructions, right up to the last add. Bank conflicts it has none: no two working lanes of a warp meet in one bank
// in any round.
//
// (Ladders that count from 1 call this rung V1.)

#pragma once

#include "ladder/rung.cuh"

namespace reduce_ops::ladder {

template <typename In, typename Acc, typename Out>
__global__ void sum_v0(const In* __restrict__ a, int64_t n, Out* __restrict__ sums) {
  __shared__ Acc s[kBlockSize];
  const unsigned tid = threadIdx.x;

  s[tid] = load<Acc>(a, n, int64_t{blockIdx.x} * blockDim.x + tid);
  __syncthreads();

  for (unsigned d = 1; d < blockDim.x; d *= 2) {
    if (tid % (2 * d) == 0) s[tid] += s[tid + d];
    __syncthreads();
  }

  if (tid == 0) sums[blockIdx.x] = convert<Out>(s[0]);
}

}  // namespace reduce_ops::ladder
