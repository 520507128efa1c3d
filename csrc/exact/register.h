// How backends register the operators of exact_op.h.

#pragma once

#include <torch/library.h>

#include "exact/exact_op.h"
#include "sum/overloads.h"

namespace reduce_ops::exact {

/// Registers all overloads for one dispatch key. Ops has reduce(self, request), norm_out(self, request, out),
/// state(self, dims, keepdim, of) and round(state, dtype, count, root).
template <typename Ops>
void register_overloads(torch::Library& m) {
  struct Reduction {
    static at::Tensor run(c10::DispatchKeySet, const at::Tensor& self, const sum::Request& request) {
      return Ops::reduce(self, request);
    }
  };
  sum::register_operator<sum::kSumExact, Reduction>(m);
  sum::register_operator<sum::kMeanExact, Reduction>(m);
  struct Norm : Reduction {
    static at::Tensor& run_out(c10::DispatchKeySet, const at::Tensor& self, const sum::Request& request,
                               at::Tensor& out) {
      return Ops::norm_out(self, request, out);
    }
  };
  sum::register_operator<sum::kVectorNormExact, Norm>(m);
  m.impl("exact_state", +[](const at::Tensor& self) { return Ops::state(self, std::nullopt, false, "elements"); });
  m.impl("exact_state.dim_IntList", &Ops::state);
  m.impl("exact_round", &Ops::round);
}

/// What a backend that has data registers.
template <ExactInto* kExactInto, RoundInto* kRoundInto, sum::Allocate* kAllocate>
struct Ops {
  static constexpr Backend kBackend{kExactInto, kRoundInto, kAllocate};

  static at::Tensor reduce(const at::Tensor& self, const sum::Request& request) {
    return reduce_exact(self, request, kBackend);
  }
  static at::Tensor& norm_out(const at::Tensor& self, const sum::Request& request, at::Tensor& out) {
    return norm_exact_out(self, request, out, kBackend);
  }
  static at::Tensor state(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::string_view of) {
    return exact_state(self, dims, keepdim, term_of(self, of), kBackend);
  }
  static at::Tensor round(const at::Tensor& state, at::ScalarType dtype, int64_t count, bool root) {
    return exact_round(state, dtype, count, root, kBackend);
  }
};

}  // namespace reduce_ops::exact
