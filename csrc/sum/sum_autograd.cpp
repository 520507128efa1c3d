// The gradient of a sum is a view: the gradient of the result, expanded over the dimensions that were summed. How the
// sum was rounded makes no difference to it, so sum and sum_exact share their kernels.

#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <torch/library.h>

#include "autograd.h"
#include "dispatch.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;
using torch::autograd::variable_list;

struct ReduceSumBackward final : torch::autograd::TraceableFunction {
  ReduceSumBackward(const at::Tensor& self, DimSet reduced, bool keepdim)
      : sizes(self.sym_sizes()), dtype(self.scalar_type()), reduced(reduced), keepdim(keepdim) {}

  variable_list apply(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    at::Tensor grad = autograd::to_dtype(grads[0], dtype);
    if (!keepdim && grad.dim() > 0) {
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (reduced[d]) grad = grad.unsqueeze(static_cast<int64_t>(d));
      }
    }
    return {grad.expand_symint(sizes)};
  }
  std::string name() const override { return "ReduceSumBackward"; }

  c10::SymDimVector sizes;
  at::ScalarType dtype;
  DimSet reduced;
  bool keepdim;
};

template <const char* kName>
at::Tensor sum_all(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dtype)>(kName);
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, dtype); },
      [&](const at::Tensor& tangent) { return op.call(tangent, dtype); },
      [&] { return autograd::make_node<ReduceSumBackward>(self, DimSet().set(), false); });
}

template <const char* kName>
at::Tensor sum_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>(kName, "dim_IntList");
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, dims, keepdim, dtype); },
      [&](const at::Tensor& tangent) { return op.call(tangent, dims, keepdim, dtype); },
      [&] { return autograd::make_node<ReduceSumBackward>(self, reduced_dims(self, dims), keepdim); });
}

/// out= has no gradient, as everywhere in PyTorch.
void refuse_out(const at::Tensor& self, const at::Tensor& out) {
  if (torch::autograd::compute_requires_grad(self, out)) torch::autograd::throw_error_out_requires_grad("sum");
  TORCH_CHECK_NOT_IMPLEMENTED(!self._fw_grad(0).defined() && !out._fw_grad(0).defined(),
                              "sum(): functions with out=... arguments don't support forward-mode automatic "
                              "differentiation, but one of the arguments has a tangent.");
}

using OutSignature = at::Tensor&(const at::Tensor&, Dtype, at::Tensor&);
using OutDimsSignature = at::Tensor&(const at::Tensor&, Dims, bool, Dtype, at::Tensor&);

at::Tensor& sum_out_all(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype, at::Tensor& out) {
  static const auto op = find_operator<OutSignature>("sum", "out");
  refuse_out(self, out);
  const at::AutoDispatchBelowAutograd guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self, dtype, out);
}

at::Tensor& sum_out_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype,
                         at::Tensor& out) {
  static const auto op = find_operator<OutDimsSignature>("sum", "IntList_out");
  refuse_out(self, out);
  const at::AutoDispatchBelowAutograd guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self, dims, keepdim, dtype, out);
}

// Whoever saved `out` for its gradient has to learn that it was written to.

at::Tensor& write_all(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype, at::Tensor& out) {
  static const auto op = find_operator<OutSignature>("sum", "out");
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatch(keys & c10::after_ADInplaceOrView_keyset, self, dtype, out);
  torch::autograd::increment_version(out);
  return out;
}

at::Tensor& write_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype,
                       at::Tensor& out) {
  static const auto op = find_operator<OutDimsSignature>("sum", "IntList_out");
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatch(keys & c10::after_ADInplaceOrView_keyset, self, dims, keepdim, dtype, out);
  torch::autograd::increment_version(out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Autograd, m) {
  m.impl("sum", TORCH_FN(sum_all<kSum>));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dims<kSum>));
  m.impl("sum_exact", TORCH_FN(sum_all<kSumExact>));
  m.impl("sum_exact.dim_IntList", TORCH_FN(sum_dims<kSumExact>));
  m.impl("sum.out", TORCH_FN(sum_out_all));
  m.impl("sum.IntList_out", TORCH_FN(sum_out_dims));
}

TORCH_LIBRARY_IMPL(reduce, ADInplaceOrView, m) {
  m.impl("sum.out", TORCH_FN(write_all));
  m.impl("sum.IntList_out", TORCH_FN(write_dims));
}

}  // namespace reduce_ops::sum
