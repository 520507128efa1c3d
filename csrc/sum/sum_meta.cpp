#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

at::Tensor sum_meta(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  return at::empty({}, self.options().dtype(result_dtype(self, dtype)));
}

at::Tensor& sum_out_meta(const at::Tensor& self, std::optional<at::ScalarType> dtype, at::Tensor& out) {
  check_out(self, result_dtype(self, dtype), out);
  out.resize_({});
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Meta, m) {
  m.impl("sum", &sum_meta);
  m.impl("sum.out", &sum_out_meta);
}

}  // namespace reduce_ops::sum
