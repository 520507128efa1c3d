// What the batching rules of all operators share: the frame that vmap wants around a rule.

#pragma once

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/ops/movedim.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reduce_ops {

/// rule(x) with the tensor that self is a batch of, the dimension that is vmapped in front; its result is of the same
/// form. self tells the level of its vmap. PyTorch's own rules ask the interpreter for the current one, but the headers
/// for that do not compile outside of PyTorch (they include one that it does not ship). The difference: where self is a
/// batch of an outer vmap only, their rules call the operator again, ours unwraps self at once.
template <typename Rule>
at::Tensor batched(const at::Tensor& self, Rule rule) {
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
  const auto* batch = at::functorch::unsafeGetBatchedImpl(self);
  return at::functorch::makeBatched(rule(batch->value().movedim(batch->bdim(), 0)), 0, batch->level());
}

}  // namespace reduce_ops
