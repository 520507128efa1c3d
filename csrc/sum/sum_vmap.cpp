// A batch of sums is a sum along dimensions: the order of each result is that of its own elements, so the bits are
// those of one call for each sample.

#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include "batching.h"
#include "dispatch.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;

at::Tensor sum_dims(const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>("sum", "dim_IntList");
  return batched(self, [&](const at::Tensor& batch) {
    const int64_t rank = batch.dim() - 1;  // of a sample
    at::DimVector shifted;
    if (dims && !dims->empty()) {
      for (const int64_t d : *dims) shifted.push_back(at::maybe_wrap_dim(d, rank) + 1);
    } else {
      for (int64_t d = 1; d <= rank; ++d) shifted.push_back(d);
    }
    if (rank == 0) return op.call(batch.unsqueeze(1), at::IntArrayRef{1}, false, dtype);  // samples of one element
    return op.call(batch, at::IntArrayRef(shifted), keepdim, dtype);
  });
}

at::Tensor sum_all(const at::Tensor& self, Dtype dtype) { return sum_dims(self, std::nullopt, false, dtype); }

}  // namespace

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("sum", TORCH_FN(sum_all));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dims));
}

}  // namespace reduce_ops::sum
