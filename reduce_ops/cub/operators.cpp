// CUB's sums as operators, to race against. reduce_ops/_cub.py builds this folder when a benchmark first asks for it.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "cub_reproducible_sum.h"
#include "cub_sum.h"

namespace reduce_ops::bench {
namespace {

struct CubTypes {
  CubType in;
  at::ScalarType sum;
};

CubTypes cub_types(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return {CubType::float16, at::kFloat};
    case at::kBFloat16:
      return {CubType::bfloat16, at::kFloat};
    case at::kFloat:
      return {CubType::float32, at::kFloat};
    case at::kDouble:
      return {CubType::float64, at::kDouble};
    case at::kBool:
      return {CubType::boolean, at::kLong};
    case at::kByte:
      return {CubType::uint8, at::kLong};
    case at::kChar:
      return {CubType::int8, at::kLong};
    case at::kShort:
      return {CubType::int16, at::kLong};
    case at::kInt:
      return {CubType::int32, at::kLong};
    case at::kLong:
      return {CubType::int64, at::kLong};
    case at::kComplexFloat:
      return {CubType::complex64, at::kComplexFloat};
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "cub_sum: not built for ", dtype);
  }
}

at::Tensor cub_sum_cuda(const at::Tensor& self) {
  TORCH_CHECK(self.is_contiguous(), "cub_sum: self must be contiguous");
  const c10::cuda::CUDAGuard guard(self.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const auto [type, sum_dtype] = cub_types(self.scalar_type());
  const at::Tensor sum = at::empty({}, self.options().dtype(sum_dtype));
  size_t bytes = 0;
  C10_CUDA_CHECK(cub_sum(type, nullptr, bytes, self.const_data_ptr(), self.numel(), sum.mutable_data_ptr(), stream));
  const at::Tensor temporary = at::empty({static_cast<int64_t>(bytes)}, self.options().dtype(at::kByte));
  C10_CUDA_CHECK(cub_sum(type, temporary.mutable_data_ptr(), bytes, self.const_data_ptr(), self.numel(),
                         sum.mutable_data_ptr(), stream));
  return sum;
}

CubFloat cub_float(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return CubFloat::float16;
    case at::kBFloat16:
      return CubFloat::bfloat16;
    case at::kFloat:
      return CubFloat::float32;
    case at::kDouble:
      return CubFloat::float64;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "cub_reproducible_sum: not built for ", dtype);
  }
}

at::Tensor cub_reproducible_sum_cuda(const at::Tensor& self) {
  TORCH_CHECK(self.is_contiguous(), "cub_reproducible_sum: self must be contiguous");
  const c10::cuda::CUDAGuard guard(self.device());
  const at::ScalarType dtype = self.scalar_type();
  const at::Tensor sum = at::empty({}, self.options().dtype(dtype == at::kDouble ? at::kDouble : at::kFloat));
  at::Tensor temporary = at::empty({0}, self.options().dtype(at::kByte));
  const auto allocate = [](void* owner, size_t bytes) {
    return static_cast<at::Tensor*>(owner)->resize_({static_cast<int64_t>(bytes)}).mutable_data_ptr();
  };
  C10_CUDA_CHECK(cub_reproducible_sum(cub_float(dtype), self.const_data_ptr(), self.numel(), sum.mutable_data_ptr(),
                                      {allocate, &temporary}, c10::cuda::getCurrentCUDAStream()));
  return sum;
}

}  // namespace

TORCH_LIBRARY(reduce_bench, m) {
  m.def("cub_sum(Tensor self) -> Tensor");
  m.def("cub_reproducible_sum(Tensor self) -> Tensor");
}

TORCH_LIBRARY_IMPL(reduce_bench, CUDA, m) {
  m.impl("cub_sum", &cub_sum_cuda);
  if (has_cub_reproducible_sum()) m.impl("cub_reproducible_sum", &cub_reproducible_sum_cuda);
}

}  // namespace reduce_ops::bench
