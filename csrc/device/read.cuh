// The ceiling of every table: a kernel that only reads, in the way that was fastest of those tried.

#pragma once

#include "device/ptx.cuh"
#include "device/standard.cuh"

namespace reduce_ops {

/// A block reads one tile of 64 KiB. The xor keeps the loads alive; that it hits the one value which is stored is as
/// good as impossible, and harmless.
template <int kThreads, int kVectors>
__global__ void __launch_bounds__(kThreads) read_tiles(const uint4* data, int64_t vectors, uint32_t* never_written) {
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kVectors) + threadIdx.x;
  uint4 v[kVectors];
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const int64_t i = first + u * kThreads;
    v[u] = i < vectors ? load_once(data + i) : uint4{};
  }
  uint32_t mix = 0;
#pragma unroll
  for (int u = 0; u < kVectors; ++u) mix ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  if (mix == 0x9e3779b9u) *never_written = mix;
}

}  // namespace reduce_ops
