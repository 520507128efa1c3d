// A batch of sums is a sum along dimensions: the order of each result is that of its own elements, and an exact sum has
// none, so the bits are those of one call for each sample.

#include <torch/library.h>

#include "batching.h"
#include "dispatch.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;

template <const char* kName>
at::Tensor sum_dims(const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>(kName, "dim_IntList");
  return batched_over_dims(self, dims, keepdim, [&](const at::Tensor& batch, at::IntArrayRef shifted, bool keeps) {
    return op.call(batch, shifted, keeps, dtype);
  });
}

template <const char* kName>
at::Tensor sum_all(const at::Tensor& self, Dtype dtype) {
  return sum_dims<kName>(self, std::nullopt, false, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("sum", TORCH_FN(sum_all<kSum>));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dims<kSum>));
  m.impl("sum_exact", TORCH_FN(sum_all<kSumExact>));
  m.impl("sum_exact.dim_IntList", TORCH_FN(sum_dims<kSumExact>));
}

}  // namespace reduce_ops::sum
