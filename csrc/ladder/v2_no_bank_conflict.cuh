// v2, no bank conflict: the upper half of the values is added to the lower half.
//
// Changed: rounds d = 128, 64, ..., 1; thread t < d does s[t] += s[t + d]. Another tree than v0's and v1's, so
// floating-point results may differ from theirs in the last bits.
//
//   d = 128   s[0] += s[128]   s[1] += s[129]   ...   s[127] += s[255]
//   d = 64    s[0] += s[64]    s[1] += s[65]    ...   s[63] += s[127]
//   ...
//   d = 1     s[0] += s[1]
//
// From here on no bank is hit twice, and the working threads are still the first ones: nothing of v1 is lost.
// Faster because neighbouring threads touch neighbouring words: the 32 lanes of a warp hit 32 different banks.
// What limits it: half of the threads never add, they only load one element and then wait at barriers. A block
// is 256 elements, so most of its time goes into its start, its nine barriers and its end.
//
// (Ladders that count from 1 call this rung V3.)

#pragma once

#include "ladder/rung.cuh"

namespace reduce_ops::ladder {

template <typename In, typename Acc, typename Out>
__global__ void sum_v2(const In* __restrict__ a, int64_t n, Out* __restrict__ sums) {
  __shared__ Acc s[kBlockSize];
  const unsigned tid = threadIdx.x;

  s[tid] = load<Acc>(a, n, int64_t{blockIdx.x} * blockDim.x + tid);
  __syncthreads();

  for (unsigned d = blockDim.x / 2; d > 0; d /= 2) {
    if (tid < d) s[tid] += s[tid + d];
    __syncthreads();
  }

  if (tid == 0) sums[blockIdx.x] = convert<Out>(s[0]);
}

}  // namespace reduce_ops::ladder
