// Where the operands of a formula lie: for each, the strides of the outputs and of the elements of one, with sizes that
// all of them share. No PyTorch.

#pragma once

#include <algorithm>
#include <array>

#include "sum/strides.h"
#include "transform/formula.h"

namespace reduce_ops::transform {

using StridesOfEach = std::array<sum::Strides, kMaxInputs>;

/// Merges dimensions, innermost first, of several arrays at the same time: two are one only if they are in all of them.
class JointMerger {
 public:
  JointMerger(sum::Strides* out, int count) : out_(out), count_(count) {
    for (int k = 0; k < count; ++k) out[k].dims = 0;
  }

  /// Adds a dimension around the others; stride(k): that of array k. Returns false if that makes more than kMaxDims.
  template <typename Stride>
  bool add(int64_t size, const Stride& stride) {
    if (size == 1) return true;
    n_ *= size;
    bool goes_on = out_[0].dims > 0;
    for (int k = 0; k < count_ && goes_on; ++k) {
      const int last = out_[k].dims - 1;
      goes_on = stride(k) == out_[k].size[last].value * out_[k].stride[last];
    }
    if (!goes_on && out_[0].dims == sum::kMaxDims) return false;
    for (int k = 0; k < count_; ++k) {
      sum::Strides& s = out_[k];
      if (goes_on) {
        s.size[s.dims - 1].value *= size;
      } else {
        s.size[s.dims].value = size;
        s.stride[s.dims++] = stride(k);
      }
    }
    return true;
  }

  void finish() {
    for (int k = 0; k < count_; ++k) {
      sum::Strides& s = out_[k];
      if (s.dims == 0) {  // one element
        s.dims = 1;
        s.size[0].value = 1;
        s.stride[0] = 0;
      }
      s.small = n_ < (int64_t{1} << 31);
      for (int d = 0; d < s.dims; ++d) s.size[d] = sum::Divisor::of(s.size[d].value);
    }
  }

 private:
  sum::Strides* out_;
  int count_;
  int64_t n_ = 1;
};

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
