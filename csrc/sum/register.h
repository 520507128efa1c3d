// How backends register the operators of sum_op.h. A header of its own: torch/library.h takes a compiler longer than
// all else that these files see.

#pragma once

#include <torch/library.h>

#include "sum/sum_op.h"

namespace reduce_ops::sum {

/// Registers the overloads of sum for one dispatch key. kSum and kSumOut take (self, request[, out]).
template <auto kSum, auto kSumOut>
void register_overloads(torch::Library& m) {
  using Dtype = std::optional<at::ScalarType>;
  using Dims = at::OptionalIntArrayRef;
  m.impl("sum", +[](const at::Tensor& self, Dtype dtype) { return kSum(self, {std::nullopt, false, dtype}); });
  m.impl(
      "sum.out", +[](const at::Tensor& self, Dtype dtype, at::Tensor& out) -> at::Tensor& {
        return kSumOut(self, {std::nullopt, false, dtype}, out);
      });
  m.impl(
      "sum.dim_IntList",
      +[](const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) { return kSum(self, {dims, keepdim, dtype}); });
  m.impl(
      "sum.IntList_out",
      +[](const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype, at::Tensor& out) -> at::Tensor& {
        return kSumOut(self, {dims, keepdim, dtype}, out);
      });
}

/// The same for a backend that has data.
template <SumInto* kSumInto, Allocate* kAllocate>
void register_sum(torch::Library& m) {
  constexpr auto kSum = [](const at::Tensor& self, const Request& request) {
    return sum(self, request, kSumInto, kAllocate);
  };
  constexpr auto kSumOut = [](const at::Tensor& self, const Request& request, at::Tensor& out) -> at::Tensor& {
    return sum_out(self, request, out, kSumInto, kAllocate);
  };
  register_overloads<kSum, kSumOut>(m);
}

}  // namespace reduce_ops::sum
