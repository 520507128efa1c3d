#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "dispatch.h"
#include "exact/exact_op.h"
#include "sum_dtypes.h"

namespace reduce_ops::exact {
namespace {

at::Tensor sum_meta(const at::Tensor& self, const sum::Request& request) {
  const at::ScalarType dtype = sum::result_dtype(kSumExact, self, request.dtype);
  const DimSet reduced = sum::reduced_dims(self, request.dims);
  return at::empty_symint(sum::result_sizes(self.sym_sizes(), reduced, request.keepdim), self.options().dtype(dtype));
}

at::Tensor state_meta(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
  check_summable("exact_state", "self", self.scalar_type());
  const DimSet reduced = sum::reduced_dims(self, dims);
  auto sizes = sum::result_sizes(self.sym_sizes(), reduced, keepdim);
  if (self.is_complex()) sizes.push_back(2);
  sizes.push_back(words_of(self.scalar_type()));
  return at::empty_symint(sizes, self.options().dtype(at::kLong));
}

at::Tensor round_meta(const at::Tensor& state, at::ScalarType dtype) {
  check_state(state, dtype);
  return at::empty_symint(rounded_sizes(state, dtype), state.options().dtype(dtype));
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Meta, m) { register_overloads<sum_meta, state_meta, round_meta>(m); }

}  // namespace reduce_ops::exact
