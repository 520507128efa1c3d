// How kernels call the operators of several tensors, so that the keys below their own see the call too.

#pragma once

#include <ATen/core/IListRef.h>
#include <c10/core/Scalar.h>

#include <tuple>

#include "dispatch.h"
#include "transform/transform_op.h"

namespace reduce_ops::transform {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;
using Correction = std::optional<at::Scalar>;
using Pair = std::tuple<at::Tensor, at::Tensor>;

inline const auto& transform_sum_handle() {
  static const auto op =
      find_operator<at::Tensor(at::TensorList, c10::string_view, Dims, bool, Dtype)>("transform_sum");
  return op;
}

inline const auto& var_mean_handle() {
  static const auto op = find_operator<Pair(const at::Tensor&, Dims, const Correction&, bool, bool)>("_var_mean");
  return op;
}

}  // namespace reduce_ops::transform
