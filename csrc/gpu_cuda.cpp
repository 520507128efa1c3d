#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "gpu.h"

namespace reduce_ops {
namespace {

int ask(cudaDeviceAttr attribute, int device) {
  int value = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&value, attribute, device);
  if (error == cudaSuccess) return value;
  cudaGetLastError();
  throw std::runtime_error("reduce_ops: CUDA does not say what device " + std::to_string(device) +
                           " is: " + cudaGetErrorString(error));
}

Gpu gpu_at(int device) {
  return {.multiprocessors = ask(cudaDevAttrMultiProcessorCount, device),
          .shared_memory = ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          .l2_bytes = ask(cudaDevAttrL2CacheSize, device),
          .architecture =
              10 * ask(cudaDevAttrComputeCapabilityMajor, device) + ask(cudaDevAttrComputeCapabilityMinor, device)};
}

}  // namespace

const Gpu& current_gpu() {
  static std::array<std::atomic<const Gpu*>, kMaxDevices> known{};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kMaxDevices) {
    cudaGetLastError();
    throw std::runtime_error("reduce_ops: no current CUDA device, or more than 64 of them");
  }
  if (const Gpu* gpu = known[device].load(std::memory_order_acquire)) return *gpu;
  auto asked = std::make_unique<const Gpu>(gpu_at(device));
  const Gpu* first = nullptr;  // of several threads that ask at once
  if (known[device].compare_exchange_strong(first, asked.get())) first = asked.release();
  return *first;
}

}  // namespace reduce_ops
