// Where the slots of a launch (slots.cuh) come from.

#pragma once

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAStream.h>

namespace reduce_ops::sum {

/// kSlotBytes of device memory, all zero, that no launch uses which can overlap one on `stream`: a set for each stream
/// and, since a replay can overlap eager work on the stream it was captured from, one for each stream of each
/// CUDA-graph capture, which lives as long as the graph. Two graphs instantiated from one capture share a set: they
/// must not run at the same time. Streams beyond the 129 that PyTorch has get one for each launch, zeroed by a memset.
/// For one launch: what is returned must live until that has been issued. `stream` must be the current one, also of
/// the current device.
c10::DataPtr slots_for(c10::cuda::CUDAStream stream);

}  // namespace reduce_ops::sum
