#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "sum/slots_cuda.h"
#include "sum/strides.h"
#include "sum/sum_kernels.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

Type type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return Type::boolean;
    case at::kChar:
      return Type::int8;
    case at::kShort:
      return Type::int16;
    case at::kInt:
      return Type::int32;
    case at::kLong:
      return Type::int64;
    case at::kByte:
      return Type::uint8;
    case at::kUInt16:
      return Type::uint16;
    case at::kUInt32:
      return Type::uint32;
    case at::kUInt64:
      return Type::uint64;
    case at::kFloat8_e4m3fn:
      return Type::float8_e4m3fn;
    case at::kFloat8_e5m2:
      return Type::float8_e5m2;
    case at::kHalf:
      return Type::float16;
    case at::kBFloat16:
      return Type::bfloat16;
    case at::kFloat:
      return Type::float32;
    case at::kDouble:
      return Type::float64;
    case at::kComplexFloat:
      return Type::complex64;
    case at::kComplexDouble:
      return Type::complex128;
    default:
      TORCH_INTERNAL_ASSERT(false, "no kernel reads or writes ", dtype);
  }
}

Layout layout_of(const Strides& strides, const void* data, int64_t element_size, bool tuned) {
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  if (is_run(strides) && aligned) return Layout::aligned;
  if (is_run(strides) && tuned) return Layout::shifted;
  if (is_rows(strides, 16 / element_size) && aligned && tuned) return Layout::rows;
  return Layout::strided;
}

void sum_cuda(const at::Tensor& tensor, at::ScalarType accumulate, const at::Tensor& result) {
  const c10::cuda::CUDAGuard guard(tensor.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  // The kernels know no conjugate or negative bit: the one kind of view that is copied.
  at::Tensor self = tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;

  Launch l{};
  if (!collapse(self.sizes(), self.strides(), self.numel(), l.strides)) {
    self = self.contiguous();
    collapse(self.sizes(), self.strides(), self.numel(), l.strides);
  }
  l.in = type_of(self.scalar_type());
  l.accumulate = type_of(accumulate);
  l.out = type_of(result.scalar_type());
  l.data = self.const_data_ptr();
  l.n = self.numel();
  l.result = result.mutable_data_ptr();

  const bool tuned = kernels_for(l.in, l.out) == Kernels::tuned;
  l.layout = layout_of(l.strides, l.data, self.element_size(), tuned);
  const int multiprocessors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  l.plan = make_plan(l.n, static_cast<int>(self.element_size()), static_cast<int>(c10::elementSize(accumulate)),
                     l.layout, tuned, multiprocessors);
  TORCH_CHECK(l.plan.blocks > 0, "sum: self has ", l.n, " elements, more than one launch covers");
  if (l.plan.blocks > 1) l.slots = slots_for(stream);
  C10_CUDA_CHECK(launch(l, stream));
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, CUDA, m) { register_sum<sum_cuda>(m); }

}  // namespace reduce_ops::sum
