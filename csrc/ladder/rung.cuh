// What all rungs share: how a thread gets at its elements. The rungs themselves are v0_baseline.cuh and following;
// each is one kernel
//
//   sum_vN<In, Acc, Out>(a, n, [m,] sums)
//
// that turns a[0..n) into one sum a block, added in Acc and stored as Out. gridDim and blockDim are those of
// schedule.h's Grid, m is its number of elements a thread. Global memory is read once and never past n.

#pragma once

#include "device/numeric.cuh"
#include "ladder/limits.h"

namespace reduce_ops::ladder {

/// a[i] in the accumulate type, the identity past the end.
template <typename Acc, typename In>
__device__ Acc load(const In* __restrict__ a, int64_t n, int64_t i) {
  return i < n ? convert<Acc>(a[i]) : identity<Acc>();
}

/// Calls add(x) for each element of this thread, in order: m elements, blockDim.x apart.
///
/// A load takes some 600 ns to arrive, an add 2 ns: loads are issued kInFlight at a time before the first of them
/// is added, or the adds, which must stay in order, would wait for one load after the other. 64 bytes a thread: on an
/// H200, 32 * 2^20 float32, sum_v7 takes 39.1, 37.4, 36.7 and 36.7 us with 16, 32, 64 and 128 bytes; with 256 bytes
/// of complex128 it loses 2 %, and v8 11 %.
template <typename Acc, typename In, typename Add>
__device__ void for_each_element(const In* __restrict__ a, int64_t n, int64_t m, Add add) {
  constexpr int kInFlight = 64 / sizeof(In);
  const int64_t stride = blockDim.x;
  const int64_t begin = blockIdx.x * m * stride;
  const int64_t end = min(n, begin + m * stride);
  int64_t i = begin + threadIdx.x;
  for (; i + (kInFlight - 1) * stride < end; i += kInFlight * stride) {
    In x[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) x[u] = a[i + u * stride];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) add(convert<Acc>(x[u]));
  }
  for (; i < end; i += stride) add(convert<Acc>(a[i]));
}

}  // namespace reduce_ops::ladder
