// How backends register the operators of sum_op.h. A header of its own: torch/library.h takes a compiler longer than
// all else that these files see.

#pragma once

#include <torch/library.h>

#include <string>

#include "sum/sum_op.h"

namespace reduce_ops::sum {

/// Registers the overloads of an operator for one dispatch key. kReduce and kReduceOut take (self, request[, out]).
template <Operator kOp, auto kReduce, auto kReduceOut>
void register_overloads(torch::Library& m) {
  using Dtype = std::optional<at::ScalarType>;
  using Dims = at::OptionalIntArrayRef;
  const std::string name = name_of(kOp);
  m.impl(
      name.c_str(),
      +[](const at::Tensor& self, Dtype dtype) { return kReduce(self, {std::nullopt, false, dtype, kOp}); });
  m.impl((name + ".out").c_str(), +[](const at::Tensor& self, Dtype dtype, at::Tensor& out) -> at::Tensor& {
    return kReduceOut(self, {std::nullopt, false, dtype, kOp}, out);
  });
  m.impl((name + ".dim_IntList").c_str(), +[](const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
    return kReduce(self, {dims, keepdim, dtype, kOp});
  });
  m.impl((name + ".IntList_out").c_str(),
         +[](const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype, at::Tensor& out) -> at::Tensor& {
           return kReduceOut(self, {dims, keepdim, dtype, kOp}, out);
         });
}

template <auto kReduce, auto kReduceOut>
void register_all(torch::Library& m) {
  register_overloads<Operator::sum, kReduce, kReduceOut>(m);
  register_overloads<Operator::mean, kReduce, kReduceOut>(m);
}

/// The same for a backend that has data.
template <SumInto* kSumInto, Allocate* kAllocate>
void register_sums(torch::Library& m) {
  constexpr auto kSum = [](const at::Tensor& self, const Request& request) {
    return sum(self, request, kSumInto, kAllocate);
  };
  constexpr auto kSumOut = [](const at::Tensor& self, const Request& request, at::Tensor& out) -> at::Tensor& {
    return sum_out(self, request, out, kSumInto, kAllocate);
  };
  register_all<kSum, kSumOut>(m);
}

}  // namespace reduce_ops::sum
