// v3, add during load: a block covers 512 elements, and no thread only loads.
//
// Changed: thread t loads two elements, 256 apart so that both loads of a warp stay coalesced, and stores their
// sum. Then v2's rounds.
//
//   thread     0              1              ...   255
//   loads      a[0] a[256]    a[1] a[257]    ...   a[255] a[511]      block 0
//              a[512] a[768]  a[513] a[769]  ...   a[767] a[1023]     block 1
//
// A missing second element is the identity, so a last block of up to 256 elements is v2's.
// Faster because half as many blocks start, synchronise and end for the same bytes, and each thread has two loads
// on their way at once instead of one.
// What limits it: the rounds still cost eight barriers of all eight warps, although from d = 32 on one single warp
// has work.
// (Ladders that count from 1 call this rung V4.)

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
