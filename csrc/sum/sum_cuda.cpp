#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/ne.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "gpu.h"
#include "sum/plan_op.h"
#include "sum/problem.h"
#include "sum/slots_cuda.h"
#include "sum/steps.h"

namespace reduce_ops::sum {
namespace {

void copy(const at::Tensor& elements, const at::Tensor& result) {
  at::Tensor to = result;
  if (elements.scalar_type() == at::kBool) {
    at::ne_out(to, elements.view(at::kByte), 0);  // any byte but 0 is true
  } else {
    to.copy_(elements);
  }
}

/// Calls run(tensor, steps), the tensor without a lazy bit: the kernels know none. gpu: that is planned for; null: the
/// tensor's.
template <typename Run>
void with_steps(const at::Tensor& tensor, const Gpu* gpu, const Run& run) {
  const c10::cuda::CUDAGuard guard(tensor.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const auto launch_step = [stream](Launch& l) {
    const c10::DataPtr slots = l.plan.segments > 1 ? slots_for(stream) : c10::DataPtr();
    l.slots = slots.get();
    C10_CUDA_CHECK(launch(l, stream));
  };
  const bool lazy = tensor.is_conj() || tensor.is_neg();
  run(lazy ? tensor.resolve_conj().resolve_neg() : tensor,
      Steps{gpu != nullptr ? *gpu : current_gpu(), empty_cuda, copy, launch_step});
}

/// SumInto with the plan for such a GPU; null: the tensor's.
void sum_by(Operator op, const at::Tensor& tensor, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result,
            const Gpu* gpu) {
  with_steps(tensor, gpu, [&](const at::Tensor& self, const Steps& steps) {
    run_steps(op, self, reduced, accumulate, result, steps);
  });
}

}  // namespace

at::Tensor empty_cuda(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor& like) {
  return at::detail::empty_cuda(sizes, dtype, like.device(), std::nullopt);
}

void sum_cuda(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType accumulate,
              const at::Tensor& result) {
  sum_by(op, self, reduced, accumulate, result, nullptr);
}

at::Tensor sum_as_on(const at::Tensor& self, at::OptionalIntArrayRef dims, int64_t multiprocessors,
                     std::optional<int64_t> l2_bytes) {
  const Gpu gpu = checked_gpu("_sum_as_on", multiprocessors, l2_bytes);
  const auto sum_into = [&gpu](Operator op, const at::Tensor& x, DimSet reduced, at::ScalarType accumulate,
                               const at::Tensor& result) { sum_by(op, x, reduced, accumulate, result, &gpu); };
  return sum(self, {dims, false, std::nullopt}, sum_into, empty_cuda);
}

at::Tensor sum_with_plan(const at::Tensor& self, at::OptionalIntArrayRef dims, const std::string& plan,
                         int64_t multiprocessors, std::optional<int64_t> l2_bytes) {
  const Gpu gpu = checked_gpu("_sum_with_plan", multiprocessors, l2_bytes);
  const auto sum_into = [&](Operator op, const at::Tensor& x, DimSet reduced, at::ScalarType accumulate,
                            const at::Tensor& result) {
    with_steps(x, &gpu, [&](const at::Tensor& resolved, const Steps& steps) {
      Launch l{.op = op, .count = resolved.numel() / result.numel()};
      TORCH_CHECK(describe(op, resolved, reduced, accumulate, result, l.problem), "_sum_with_plan: self has more than ",
                  kMaxDims, " dimensions of a kind after merging");
      const std::vector<Plan> legal = candidates(l.problem, gpu);
      const auto given =
          std::find_if(legal.begin(), legal.end(), [&](const Plan& p) { return to_json(l.problem, p) == plan; });
      TORCH_CHECK(given != legal.end(), "_sum_with_plan: plan is ", plan, "; accepted are the ", legal.size(),
                  " of _plans(self, dim, multiprocessors=", gpu.multiprocessors, ", l2_bytes=", gpu.l2_bytes, ")");
      l.plan = *given;
      run_plan(resolved, accumulate, result, l, steps);
    });
  };
  return sum(self, {dims, false, std::nullopt}, sum_into, empty_cuda);
}

}  // namespace reduce_ops::sum
