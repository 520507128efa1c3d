// CUB's DeviceReduce::Sum, as a peer in the race. Instantiated for the benchmark only.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace reduce_ops::bench {

enum class CubType { float16, bfloat16, float32, float64, complex64, boolean, uint8, int8, int16, int32, int64 };

/// Sums data[0..n) into *sum: float16 and bfloat16 into a float32, bools and integers into an int64, others into their
/// own type.
/// Called twice, as CUB's functions are: with temporary = nullptr it only writes how many bytes it needs.
cudaError_t cub_sum(CubType type, void* temporary, size_t& bytes, const void* data, int64_t n, void* sum,
                    cudaStream_t stream);

}  // namespace reduce_ops::bench
