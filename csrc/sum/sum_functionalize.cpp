// out= for torch.compile and torch.export, whose graphs write to nothing: the sum becomes a new tensor, which then
// takes the place of out. PyTorch does this by itself only for its own operators and for those that return nothing.

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "dispatch.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;

at::Tensor unwrapped(const at::Tensor& tensor) {
  if (!at::functionalization::impl::isFunctionalTensor(tensor)) return tensor;
  at::functionalization::impl::sync(tensor);
  return at::functionalization::impl::from_functional_tensor(tensor);
}

at::Tensor& sum_out_dims(const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype, at::Tensor& out) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>("sum", "dim_IntList");
  const at::Tensor x = unwrapped(self);
  const Dtype asked = dtype ? dtype : dtype_of(self, out);
  check_out(self, result_dtype("sum", self, asked), out);
  const at::Tensor result = [&] {
    const at::AutoDispatchSkipFunctionalize guard;
    return op.call(x, dims, keepdim, asked);
  }();
  at::functionalization::impl::replace_(out, result);
  at::functionalization::impl::commit_update(out);
  at::functionalization::impl::sync(out);
  return out;
}

at::Tensor& sum_out_all(const at::Tensor& self, Dtype dtype, at::Tensor& out) {
  return sum_out_dims(self, std::nullopt, false, dtype, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Functionalize, m) {
  m.impl("sum.out", TORCH_FN(sum_out_all));
  m.impl("sum.IntList_out", TORCH_FN(sum_out_dims));
}

}  // namespace reduce_ops::sum
