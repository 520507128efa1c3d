#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "exact/exact_kernels.h"
#include "exact/exact_op.h"
#include "sum/slots_cuda.h"
#include "sum/strides.h"
#include "sum_dtypes.h"

namespace reduce_ops::exact {
namespace {

/// Returns false if dimensions merge to more than kernels take.
bool describe(const at::Tensor& self, DimSet reduced, int64_t outputs, Problem& p) {
  sum::Strides kept;
  if (!sum::collapse(self.sizes(), self.strides(), [&](int64_t d) { return !reduced[d]; }, kept)) return false;
  sum::order_by_stride(kept, p.kept, p.places);
  // Any order of the elements will do, so they come as they lie in memory.
  at::DimVector order;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (reduced[d]) order.push_back(d);
  }
  // Those of stride 0, which read the same elements again, come outermost.
  const auto key = [&self](int64_t d) { return static_cast<uint64_t>(self.stride(d)) - 1; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key(a) > key(b); });
  at::DimVector sizes, strides;
  for (const int64_t d : order) {
    sizes.push_back(self.size(d));
    strides.push_back(self.stride(d));
  }
  if (!sum::collapse(sizes, strides, [](int64_t) { return true; }, p.reduced)) return false;
  p.outputs = outputs;
  p.n = self.numel() / outputs;
  return true;
}

}  // namespace

void exact_cuda(const at::Tensor& tensor, DimSet reduced, Term term, const at::Tensor& result, Finish finish) {
  const c10::cuda::CUDAGuard guard(tensor.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  at::Tensor self = tensor;
  if (finish.divisor > 1 || finish.root) {  // as only exact_round does
    const at::Tensor states = sum::empty_cuda({result.numel(), words_of(self.scalar_type(), term)}, at::kLong, self);
    exact_cuda(self, reduced, term, states, {Rounding::nearest});
    return round_cuda(states, result, finish);
  }
  const int64_t outputs = result.scalar_type() == at::kLong ? result.numel() / result.size(-1) : result.numel();
  Launch l{};
  if (!describe(self, reduced, outputs, l.problem)) {
    std::tie(self, reduced) = sum::kept_first(self, reduced);
    TORCH_INTERNAL_ASSERT(describe(self, reduced, outputs, l.problem));
  }
  l.gpu = current_gpu();
  l.in = type_of(self.scalar_type());
  l.term = term;
  l.plan = make_plan(l.problem, l.terms(), l.gpu);
  TORCH_CHECK(
      l.plan.segments > 0, "exact sum: self has ", l.problem.n, " elements for each of ", outputs,
      " results, more than one launch covers; accepted are, in all, up to 2^36 of float32, more of other dtypes");
  l.data = self.const_data_ptr();
  l.result = {result.mutable_data_ptr(), type_of(result.scalar_type()), finish};
  const c10::DataPtr slots = l.plan.segments > 1 ? sum::slots_for(stream) : c10::DataPtr();
  l.slots = slots.get();
  C10_CUDA_CHECK(launch(l, stream));
}

void round_cuda(const at::Tensor& states, const at::Tensor& result, Finish finish) {
  const c10::cuda::CUDAGuard guard(states.device());
  C10_CUDA_CHECK(launch_round(states.const_data_ptr<int64_t>(), static_cast<int>(states.size(-1)), result.numel(),
                              {result.mutable_data_ptr(), type_of(result.scalar_type()), finish},
                              c10::cuda::getCurrentCUDAStream()));
}

}  // namespace reduce_ops::exact
