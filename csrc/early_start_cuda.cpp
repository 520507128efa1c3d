#include <cuda.h>

#include <stdexcept>

#include "early_start.h"

namespace reduce_ops {
namespace {

/// The end of a stream that a graph is captured from.
struct CapturedEnd {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long capture = 0;  // no two have the same
  cudaGraphNode_t node = nullptr;  // what the next node will depend on, if that is a single one

  static CapturedEnd of(cudaStream_t stream) {
    CapturedEnd end;
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;  // asked for, or an edge that is not as usual would be an error
    size_t count = 0;
    if (cudaStreamGetCaptureInfo(stream, &end.status, &end.capture, nullptr, &nodes, &edges, &count) != cudaSuccess) {
      end.status = cudaStreamCaptureStatusInvalidated;
      cudaGetLastError();  // it is the launch's to say
    }
    if (end.status != cudaStreamCaptureStatusActive || count != 1) return end;
    const bool as_usual = edges == nullptr || (edges->type == cudaGraphDependencyTypeDefault && edges->from_port == 0);
    if (as_usual) end.node = *nodes;
    return end;
  }
};

/// Behind the kernel that this thread's launch_early captured last.
thread_local CapturedEnd last_captured;

/// In a graph, only behind another of these kernels (device/early_start.cuh says what it costs elsewhere).
bool may_start_early(const CapturedEnd& end) {
  if (end.status == cudaStreamCaptureStatusNone) return true;
  return end.node != nullptr && end.node == last_captured.node && end.capture == last_captured.capture;
}

/// The driver's own launch: the runtime's looks the kernel up first.
decltype(&cuLaunchKernelEx) driver_launch() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuLaunchKernelEx", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    throw std::runtime_error(
        "reduce_ops: this CUDA driver has no cuLaunchKernelEx; accepted are those of CUDA 12 or newer");
  }
  return reinterpret_cast<decltype(&cuLaunchKernelEx)>(function);
}

}  // namespace

cudaError_t launch_early(const void* kernel, bool starts_early, const jit::Geometry& geometry, cudaStream_t stream,
                         void** arguments) {
  static const auto launch_kernel = driver_launch();
  const CapturedEnd end = starts_early ? CapturedEnd::of(stream) : CapturedEnd();
  CUlaunchAttribute early{};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config{.gridDimX = geometry.grid.x,
                              .gridDimY = geometry.grid.y,
                              .gridDimZ = geometry.grid.z,
                              .blockDimX = geometry.block.x,
                              .blockDimY = geometry.block.y,
                              .blockDimZ = geometry.block.z,
                              .sharedMemBytes = static_cast<unsigned>(geometry.shared_bytes),
                              .hStream = stream,
                              .attrs = &early,
                              .numAttrs = starts_early && may_start_early(end) ? 1u : 0u};
  const auto function = reinterpret_cast<CUfunction>(const_cast<void*>(kernel));
  CUresult result = launch_kernel(&config, function, arguments, nullptr);
  if (result == CUDA_ERROR_INVALID_CONTEXT) {  // a thread that has not called the runtime yet
    cudaFree(nullptr);
    result = launch_kernel(&config, function, arguments, nullptr);
  }
  if (result == CUDA_SUCCESS && end.status == cudaStreamCaptureStatusActive) last_captured = CapturedEnd::of(stream);
  return static_cast<cudaError_t>(result);  // whose numbers are the driver's
}

}  // namespace reduce_ops
