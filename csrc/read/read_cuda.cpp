#include <ATen/core/Tensor.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

#include "jit/kernel.h"
#include "read/read_op.h"

namespace reduce_ops {
namespace {

constexpr int kThreads = 512;
constexpr int kVectors = 8;  // 16-byte loads in flight a thread
constexpr int64_t kVectorBytes = 16;

}  // namespace

at::Tensor read_cuda(const at::Tensor& self) {
  const void* data = self.const_data_ptr();
  TORCH_CHECK(self.is_contiguous() && reinterpret_cast<uintptr_t>(data) % kVectorBytes == 0,
              "_read: self must be contiguous and start at a multiple of 16");
  const c10::cuda::CUDAGuard guard(self.device());
  const at::Tensor unused = at::detail::empty_cuda({1}, at::kInt, self.device(), std::nullopt);
  if (self.numel() == 0) return unused;
  static auto* const table = new jit::Table(/*waits=*/false);
  jit::Kernel& kernel = table->get({}, [] {
    return jit::Name{"device/read.cuh",
                     "read_tiles<" + std::to_string(kThreads) + ", " + std::to_string(kVectors) + ">"};
  });
  const int64_t vectors = static_cast<int64_t>(self.nbytes()) / kVectorBytes;  // what is left is not worth a branch
  const int64_t blocks = (vectors + kThreads * kVectors - 1) / (kThreads * kVectors);
  void* never_written = unused.mutable_data_ptr();
  void* arguments[] = {&data, const_cast<int64_t*>(&vectors), &never_written};
  const jit::Geometry geometry{dim3(static_cast<unsigned>(std::max<int64_t>(blocks, 1))), dim3(kThreads)};
  C10_CUDA_CHECK(jit::launch(kernel, geometry, {}, c10::cuda::getCurrentCUDAStream(), arguments));
  return unused;
}

}  // namespace reduce_ops
