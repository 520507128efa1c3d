// Registers the operators of several tensors for a backend that has data.

#pragma once

#include <torch/library.h>

#include "transform/calls.h"

namespace reduce_ops::transform {

template <TransformInto* kInto, sum::SumInto* kSumInto, sum::Allocate* kAllocate, VarianceInto* kVarianceInto>
void register_backend(torch::Library& m) {
  m.impl("transform_sum", [](at::TensorList tensors, c10::string_view formula, Dims dims, bool keepdim, Dtype dtype) {
    return transform_sum(tensors, {{formula.data(), formula.size()}, dims, keepdim, dtype}, kInto, kAllocate);
  });
  m.impl("_var_mean", [](const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim, bool root) {
    return var_mean(self, dims, correction, keepdim, root, {kInto, kSumInto, kAllocate, kVarianceInto});
  });
}

}  // namespace reduce_ops::transform
