// What plans have to know of the current GPU. Not by ATen/cuda/CUDAContext.h, which includes cuBLAS and so headers that
// PyTorch's own packages lack.

#pragma once

namespace reduce_ops {

struct Gpu {
  int multiprocessors;
  int shared_memory;  // bytes that a block may have
};

/// Asked for once a device.
const Gpu& current_gpu();

}  // namespace reduce_ops
