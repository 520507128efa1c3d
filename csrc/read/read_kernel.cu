#include "read/read_kernel.h"

namespace reduce_ops {
namespace {

constexpr int kThreads = 512;
constexpr int kVectors = 8;  // 16-byte loads in flight a thread
constexpr int64_t kTileBytes = int64_t{kThreads} * kVectors * sizeof(uint4);

__device__ uint4 load_once(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

/// A block reads one tile of 64 KiB. The xor keeps the loads alive; that it hits the one value which is stored is as
/// good as impossible, and harmless.
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

}  // namespace

cudaError_t read(const void* data, int64_t bytes, uint32_t* never_written, cudaStream_t stream) {
  const int64_t vectors = bytes / static_cast<int64_t>(sizeof(uint4));  // a tail below 16 bytes is not worth a branch
  const int64_t blocks = (bytes + kTileBytes - 1) / kTileBytes;
  read_tiles<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(static_cast<const uint4*>(data), vectors,
                                                                     never_written);
  return cudaGetLastError();
}

}  // namespace reduce_ops
