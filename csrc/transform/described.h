// From tensors to where they lie.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <vector>

#include "sum/sum_op.h"
#include "transform/layout.h"

namespace reduce_ops::transform {

/// Inputs and where they lie. Those of more dimensions than kMaxDims, after merging, are copied.
class Described {
 public:
  Described(at::TensorList inputs, sum::DimSet reduced) : inputs_(inputs) {
    if (describe(inputs, reduced)) return;
    for (const at::Tensor& input : inputs) copies_.push_back(sum::kept_first(input, reduced).first);
    inputs_ = copies_;
    TORCH_INTERNAL_ASSERT(describe(inputs_, sum::kept_first(inputs[0], reduced).second));
  }

  at::TensorList inputs() const { return inputs_; }
  const Layout& layout() const { return layout_; }

 private:
  /// Returns false if there are too many dimensions.
  bool describe(at::TensorList inputs, sum::DimSet reduced) {
    const auto collapse = [&](bool of_reduced, StridesOfEach& out) {
      sum::JointMerger merger(out.data(), static_cast<int>(inputs.size()));
      for (int64_t d = inputs[0].dim() - 1; d >= 0; --d) {
        if (sum::has(reduced, d) != of_reduced) continue;
        if (!merger.add(inputs[0].size(d), [&](int k) { return inputs[k].stride(d); })) return false;
      }
      merger.finish();
      return true;
    };
    return collapse(false, layout_.kept) && collapse(true, layout_.reduced);
  }

  at::TensorList inputs_;
  std::vector<at::Tensor> copies_;
  Layout layout_;
};

}  // namespace reduce_ops::transform
