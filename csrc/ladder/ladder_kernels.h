// The door between PyTorch and the rungs' kernels: pointers, counts and a stream. No PyTorch on this side of it.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ladder/schedule.h"
#include "types.h"

namespace reduce_ops::ladder {

/// One launch of a rung: a[0..n), n > 0, into grid.blocks sums.
struct Pass {
  Grid grid;
  const void* a;
  int64_t n;
  Type a_type;
  void* sums;
  Type sums_type;
};

/// Launches rung vN on `stream` of the current device and returns what the launch said. (a_type, sums_type) must be
/// a pair of types.def, grid.threads one of the rung's block sizes; otherwise cudaErrorInvalidValue.
cudaError_t launch(int version, const Pass& pass, cudaStream_t stream);

/// The rungs as nvcc compiled them when the package was built (ladder_kernels.cu), where there was a CUDA toolkit.
/// Where there was none they are compiled when they are first needed, like all other kernels, to the same bits.
using LaunchRung = cudaError_t (*)(int version, const Pass& pass, cudaStream_t stream);
bool set_compiled(LaunchRung launch);

/// For tests of that: from now on every rung is compiled when it is needed. Returns whether it would have been anyway.
bool use_engine(bool always);

}  // namespace reduce_ops::ladder
