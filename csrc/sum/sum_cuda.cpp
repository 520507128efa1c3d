#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/ne.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

#include "sum/problem.h"
#include "sum/slots_cuda.h"
#include "sum/sum_kernels.h"
#include "sum/sum_op.h"
#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor& like) {
  return at::detail::empty_cuda(sizes, dtype, like.device(), std::nullopt);
}

/// The view of self in which each row of so many elements (row_across_memory) is a dimension of its own, the last one;
/// before it come the kept ones and those of an output's rows.
at::Tensor rows_of(const at::Tensor& self, const Problem& p, int64_t row) {
  std::vector<int64_t> sizes, strides;
  for (const Strides* s : {&p.kept, &p.reduced}) {
    for (int d = s->dims - 1; d >= 0; --d) {
      sizes.push_back(s->size[d].value);
      strides.push_back(s->stride[d]);
    }
  }
  sizes.back() /= row;
  strides.back() *= row;
  sizes.push_back(row);
  strides.push_back(p.reduced.stride[0]);
  return self.as_strided(sizes, strides);
}

/// Sums of one element each.
void copy(const at::Tensor& self, at::Tensor result) {
  const at::Tensor elements = self.view(result.sizes());
  if (self.scalar_type() == at::kBool) {
    at::ne_out(result, elements.view(at::kByte), 0);  // any byte but 0 is true
  } else {
    result.copy_(elements);
  }
}

/// SumInto with the plan for a GPU of `multiprocessors`; 0: of this one.
void sum_with_plan(const at::Tensor& tensor, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result,
                   int multiprocessors) {
  const c10::cuda::CUDAGuard guard(tensor.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  // The kernels know no conjugate or negative bit.
  at::Tensor self = tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;

  Launch l{};
  if (!describe(self, reduced, accumulate, result, l.problem)) {
    std::tie(self, reduced) = kept_first(self, reduced);
    TORCH_INTERNAL_ASSERT(describe(self, reduced, accumulate, result, l.problem));
  }
  if (is_copy(l.problem)) return copy(self, result);
  if (multiprocessors == 0) multiprocessors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  if (const int64_t row = row_across_memory(l.problem); row > 0) {
    const at::Tensor rows = rows_of(self, l.problem, row);
    const int64_t kept = l.problem.kept.dims, dims = rows.dim() - 1;
    const at::Tensor nodes = empty(rows.sizes().slice(0, dims), accumulate, self);
    sum_with_plan(rows, dims_from(dims), accumulate, nodes, multiprocessors);
    return sum_with_plan(nodes, dims_from(kept), accumulate, result, multiprocessors);
  }
  l.plan = make_plan(l.problem, multiprocessors);
  TORCH_CHECK(l.plan.segments > 0, "sum: self has ", l.problem.n, " elements for each of ", l.problem.outputs,
              " results, more than one launch covers");
  l.in = type_of(self.scalar_type());
  l.accumulate = type_of(accumulate);
  l.out = type_of(result.scalar_type());
  l.data = self.const_data_ptr();
  const c10::DataPtr slots = l.plan.segments > 1 ? slots_for(stream) : c10::DataPtr();
  l.slots = slots.get();
  if (l.plan.window == 0) {
    l.result = result.mutable_data_ptr();
    C10_CUDA_CHECK(launch(l, stream));
    return;
  }
  const at::Tensor nodes = empty({l.problem.outputs, nodes_of(l.problem, l.plan.window)}, accumulate, self);
  l.result = nodes.mutable_data_ptr();
  C10_CUDA_CHECK(launch(l, stream));
  sum_with_plan(nodes, dims_from(1), accumulate, result, multiprocessors);
}

void sum_cuda(const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result) {
  sum_with_plan(self, reduced, accumulate, result, 0);
}

/// For tests of what no plan may change: the sum by the plan for another GPU.
at::Tensor sum_as_on(const at::Tensor& self, at::OptionalIntArrayRef dims, int64_t multiprocessors) {
  TORCH_CHECK(multiprocessors > 0, "_sum_as_on: multiprocessors is ", multiprocessors, "; accepted are numbers from 1");
  const auto sum_into = [multiprocessors](const at::Tensor& x, DimSet reduced, at::ScalarType accumulate,
                                          const at::Tensor& result) {
    sum_with_plan(x, reduced, accumulate, result, static_cast<int>(multiprocessors));
  };
  return sum(self, {dims, false, std::nullopt}, sum_into, empty);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, CUDA, m) {
  register_sum<sum_cuda, empty>(m);
  m.impl("_sum_as_on", &sum_as_on);
}

}  // namespace reduce_ops::sum
