#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "autocast.h"
#include "dispatch.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;

template <const char* kName>
at::Tensor sum_all(const at::Tensor& self, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dtype)>(kName);
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastCUDA);
  return op.call(self, autocast_dtype(self, dtype));
}

template <const char* kName>
at::Tensor sum_dims(const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>(kName, "dim_IntList");
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastCUDA);
  return op.call(self, dims, keepdim, autocast_dtype(self, dtype));
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, AutocastCUDA, m) {
  m.impl("sum", TORCH_FN(sum_all<kSum>));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dims<kSum>));
  m.impl("sum_exact", TORCH_FN(sum_all<kSumExact>));
  m.impl("sum_exact.dim_IntList", TORCH_FN(sum_dims<kSumExact>));
}

}  // namespace reduce_ops::sum
