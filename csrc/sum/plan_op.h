// Plans as text, and sums by plans that are given so.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>

#include "plan/plan.h"

namespace reduce_ops::sum {

/// The GPU that a private operator `op` plans for, of so many multiprocessors and of so much L2, or as much as gpu_of
/// has.
Gpu checked_gpu(const char* op, int64_t multiprocessors, std::optional<int64_t> l2_bytes);

/// A JSON object.
std::string to_json(const Problem& problem, const Plan& plan);

/// For tests of what no plan may change: the sum by the plan for another GPU.
at::Tensor sum_as_on(const at::Tensor& self, at::OptionalIntArrayRef dims, int64_t multiprocessors,
                     std::optional<int64_t> l2_bytes);

/// The sum by a plan: the text, byte for byte, of one of _plans(self, dims), which are the legal ones.
at::Tensor sum_with_plan(const at::Tensor& self, at::OptionalIntArrayRef dims, const std::string& plan,
                         int64_t multiprocessors, std::optional<int64_t> l2_bytes);

}  // namespace reduce_ops::sum
