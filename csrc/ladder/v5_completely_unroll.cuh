// v5, completely unroll: v4 with the block size known at compile time.
//
// Changed: kThreads is a template argument, and the rounds above one warp are spelled out; `if constexpr` keeps those
// that a block of this size has. Any of 128, 256 or 512 threads; the adds are v4's.
// Faster, if at all, because the loop counter, its test and its jump are gone. That was worth a few per cent on GPUs
// that issued one instruction at a time.
// What limits it: a block still sums only 512 elements. Its start, barriers and end are paid 65536 times over
// 32 * 2^20 elements, and each pass writes and reads back one value for every 512.

#pragma once

#include "ladder/v4_unroll_last_warp.cuh"

namespace reduce_ops::ladder {

/// Adds s[0..kThreads) up into s[0]. Called by all threads of the block, after a barrier.
template <int kThreads, typename Acc>
__device__ void fold_block(Acc* s, unsigned tid) {
  static_assert(kThreads == 128 || kThreads == 256 || kThreads == 512);
  if constexpr (kThreads >= 512) {
    if (tid < 256) s[tid] += s[tid + 256];
    __syncthreads();
  }
  if constexpr (kThreads >= 256) {
    if (tid < 128) s[tid] += s[tid + 128];
    __syncthreads();
  }
  if (tid < 64) s[tid] += s[tid + 64];
  __syncthreads();

  if (tid < kWarpSize) fold_last_warp(s, tid);
}

template <typename In, typename Acc, typename Out, int kThreads>
__global__ void __launch_bounds__(kThreads) sum_v5(const In* __restrict__ a, int64_t n, Out* __restrict__ sums) {
  __shared__ Acc s[kThreads];
  const unsigned tid = threadIdx.x;

  const int64_t i = int64_t{blockIdx.x} * (2 * kThreads) + tid;
  s[tid] = load<Acc>(a, n, i) + load<Acc>(a, n, i + kThreads);
  __syncthreads();

  fold_block<kThreads>(s, tid);
  if (tid == 0) sums[blockIdx.x] = convert<Out>(s[0]);
}

}  // namespace reduce_ops::ladder
