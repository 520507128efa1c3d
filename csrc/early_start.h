// The host's half of device/early_start.cuh: whether a kernel may start while the one ahead of it ends.

#pragma once

#include <cuda_runtime_api.h>

#include "jit/kernel.h"

namespace reduce_ops {

/// Launches a kernel, started early where it may be. waits: whether it is compiled for a GPU on which it calls
/// wait_for_stream().
cudaError_t launch_early(const void* kernel, bool waits, const jit::Geometry& geometry, cudaStream_t stream,
                         void** arguments);

}  // namespace reduce_ops
