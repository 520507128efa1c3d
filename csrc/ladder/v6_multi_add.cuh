// v6, multi add: a thread adds many elements before the block begins to fold.
//
// Changed: thread t adds m elements, 256 apart, into its own shared-memory slot, left to right; then v5's rounds.
// m grows with n, so that 1024 blocks are enough for any input.
// Faster because a block starts, folds and ends once for m * 256 elements: at 32 * 2^20 elements 1024 blocks of
// 32768 do what 65536 blocks did before, and the second pass has 1024 values to read instead of 65536.
// What limits it: every element is a read, an add and a write in shared memory, each waiting for the one before.

#pragma once

#include "ladder/v5_completely_unroll.cuh"

namespace reduce_ops::ladder {

/// *slot += x as a read, an add and a write, which is what this rung is about. Volatile, or the compiler sees that no
/// other thread looks at the slot and carries the sum in a register, which is v7's idea: without it ptxas 13.0 makes
/// one LDS, 16 FADDs and one STS of 16 elements, `asm volatile("" ::: "memory")` between them or not.
template <typename Acc>
__device__ void add_in_place(volatile Acc* slot, Acc x) {
  if constexpr (is_complex<Acc>) {
    add_in_place(&slot->real, x.real);
    add_in_place(&slot->imag, x.imag);
  } else {
    *slot = *slot + x;
  }
}

/// Adds this thread's m elements into *slot, a word in shared memory of its own.
template <typename Acc, typename In>
__device__ void add_into_shared(const In* __restrict__ a, int64_t n, int64_t m, Acc* slot) {
  *slot = identity<Acc>();
  for_each_element<Acc>(a, n, m, [slot](Acc x) { add_in_place(slot, x); });
}

template <typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(kBlockSize)
    sum_v6(const In* __restrict__ a, int64_t n, int64_t m, Out* __restrict__ sums) {
  __shared__ Acc s[kBlockSize];
  const unsigned tid = threadIdx.x;

  add_into_shared(a, n, m, &s[tid]);
  __syncthreads();

  fold_block<kBlockSize>(s, tid);
  if (tid == 0) sums[blockIdx.x] = convert<Out>(s[0]);
}

}  // namespace reduce_ops::ladder
