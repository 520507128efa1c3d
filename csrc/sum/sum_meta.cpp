#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

at::Tensor sum_meta(const at::Tensor& self, const Request& request) {
  const at::ScalarType dtype = result_dtype("sum", self, request.dtype);
  const DimSet reduced = reduced_dims(self, request.dims);
  return at::empty_symint(result_sizes(self.sym_sizes(), reduced, request.keepdim), self.options().dtype(dtype));
}

at::Tensor& sum_out_meta(const at::Tensor& self, const Request& request, at::Tensor& out) {
  check_out(self, result_dtype("sum", self, request.dtype ? request.dtype : dtype_of(self, out)), out);
  const DimSet reduced = reduced_dims(self, request.dims);
  out.resize__symint(result_sizes(self.sym_sizes(), reduced, request.keepdim));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Meta, m) { register_overloads<sum_meta, sum_out_meta>(m); }

}  // namespace reduce_ops::sum
