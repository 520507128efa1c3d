// From a tensor to the problem that a plan is made for. Needs no GPU.

#pragma once

#include <ATen/core/Tensor.h>

#include "plan/plan.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {

/// Describes the reduction of self over `reduced`, as SumInto has it. Returns false if dimensions merge to more than
/// kMaxDims.
bool describe(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result,
              Problem& p);

}  // namespace reduce_ops::sum
