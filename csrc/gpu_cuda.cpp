#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <array>
#include <mutex>

#include "gpu.h"

namespace reduce_ops {

const Gpu& current_gpu() {
  constexpr int kMaxDevices = 64;
  static std::array<std::once_flag, kMaxDevices> asked;
  static std::array<Gpu, kMaxDevices> gpus;
  const int device = c10::cuda::current_device();
  TORCH_INTERNAL_ASSERT(device >= 0 && device < kMaxDevices);
  std::call_once(asked[device], [device] {
    Gpu& gpu = gpus[device];
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&gpu.multiprocessors, cudaDevAttrMultiProcessorCount, device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&gpu.shared_memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  });
  return gpus[device];
}

}  // namespace reduce_ops
