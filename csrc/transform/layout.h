// Where the operands of a formula lie: for each, the strides of the outputs and of the elements of one, with sizes that
// all of them share. No PyTorch.

#pragma once

#include <algorithm>
#include <array>

#include "sum/strides.h"
#include "transform/formula.h"

namespace reduce_ops::transform {

using StridesOfEach = std::array<sum::Strides, kMaxInputs>;

struct Layout {
  StridesOfEach kept;
  StridesOfEach reduced;
};

/// The operand that most is read of: what is best for it is best for all.
inline int largest_operand(const Layout& layout, int count) {
  const auto elements = [&](int k) {
    double elements = 1;
    for (const sum::Strides* s : {&layout.kept[k], &layout.reduced[k]}) {
      for (int d = 0; d < s->dims; ++d) elements *= s->stride[d] == 0 ? 1 : static_cast<double>(s->size[d].value);
    }
    return elements;
  };
  int largest = 0;
  for (int k = 1; k < count; ++k) largest = elements(k) > elements(largest) ? k : largest;
  return largest;
}

/// Whether neighbours in memory are those of neighbouring outputs.
inline bool are_columns(const sum::Strides& kept, const sum::Strides& reduced) {
  const auto closest = [](const sum::Strides& s) {
    uint64_t closest = UINT64_MAX;
    for (int d = 0; d < s.dims; ++d) {
      if (s.size[d].value > 1) closest = std::min(closest, sum::distance(s.stride[d]));
    }
    return closest;
  };
  return closest(kept) < closest(reduced);
}

}  // namespace reduce_ops::transform
