// v4 with its warp barriers taken out: a race that racecheck must report. If it does not, its silence about the real
// rungs proves nothing.

#include <cuda_runtime.h>

#include "ladder/rung.cuh"

#define __syncwarp() static_cast<void>(0)
#include "ladder/v4_unroll_last_warp.cuh"

int main() {
  constexpr int64_t kCount = 4 * 512;
  float* a = nullptr;
  float* sums = nullptr;
  if (cudaMalloc(&a, kCount * sizeof(float)) != cudaSuccess || cudaMalloc(&sums, 4 * sizeof(float)) != cudaSuccess ||
      cudaMemset(a, 0, kCount * sizeof(float)) != cudaSuccess) {
    return 1;
  }
  reduce_ops::ladder::sum_v4<float, float, float><<<4, reduce_ops::ladder::kBlockSize>>>(a, kCount, sums);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
