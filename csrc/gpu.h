// What plans have to know of a GPU. No PyTorch.

#pragma once

#include <cstdint>

namespace reduce_ops {

struct Gpu {
  int multiprocessors;
  int shared_memory;  // bytes that a block may have
  int64_t l2_bytes;
  int architecture;  // 90 is sm_90
};

/// An H200 of so many multiprocessors, and of L2 in proportion: what is planned for where no GPU is at hand to ask.
constexpr Gpu gpu_of(int multiprocessors) {
  constexpr Gpu kH200{132, 227 << 10, 60 << 20, 90};
  Gpu gpu = kH200;
  gpu.multiprocessors = multiprocessors;
  gpu.l2_bytes = kH200.l2_bytes * multiprocessors / kH200.multiprocessors;
  return gpu;
}

/// A process may have so many.
constexpr int kMaxDevices = 64;

/// The current one. CUDA is asked once a device. Throws std::runtime_error where there is none.
const Gpu& current_gpu();

}  // namespace reduce_ops
