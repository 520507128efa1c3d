#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "ladder/ladder_kernels.h"
#include "ladder/ladder_op.h"

namespace reduce_ops::ladder {
namespace {

Type type_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kHalf:
      return Type::float16;
    case at::kBFloat16:
      return Type::bfloat16;
    case at::kFloat:
      return Type::float32;
    case at::kDouble:
      return Type::float64;
    case at::kInt:
      return Type::int32;
    case at::kLong:
      return Type::int64;
    case at::kComplexFloat:
      return Type::complex64;
    case at::kComplexDouble:
      return Type::complex128;
    default:
      TORCH_INTERNAL_ASSERT(false, "no rung reads or writes ", t.scalar_type());
  }
}

/// Enqueues the pass on the current stream. Block sums live in PyTorch's allocator, whose reuse follows the stream,
/// so they may go out of scope before the next pass has run.
void run_pass(const Rung& rung, const Grid& grid, const at::Tensor& a, const at::Tensor& sums) {
  const c10::cuda::CUDAGuard guard(a.device());
  const Pass pass{grid, a.const_data_ptr(), a.numel(), type_of(a), sums.mutable_data_ptr(), type_of(sums)};
  C10_CUDA_CHECK(launch(rung.number, pass, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, CUDA, m) { register_rungs<Backend<run_pass>>(m); }

}  // namespace reduce_ops::ladder
