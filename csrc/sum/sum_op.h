// What `reduce::sum` does on every backend: check arguments, settle dtypes, hand over to the backend.

#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <optional>

namespace reduce_ops::sum {

/// Sums all elements of self, of which there is at least one, in the canonical order into result (0-dim, allocated, on
/// the device of self). The dtype of result is `accumulate`, or that of self where that is float16 or bfloat16.
using SumInto = void (*)(const at::Tensor& self, at::ScalarType accumulate, const at::Tensor& result);

at::Tensor sum(const at::Tensor& self, std::optional<at::ScalarType> dtype, SumInto sum_into);
at::Tensor& sum_out(const at::Tensor& self, std::optional<at::ScalarType> dtype, at::Tensor& out, SumInto sum_into);

/// For backends that have no data, only dtypes.
at::ScalarType result_dtype(const at::Tensor& self, std::optional<at::ScalarType> dtype);
void check_out(const at::Tensor& self, at::ScalarType result, const at::Tensor& out);

/// Registers sum and sum.out for one dispatch key.
template <SumInto kSumInto>
void register_sum(torch::Library& m) {
  m.impl(
      "sum", +[](const at::Tensor& self, std::optional<at::ScalarType> dtype) { return sum(self, dtype, kSumInto); });
  m.impl(
      "sum.out", +[](const at::Tensor& self, std::optional<at::ScalarType> dtype, at::Tensor& out) -> at::Tensor& {
        return sum_out(self, dtype, out, kSumInto);
      });
}

}  // namespace reduce_ops::sum
