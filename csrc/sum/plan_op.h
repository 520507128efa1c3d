// Plans as text, and sums by plans that are given so.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace reduce_ops::sum {

/// Of a private operator `op`, if it is one that a GPU could have.
int checked_multiprocessors(const char* op, int64_t multiprocessors);

/// A JSON object.
std::string to_json(const Problem& problem, const Plan& plan);

/// For tests of what no plan may change: the sum by the plan for another GPU.
at::Tensor sum_as_on(const at::Tensor& self, at::OptionalIntArrayRef dims, int64_t multiprocessors);

/// The sum by a plan: the text, byte for byte, of one of _plans(self, dims), which are the legal ones.
at::Tensor sum_with_plan(const at::Tensor& self, at::OptionalIntArrayRef dims, const std::string& plan,
                         int64_t multiprocessors);

}  // namespace reduce_ops::sum
