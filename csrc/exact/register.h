// How backends register the operators of exact_op.h.

#pragma once

#include <torch/library.h>

#include "exact/exact_op.h"

namespace reduce_ops::exact {

/// Registers the overloads of all three for one dispatch key. kSumExact takes (self, request), kState takes (self,
/// dims, keepdim), kRound takes (state, dtype).
template <auto kSumExact, auto kState, auto kRound>
void register_overloads(torch::Library& m) {
  using Dtype = std::optional<at::ScalarType>;
  using Dims = at::OptionalIntArrayRef;
  m.impl(
      "sum_exact", +[](const at::Tensor& self, Dtype dtype) { return kSumExact(self, {std::nullopt, false, dtype}); });
  m.impl(
      "sum_exact.dim_IntList", +[](const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
        return kSumExact(self, {dims, keepdim, dtype});
      });
  m.impl("exact_state", +[](const at::Tensor& self) { return kState(self, std::nullopt, false); });
  m.impl(
      "exact_state.dim_IntList",
      +[](const at::Tensor& self, Dims dims, bool keepdim) { return kState(self, dims, keepdim); });
  m.impl("exact_round", +[](const at::Tensor& state, at::ScalarType dtype) { return kRound(state, dtype); });
}

/// The same for a backend that has data.
template <ExactInto* kExactInto, RoundInto* kRoundInto, sum::Allocate* kAllocate>
void register_exact(torch::Library& m) {
  static constexpr Backend kBackend{kExactInto, kRoundInto, kAllocate};
  constexpr auto kSumExact = [](const at::Tensor& self, const sum::Request& request) {
    return sum_exact(self, request, kBackend);
  };
  constexpr auto kState = [](const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
    return exact_state(self, dims, keepdim, kBackend);
  };
  constexpr auto kRound = [](const at::Tensor& state, at::ScalarType dtype) {
    return exact_round(state, dtype, kBackend);
  };
  register_overloads<kSumExact, kState, kRound>(m);
}

}  // namespace reduce_ops::exact
