// The kernels of all operators on CUDA.

#include <torch/library.h>

#include "exact/register.h"
#include "ladder/register.h"
#include "read/read_op.h"
#include "sum/register.h"

namespace reduce_ops {

TORCH_LIBRARY_IMPL(reduce, CUDA, m) {
  ladder::register_rungs<ladder::Backend<ladder::run_pass_cuda>>(m);
  sum::register_sum<sum::sum_cuda, sum::empty_cuda>(m);
  exact::register_exact<exact::exact_cuda, exact::round_cuda, sum::empty_cuda>(m);
  m.impl("_sum_as_on", &sum::sum_as_on);
  m.impl("_read", &read_cuda);
}

}  // namespace reduce_ops
