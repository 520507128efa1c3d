#include "sum/problem.h"

#include <c10/core/ScalarType.h>

#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

Kernels kernels_for(at::ScalarType in, at::ScalarType out) {
  const bool rounds_last = in == at::kHalf || in == at::kBFloat16;  // and so may leave it
  if (out != reduce_ops::result_dtype(in) && !(rounds_last && out == at::kFloat)) return Kernels::few;
  switch (in) {
    case at::kUInt16:
    case at::kUInt32:
      return Kernels::few;
    case at::kShort:
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
    case at::kComplexDouble:
      return Kernels::rows;
    default:
      return Kernels::every;
  }
}

}  // namespace

bool describe(const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result, Problem& p) {
  const auto is_reduced = [reduced](int64_t d) { return has(reduced, d); };
  const auto is_kept = [reduced](int64_t d) { return !has(reduced, d); };
  if (!collapse(self.sizes(), self.strides(), is_reduced, p.reduced)) return false;
  if (!collapse(self.sizes(), self.strides(), is_kept, p.kept)) return false;
  p.ordered = !c10::isIntegralType(accumulate, /*includeBool=*/true);
  if (!p.ordered) p.reduced = in_order_of_memory(p.reduced);
  order_by_stride(p.kept, p.columns, p.places);
  p.rows = in_order_of_memory(p.kept);
  p.outputs = result.numel();
  p.n = self.numel() / p.outputs;
  p.element_size = static_cast<int>(self.element_size());
  p.accumulate_size = static_cast<int>(c10::elementSize(accumulate));
  p.misalignment = static_cast<int>(reinterpret_cast<uintptr_t>(self.const_data_ptr()) % 16);
  p.result_aligned = reinterpret_cast<uintptr_t>(result.const_data_ptr()) % 16 == 0;
  p.kernels = kernels_for(self.scalar_type(), result.scalar_type());
  return true;
}

}  // namespace reduce_ops::sum
