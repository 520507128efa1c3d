#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

#include "cub_reproducible_sum.h"
#include "widen.cuh"

// The first version that this was tried with. What CUDA 13.0 brings is 3.0, in which no sum takes an environment.
#if CCCL_VERSION >= 3005000

namespace reduce_ops::bench {

/// A Workspace as CUB wants to see it. What it gives is the owner's, so nothing is given back.
struct Memory {
  Workspace workspace;

  void* allocate_sync(size_t bytes, size_t) { return workspace.allocate_bytes(workspace.owner, bytes); }
  void* allocate(cuda::stream_ref, size_t bytes, size_t alignment) { return allocate_sync(bytes, alignment); }
  void deallocate_sync(void*, size_t, size_t) noexcept {}
  void deallocate(cuda::stream_ref, void*, size_t, size_t) noexcept {}

  bool operator==(const Memory& other) const { return workspace.owner == other.workspace.owner; }
  friend void get_property(const Memory&, cuda::mr::device_accessible) noexcept {}
};

namespace {

template <typename In, typename Sum>
cudaError_t sum_as(const void* data, int64_t n, void* sum, Workspace workspace, cudaStream_t stream) {
  const auto guarantee = cuda::execution::require(cuda::execution::determinism::gpu_to_gpu);
  const cuda::std::execution::prop<cuda::mr::get_memory_resource_t, Memory> memory{{}, Memory{workspace}};
  // Its types written out: nvcc 13.0 gets them wrong where they are to be deduced.
  const cuda::std::execution::env<cuda::stream_ref, decltype(guarantee), decltype(memory)> environment{
      cuda::stream_ref{stream}, guarantee, memory};
  const In* in = static_cast<const In*>(data);
  Sum* out = static_cast<Sum*>(sum);
  if constexpr (std::is_same_v<In, Sum>) {
    return cub::DeviceReduce::Sum(in, out, n, environment);
  } else {
    return cub::DeviceReduce::TransformReduce(in, out, n, cuda::std::plus<>{}, Widen<In, Sum>{}, Sum{}, environment);
  }
}

}  // namespace

cudaError_t cub_reproducible_sum(CubFloat type, const void* data, int64_t n, void* sum, Workspace workspace,
                                 cudaStream_t stream) {
  switch (type) {
    case CubFloat::float16:
      return sum_as<__half, float>(data, n, sum, workspace, stream);
    case CubFloat::bfloat16:
      return sum_as<__nv_bfloat16, float>(data, n, sum, workspace, stream);
    case CubFloat::float32:
      return sum_as<float, float>(data, n, sum, workspace, stream);
    case CubFloat::float64:
      return sum_as<double, double>(data, n, sum, workspace, stream);
  }
  return cudaErrorInvalidValue;
}

bool has_cub_reproducible_sum() { return true; }

}  // namespace reduce_ops::bench

#else

namespace reduce_ops::bench {

cudaError_t cub_reproducible_sum(CubFloat, const void*, int64_t, void*, Workspace, cudaStream_t) {
  return cudaErrorNotSupported;
}

bool has_cub_reproducible_sum() { return false; }

}  // namespace reduce_ops::bench

#endif
