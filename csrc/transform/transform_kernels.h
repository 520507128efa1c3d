// Sums of formulas on a GPU: from where operands lie to a kernel of device/operands.cuh. Needs no GPU until one is
// launched. No PyTorch.

#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <functional>

#include "gpu.h"
#include "jit/kernel.h"
#include "transform/layout.h"
#include "transform/task.h"
#include "types.h"

namespace reduce_ops::transform {

struct Launch {
  const Task& task;
  int operands;
  const Layout& layout;
  std::array<const void*, kMaxInputs> data;
  std::array<Type, kMaxInputs> in;
  Type type;  // of Task::formula's values: float32, float64 or int64
  Type out;
  int64_t outputs;
  int64_t n;  // leaves of an output
  void* result;
  std::function<void*()> slots;  // kSlotBytes, all zero before and after
};

/// What becomes of a kernel that is ready to go, with its arguments.
using Start = std::function<cudaError_t(const jit::Key&, const std::function<jit::Name()>&, const jit::Geometry&,
                                        void** arguments)>;

/// Whether the rows of the only operand may stay in registers between two reductions (device/resident_rows.cuh).
bool has_resident_rows(const Launch& launch);

/// Launches variances of such rows, in one read. means: where these go, in l.type.
cudaError_t start_resident_rows(const Launch& launch, void* means, const Start& start);

/// Plans the launch for such a GPU, and starts it. Returns what that said, or cudaErrorInvalidConfiguration for more
/// than one launch covers.
cudaError_t start(const Launch& launch, const Gpu& gpu, const Start& start);

}  // namespace reduce_ops::transform
