// The strides of a tensor, on their way to a kernel (device/strides.cuh): merged, sorted, and with their divisions made
// ready.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "device/strides.cuh"

namespace reduce_ops::sum {

inline Divisor Divisor::of(int64_t value) {
  Divisor d{value, 0,
            static_cast<uint32_t>(std::min(static_cast<int>(std::bit_width(static_cast<uint64_t>(value - 1))), 31))};
  d.multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << d.shift) - value)) / value + 1);
  return d;
}

/// Merges dimensions, innermost first, as far as their order allows: those that go on where the last one ends are one
/// with it, and those of size 1 are none. Of several arrays of the same sizes two dimensions are one only if they are
/// in all of them.
class JointMerger {
 public:
  JointMerger(Strides* out, int count) : out_(out), count_(count) {
    for (int k = 0; k < count; ++k) out[k].dims = 0;
  }

  /// Adds a dimension around the others; stride(k): that of array k. Returns false if that makes more than kMaxDims.
  template <typename Stride>
  bool add(int64_t size, const Stride& stride) {
    if (size == 1) return true;
    n_ *= size;
    const bool merges = goes_on(stride);
    if (!merges && out_[0].dims == kMaxDims) return false;
    for (int k = 0; k < count_; ++k) {
      Strides& s = out_[k];
      if (merges) {
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
      Strides& s = out_[k];
      if (s.dims == 0) {  // one element
        s.dims = 1;
        s.size[0].value = 1;
        s.stride[0] = 0;
      }
      s.small = n_ < (int64_t{1} << 31);
      for (int d = 0; d < s.dims; ++d) s.size[d] = Divisor::of(s.size[d].value);
    }
  }

 private:
  /// Whether a dimension of such strides would go on where the last one ends.
  template <typename Stride>
  bool goes_on(const Stride& stride) const {
    const int last = out_[0].dims - 1;
    if (last < 0) return false;
    for (int k = 0; k < count_; ++k) {
      if (stride(k) != out_[k].size[last].value * out_[k].stride[last]) return false;
    }
    return true;
  }

  Strides* out_;
  int count_;
  int64_t n_ = 1;
};

/// The same of one array.
class Merger : public JointMerger {
 public:
  explicit Merger(Strides& out) : JointMerger(&out, 1) {}

  bool add(int64_t size, int64_t stride) {
    return JointMerger::add(size, [stride](int) { return stride; });
  }

  /// Adds the dimensions of s from `first` on, around the others and each around the one before.
  bool add(const Strides& s, int first = 0) {
    for (int d = first; d < s.dims; ++d) {
      if (!add(s.size[d].value, s.stride[d])) return false;
    }
    return true;
  }
};

/// The dimensions d for which picked(d) holds, merged, in the row-major order of their elements. `sizes` and `strides`
/// are indexable, outermost first, as PyTorch's. Returns false if more than kMaxDims are left.
template <typename Array, typename Picked>
bool collapse(const Array& sizes, const Array& strides, const Picked& picked, Strides& out) {
  Merger merger(out);
  for (auto d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    if (picked(d) && !merger.add(sizes[d], strides[d])) return false;
  }
  merger.finish();
  return true;
}

/// How far from the first element the others lie at most.
inline int64_t reach(const Strides& s) {
  int64_t reach = 0;
  for (int d = 0; d < s.dims; ++d) reach += (s.size[d].value - 1) * std::abs(s.stride[d]);
  return reach;
}

/// Whether indices and offsets from the first element fit into 32 bits.
inline bool has_32_bit_offsets(const Strides& s) { return s.small && reach(s) < int64_t{1} << 31; }

template <int kDims>
Near<kDims>::Near(const Strides& s) : stride(static_cast<int>(s.stride[0])) {
  length[0] = s.size[0];
  for (int d = 0; d < kDims - 1; ++d) {
    const bool turns = d + 1 < s.dims;
    if (d > 0) length[d] = turns ? Divisor::of(length[d - 1].value * s.size[d].value) : Divisor{1, 1, 0};
    jump[d] = turns ? static_cast<int>(s.stride[d + 1] - s.size[d].value * s.stride[d]) : 0;
  }
}

template <int kDims>
bool Near<kDims>::holds(const Strides& s) {
  return s.dims <= kDims && has_32_bit_offsets(s);
}

inline NearStrides::NearStrides(const Strides& s) : few(Near<3>::holds(s)), in_few(s), in_more(s) {}

inline AnyStrides::AnyStrides(const Strides& s) : NearStrides(s), near(Near<5>::holds(s)), far(s) {}

inline NearSteps::NearSteps(const Strides& s)
    : Near(s),
      left(static_cast<int>(kWarpSize % length[0].value)),
      step(static_cast<int>(kWarpSize * s.stride[0] + kWarpSize / length[0].value * jump[0])) {}

/// By which dimensions are ordered: how far apart their elements lie, those of stride 0, which are the same, farthest.
inline uint64_t distance(int64_t stride) { return static_cast<uint64_t>(std::abs(stride)) - 1; }

/// Where the order runs across memory, the dimension that neighbouring elements in memory are neighbours in, other than
/// the innermost one: those within lie further apart. 0 if it does not: a run of `enough` elements is not worth
/// crossing.
inline int line_dim(const Strides& s, int64_t enough) {
  const int first = s.dims > 1 && s.stride[0] == 1 && s.size[0].value < enough ? 1 : 0;
  int closest = first;
  for (int d = first + 1; d < s.dims; ++d) {
    if (distance(s.stride[d]) < distance(s.stride[closest])) closest = d;
  }
  return closest == first ? 0 : closest;
}

/// Elements of dimensions [first, last).
inline int64_t count(const Strides& s, int first, int last) {
  int64_t count = 1;
  for (int d = first; d < last; ++d) count *= s.size[d].value;
  return count;
}

/// Whether the elements are one run.
inline bool is_run(const Strides& s) { return s.dims == 1 && (s.stride[0] == 1 || s.size[0].value == 1); }

/// Whether all strides, from that of dimension `first` on, are multiples of `group`.
inline bool strides_divide(const Strides& s, int first, int64_t group) {
  for (int d = first; d < s.dims; ++d) {
    if (s.stride[d] % group != 0) return false;
  }
  return true;
}

/// Whether they are runs of whole groups of `group` elements, `group` elements apart, as far as strides tell.
inline bool is_rows(const Strides& s, int64_t group) {
  return s.stride[0] == 1 && s.size[0].value % group == 0 && strides_divide(s, 1, group);
}

/// The dimensions of `s` in the order of their strides, the smallest innermost (those of stride 0, which read the same
/// elements again, outermost), and where an element then lies among those of `s` in row-major order.
inline void order_by_stride(const Strides& s, Strides& ordered, Strides& places) {
  ordered = s;
  places = {1, s.small, {}, {}};
  places.stride[0] = 1;
  places.size[0] = Divisor::of(1);
  const auto key = [&s](int d) { return distance(s.stride[d]); };
  bool in_order = true;
  for (int d = 1; d < s.dims; ++d) in_order = in_order && key(d - 1) <= key(d);
  if (in_order) return;

  int order[kMaxDims];
  int64_t place[kMaxDims];
  for (int d = 0; d < s.dims; ++d) {
    order[d] = d;
    place[d] = d == 0 ? 1 : place[d - 1] * s.size[d - 1].value;
  }
  std::stable_sort(order, order + s.dims, [&](int a, int b) { return key(a) < key(b); });
  places.dims = s.dims;
  for (int d = 0; d < s.dims; ++d) {
    ordered.size[d] = places.size[d] = s.size[order[d]];
    ordered.stride[d] = s.stride[order[d]];
    places.stride[d] = place[order[d]];
  }
}

/// The same elements in the order of their strides, merged anew.
inline Strides in_order_of_memory(const Strides& s) {
  Strides ordered, places, merged;
  order_by_stride(s, ordered, places);
  Merger merger(merged);
  merger.add(ordered);
  merger.finish();
  return merged;
}

}  // namespace reduce_ops::sum
