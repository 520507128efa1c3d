// The door between PyTorch and the kernels of the sums: pointers, counts, strides and a stream.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "jit/kernel.h"
#include "plan/plan.h"
#include "sum/instance.h"
#include "types.h"

namespace reduce_ops::sum {

/// One sum, or what else the operator says.
struct Launch {
  Type in;
  Type accumulate;
  Type out;  // `accumulate`, or float16 or bfloat16: `in`, or that of an earlier launch
  Operator op = Operator::sum;
  int64_t count;  // of the elements of an output
  const void* data;
  Problem problem;
  Plan plan;
  void* slots;   // kSlotBytes, all zero before and after; unused for one segment
  void* result;  // of a plan with windows: the nodes of each output, in `accumulate`
};

/// What becomes of a kernel that is ready to go, with its arguments.
using Start = std::function<cudaError_t(const Instance&, const jit::Geometry&, void** arguments)>;

/// Finds the kernel of the plan, fills in its arguments, and starts it. Returns what that said, or
/// cudaErrorInvalidConfiguration for a plan that CUDA has no grid for.
cudaError_t start(const Launch& launch, const Start& start);

/// Launches the plan on `stream` of the current device and returns what the launch said.
cudaError_t launch(const Launch& launch, cudaStream_t stream);

}  // namespace reduce_ops::sum
