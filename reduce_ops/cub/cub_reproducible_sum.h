// CUB's sum of the same bits on every GPU (gpu_to_gpu), as a peer in the race of the exact sum.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace reduce_ops::bench {

enum class CubFloat { float16, bfloat16, float32, float64 };

/// Where CUB's memory comes from: PyTorch, as for the other contenders, or a call in a CUDA graph would pay for an
/// allocation too.
struct Workspace {
  void* (*allocate_bytes)(void* owner, size_t bytes);
  void* owner;
};

/// Sums data[0..n) into *sum: float16 and bfloat16 into a float32, others into their own type.
cudaError_t cub_reproducible_sum(CubFloat type, const void* data, int64_t n, void* sum, Workspace workspace,
                                 cudaStream_t stream);

/// Whether the headers of CUB that this was compiled with have such a sum: those of CUDA 13.0 do not.
bool has_cub_reproducible_sum();

}  // namespace reduce_ops::bench
