#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "gpu.h"
#include "sum/slots_cuda.h"
#include "transform/launch_of.h"
#include "transform/transform_op.h"

namespace reduce_ops::transform {

namespace {

cudaError_t launch(const jit::Key& key, const std::function<jit::Name()>& name, const jit::Geometry& geometry,
                   void** arguments) {
  static auto* const table = new jit::Table(/*waits=*/true);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  return jit::launch(table->get(key, name), geometry, {sum::kCounterBytes}, stream, arguments);
}

}  // namespace

/// TransformInto for a GPU, in one launch.
void transform_cuda(const Task& task, at::TensorList tensors, sum::DimSet reduced, at::ScalarType type,
                    const at::Tensor& result) {
  const c10::cuda::CUDAGuard guard(result.device());
  const Described described(tensors, reduced);
  c10::DataPtr slots;
  Launch l = launch_of(task, described, type, result);
  l.slots = [&] {
    slots = sum::slots_for(c10::cuda::getCurrentCUDAStream());
    return slots.get();
  };
  const cudaError_t error = start(l, current_gpu(), launch);
  TORCH_CHECK(error != cudaErrorInvalidConfiguration, sum::name_of(task.op), ": there are ", l.n,
              " elements for each of ", l.outputs, " results, more than one launch covers");
  C10_CUDA_CHECK(error);
}

/// VarianceInto for a GPU: of rows that stay in registers.
at::Tensor variance_cuda(const Task& task, const at::Tensor& self, sum::DimSet reduced, at::ScalarType type,
                         const at::Tensor& result) {
  const c10::cuda::CUDAGuard guard(result.device());
  const Described described(self, reduced);
  const Launch l = launch_of(task, described, type, result);
  if (!has_resident_rows(l)) return {};
  at::Tensor means = sum::empty_cuda(result.sizes(), type, self);
  C10_CUDA_CHECK(start_resident_rows(l, means.mutable_data_ptr(), launch));
  return means;
}

}  // namespace reduce_ops::transform
