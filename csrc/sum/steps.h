// A sum on a GPU, in as many launches as its plan takes: one, or a second one that sums what the first one left. Needs
// no GPU until one is launched.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include "sum/sum_kernels.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {

/// What is to be done at each step.
struct Steps {
  const Gpu& gpu;  // that is planned for
  c10::function_ref<Allocate> empty;
  /// Sums of one element each: the elements of the first into the second.
  c10::function_ref<void(const at::Tensor&, const at::Tensor&)> copy;
  c10::function_ref<void(Launch&)> launch;  // which has no slots yet
};

/// SumInto in steps. self: neither conjugated nor negated.
void run_steps(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result,
               const Steps& steps);

/// The last part of that: by l.plan, a plan of l.problem, which is that of self; l.op and l.count are set, too.
void run_plan(const at::Tensor& self, at::ScalarType accumulate, const at::Tensor& result, Launch& l,
              const Steps& steps);

}  // namespace reduce_ops::sum
