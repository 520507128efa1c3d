// The host's half of device/early_start.cuh: whether a kernel may start while the one ahead of it ends.

#pragma once

#include <cuda_runtime_api.h>

#include "jit/kernel.h"

namespace reduce_ops {

/// Launches a kernel. starts_early: whether it may start before the one ahead has ended, as it waits for that itself.
cudaError_t launch_early(const void* kernel, bool starts_early, const jit::Geometry& geometry, cudaStream_t stream,
                         void** arguments);

}  // namespace reduce_ops
