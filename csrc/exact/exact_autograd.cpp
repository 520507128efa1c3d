// States are integers, which have no gradient. (The gradient of sum_exact is that of sum, in sum_autograd.cpp.)

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/OptionalArrayRef.h>
#include <torch/library.h>

#include "dispatch.h"

namespace reduce_ops::exact {
namespace {

using Dims = at::OptionalIntArrayRef;

at::Tensor state_all(c10::DispatchKeySet keys, const at::Tensor& self) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&)>("exact_state");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self);
}

at::Tensor state_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool)>("exact_state", "dim_IntList");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self, dims, keepdim);
}

at::Tensor round(c10::DispatchKeySet keys, const at::Tensor& state, at::ScalarType dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, at::ScalarType)>("exact_round");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, state, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Autograd, m) {
  m.impl("exact_state", TORCH_FN(state_all));
  m.impl("exact_state.dim_IntList", TORCH_FN(state_dims));
  m.impl("exact_round", TORCH_FN(round));
}

}  // namespace reduce_ops::exact
