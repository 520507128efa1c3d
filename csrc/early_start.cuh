// Kernels whose blocks start while the kernel ahead of them on the stream still ends: programmatic dependent launch.
//
// A kernel starts when the one ahead has ended and its writes are in memory. Launched by launch_early its blocks start
// as soon as the last block ahead has exited, and wait for those writes themselves: 2.6 us instead of 3.8 for an add_
// of one element and the sum of 1024, 11.4 instead of 12.6 for a mul_ and the sum of 2^22, and 0.6 us less of the
// host's time for each launch (H200). No kernel lets the one behind it start any earlier: that gained nothing, and
// blocks that wait hold places that other streams could use.
//
// In a captured graph it pays only between two of these kernels (1.05 us instead of 1.66 for each of many sums of 64
// elements); behind a kernel of others it costs up to 0.6 us (2.86 became 3.50 with an add_). So it is not used there.

#pragma once

#include <cuda_runtime.h>

#include <utility>

namespace reduce_ops {

/// Before a kernel does anything with global memory: waits until the kernel ahead on the stream has ended and what it
/// wrote is there. Every thread calls it: a kernel that ends without could be overtaken by the one behind it.
__device__ inline void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Whether `kernel` may start early on `stream`: on Hopper, where it was measured, unless a graph is captured. Code for
/// older GPUs, which the driver would translate, has no wait_for_stream(); all kernels are built for the same ones.
template <typename... Parameters>
bool may_start_early(void (*kernel)(Parameters...), cudaStream_t stream) {
  int device = 0, major = 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess || major != 9 ||
      cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone) {
    return false;
  }
  static const bool waits = [kernel] {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
  }();
  return waits;
}

/// kernel<<<grid, block, bytes, stream>>>(arguments...), started early where it may be. The kernel calls
/// wait_for_stream().
template <typename... Parameters, typename... Arguments>
cudaError_t launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t bytes, cudaStream_t stream,
                         Arguments&&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = may_start_early(kernel, stream) ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace reduce_ops
