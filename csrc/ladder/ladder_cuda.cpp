#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "ladder/ladder_kernels.h"
#include "ladder/ladder_op.h"
#include "sum_dtypes.h"

namespace reduce_ops::ladder {

/// Enqueues the pass on the current stream. Block sums live in PyTorch's allocator, whose reuse follows the stream,
/// so they may go out of scope before the next pass has run.
void run_pass_cuda(const Rung& rung, const Grid& grid, const at::Tensor& a, const at::Tensor& sums) {
  const c10::cuda::CUDAGuard guard(a.device());
  const Pass pass{grid,
                  a.const_data_ptr(),
                  a.numel(),
                  type_of(a.scalar_type()),
                  sums.mutable_data_ptr(),
                  type_of(sums.scalar_type())};
  C10_CUDA_CHECK(launch(rung.number, pass, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace reduce_ops::ladder
