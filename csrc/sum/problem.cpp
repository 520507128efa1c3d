#include "sum/problem.h"

#include <c10/core/ScalarType.h>

namespace reduce_ops::sum {

bool describe(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result,
              Problem& p) {
  const auto is_reduced = [reduced](int64_t d) { return has(reduced, d); };
  const auto is_kept = [reduced](int64_t d) { return !has(reduced, d); };
  if (!collapse(self.sizes(), self.strides(), is_reduced, p.reduced)) return false;
  if (!collapse(self.sizes(), self.strides(), is_kept, p.kept)) return false;
  p.ordered = op != Operator::sum || !c10::isIntegralType(accumulate, /*includeBool=*/true);
  if (!p.ordered || has_no_order(op)) p.reduced = in_order_of_memory(p.reduced);
  order_by_stride(p.kept, p.columns, p.places);
  p.rows = in_order_of_memory(p.kept);
  p.outputs = result.numel();
  p.n = self.numel() / p.outputs;
  p.element_size = static_cast<int>(self.element_size());
  p.accumulate_size = static_cast<int>(c10::elementSize(accumulate));
  p.misalignment = static_cast<int>(reinterpret_cast<uintptr_t>(self.const_data_ptr()) % 16);
  p.result_aligned = reinterpret_cast<uintptr_t>(result.const_data_ptr()) % 16 == 0;
  return true;
}

}  // namespace reduce_ops::sum
