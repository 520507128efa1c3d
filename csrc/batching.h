// What the batching rules of all operators share: the frame that vmap wants around a rule.

#pragma once

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/DimVector.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/ops/movedim.h>
#include <ATen/ops/unsqueeze.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/OptionalArrayRef.h>

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

/// What reduces dimensions of self as reduce(batch, dims, keepdim), on each sample at once.
template <typename Reduce>
at::Tensor batched_over_dims(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, Reduce reduce) {
  return batched(self, [&](const at::Tensor& batch) {
    const int64_t rank = batch.dim() - 1;  // of a sample
    at::DimVector shifted;
    if (dims && !dims->empty()) {
      const auto reduced = at::dim_list_to_bitset(*dims, rank);  // refuses what is not of a sample, or there twice
      for (int64_t d = 0; d < rank; ++d) {
        if (reduced[d]) shifted.push_back(d + 1);
      }
    } else {
      for (int64_t d = 1; d <= rank; ++d) shifted.push_back(d);
    }
    if (rank == 0) return reduce(batch.unsqueeze(1), at::IntArrayRef{1}, false);  // samples of one element
    return reduce(batch, at::IntArrayRef(shifted), keepdim);
  });
}

}  // namespace reduce_ops
