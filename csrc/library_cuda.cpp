// The kernels of all operators on CUDA.

#include <torch/library.h>

#include "exact/register.h"
#include "jit/compiler.h"
#include "jit/jit_op.h"
#include "jit/kernel.h"
#include "ladder/ladder_kernels.h"
#include "ladder/register.h"
#include "read/read_op.h"
#include "sum/overloads.h"
#include "sum/plan_op.h"
#include "transform/register.h"

namespace reduce_ops {

TORCH_LIBRARY_IMPL(reduce, CUDA, m) {
  ladder::register_rungs<ladder::Backend<ladder::run_pass_cuda>>(m);
  sum::register_operators<sum::Backend<sum::sum_cuda, sum::empty_cuda>::Kernel>(m);
  transform::register_backend<transform::transform_cuda, sum::sum_cuda, sum::empty_cuda, transform::variance_cuda>(m);
  exact::register_overloads<exact::Ops<exact::exact_cuda, exact::round_cuda, sum::empty_cuda>>(m);
  m.impl("_sum_as_on", &sum::sum_as_on);
  m.impl("_sum_with_plan", &sum::sum_with_plan);
  m.impl("_read", &read_cuda);
}

TORCH_LIBRARY_IMPL(reduce, CompositeExplicitAutograd, m) {
  m.impl("_kernels", &jit::kernels);
  m.impl("_transform_kernels", &jit::transform_kernels);
  m.impl("_exact_kernels", &jit::exact_kernels);
  m.impl("_compile", &jit::compile_op);
  m.impl("_find_kernel", &jit::find_op);
  m.impl("_compiler", [] { return jit::compiler_version(); });
  m.impl("_cache_folder", [] { return jit::cache_folder(); });
  m.impl("_sources", &jit::sources);
  m.impl("_kernel_counts", &jit::counts_op);
  m.impl("_ladder_engine", [](bool always) { return ladder::use_engine(always); });
}

}  // namespace reduce_ops
