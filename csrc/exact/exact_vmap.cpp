// A batch of states is states, one after the other. (The batches of sum_exact are those of sum, in sum_vmap.cpp.)

#include <torch/library.h>

#include "batching.h"
#include "dispatch.h"
#include "exact/exact_op.h"

namespace reduce_ops::exact {
namespace {

using Dims = at::OptionalIntArrayRef;

at::Tensor state_dims(const at::Tensor& self, Dims dims, bool keepdim) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool)>("exact_state", "dim_IntList");
  return batched_over_dims(self, dims, keepdim, [](const at::Tensor& batch, at::IntArrayRef shifted, bool keeps) {
    return op.call(batch, shifted, keeps);
  });
}

at::Tensor state_all(const at::Tensor& self) { return state_dims(self, std::nullopt, false); }

at::Tensor round(const at::Tensor& state, at::ScalarType dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, at::ScalarType)>("exact_round");
  check_state(state, dtype);  // whose sizes are those of a sample; a batch could make up for what they lack
  return batched(state, [dtype](const at::Tensor& batch) { return op.call(batch, dtype); });
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("exact_state", TORCH_FN(state_all));
  m.impl("exact_state.dim_IntList", TORCH_FN(state_dims));
  m.impl("exact_round", TORCH_FN(round));
}

}  // namespace reduce_ops::exact
