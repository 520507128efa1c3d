// From the row-major index of an element to where it lies.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

namespace reduce_ops::sum {

/// Dimensions that a kernel takes; a tensor with more that cannot be merged is copied first.
constexpr int kMaxDims = 12;

/// Division by a fixed number: one multiplication and a shift for 32-bit dividends below 2^31, as in "Division by
/// Invariant Integers using Multiplication" (Granlund, Montgomery 1994); the plain 64-bit division beyond.
struct Divisor {
  int64_t value;
  uint32_t multiplier;
  uint32_t shift;

  static Divisor of(int64_t value) {
    Divisor d{value, 0,
              static_cast<uint32_t>(std::min(static_cast<int>(std::bit_width(static_cast<uint64_t>(value - 1))), 31))};
    d.multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << d.shift) - value)) / value + 1);
    return d;
  }

#ifdef __CUDACC__
  __device__ uint32_t divide(uint32_t dividend) const { return (__umulhi(dividend, multiplier) + dividend) >> shift; }
#endif
};

struct Strides {
  int dims;
  bool small;                // fewer than 2^31 elements: 32-bit divisions will do
  Divisor size[kMaxDims];    // innermost first; the outermost is not divided by
  int64_t stride[kMaxDims];  // in elements

#ifdef __CUDACC__
  __device__ int64_t offset(int64_t index) const {
    if (dims == 1) return index * stride[0];
    return small ? offset_of_small(static_cast<uint32_t>(index)) : offset_of_large(index);
  }

  __device__ int64_t offset_of_small(uint32_t index) const {
    uint32_t quotient = size[0].divide(index);
    int64_t offset = (index - quotient * static_cast<uint32_t>(size[0].value)) * stride[0];
#pragma unroll 1  // few sums have many dimensions, and every load of every kernel has this
    for (int d = 1; d < dims - 1; ++d) {
      index = quotient;
      quotient = size[d].divide(index);
      offset += (index - quotient * static_cast<uint32_t>(size[d].value)) * stride[d];
    }
    return offset + (dims > 1 ? quotient * stride[dims - 1] : 0);
  }

  /// Not inlined: a 64-bit division is some hundred instructions, which would crowd out the loops that ask for offsets.
  __host__ __device__ __noinline__ int64_t offset_of_large(int64_t index) const {
    int64_t offset = 0;
    for (int d = 0; d < dims - 1; ++d) {
      const int64_t quotient = index / size[d].value;
      offset += (index - quotient * size[d].value) * stride[d];
      index = quotient;
    }
    return offset + index * stride[dims - 1];
  }

  /// Where an index lies, then the one `step` further on, and so on: an addition, a second one where a turn of the
  /// innermost dimension ends in between, and divisions only where more than that does.
  class Cursor {
   public:
    __device__ Cursor(const Strides& strides, int64_t index) : strides_(strides), index_(index) { find(); }
    __device__ int64_t offset() const { return offset_; }
    /// Whether the next `count` indices, with this one, lie in one turn of the innermost dimension.
    __device__ bool straight(int count) const { return left_ >= count; }
    __device__ void next(int step) {
      index_ += step;
      left_ -= step;
      offset_ += step * strides_.stride[0];
      if (left_ > 0) return;
      const int64_t size = strides_.size[0].value;
      if (--turns_ > 0 && (left_ += static_cast<int>(size)) > 0) {
        offset_ += strides_.stride[1] - size * strides_.stride[0];
      } else {
        find();
      }
    }

   private:
    __device__ void find() {
      offset_ = strides_.offset(index_);
      const int64_t turn = quotient(index_, strides_.size[0]);
      left_ = until((turn + 1) * strides_.size[0].value, index_);
      turns_ = 1;
      if (strides_.dims == 1 || strides_.size[0].value > kMost) return;
      turns_ = until((quotient(turn, strides_.size[1]) + 1) * strides_.size[1].value, turn);
    }
    __device__ int64_t quotient(int64_t index, const Divisor& size) const {
      return strides_.small ? size.divide(static_cast<uint32_t>(index)) : index / size.value;
    }
    static __device__ int until(int64_t end, int64_t index) { return static_cast<int>(min(end - index, kMost)); }

    static constexpr int64_t kMost = int64_t{1} << 30;

    const Strides& strides_;
    int64_t index_;
    int left_;   // of this turn of the innermost dimension, at least
    int turns_;  // of it, with this one, until the next dimension ends, at least
    int64_t offset_;
  };
#endif
};

/// From the index of a row in the order of memory to that of its output.
struct Places {
  Strides strides;  // small, or of one dimension: every row is where it belongs

#ifdef __CUDACC__
  __device__ int64_t of(int64_t row) const {
    return strides.dims == 1 ? row : strides.offset_of_small(static_cast<uint32_t>(row));
  }
#endif
};

/// The same where every row is where it belongs.
struct InPlace {
#ifdef __CUDACC__
  __device__ int64_t of(int64_t row) const { return row; }
#endif
};

/// Merges dimensions, innermost first, as far as their order allows: those that go on where the last one ends are one
/// with it, and those of size 1 are none.
class Merger {
 public:
  explicit Merger(Strides& out) : out_(out) { out_.dims = 0; }

  /// Adds a dimension around the others. Returns false if that makes more than kMaxDims.
  bool add(int64_t size, int64_t stride) {
    if (size == 1) return true;
    n_ *= size;
    if (goes_on(stride)) {
      out_.size[out_.dims - 1].value *= size;
      return true;
    }
    if (out_.dims == kMaxDims) return false;
    out_.size[out_.dims].value = size;
    out_.stride[out_.dims] = stride;
    ++out_.dims;
    return true;
  }

  /// Adds the dimensions of s from `first` on, around the others and each around the one before.
  bool add(const Strides& s, int first = 0) {
    for (int d = first; d < s.dims; ++d) {
      if (!add(s.size[d].value, s.stride[d])) return false;
    }
    return true;
  }

  void finish() {
    if (out_.dims == 0) {  // one element
      out_.dims = 1;
      out_.size[0].value = 1;
      out_.stride[0] = 0;
    }
    out_.small = n_ < (int64_t{1} << 31);
    for (int d = 0; d < out_.dims; ++d) out_.size[d] = Divisor::of(out_.size[d].value);
  }

 private:
  /// Whether a dimension of this stride would go on where the last one ends.
  bool goes_on(int64_t stride) const {
    return out_.dims > 0 && stride == out_.size[out_.dims - 1].value * out_.stride[out_.dims - 1];
  }

  Strides& out_;
  int64_t n_ = 1;
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

/// Where an element lies, if they are in up to kDims dimensions and within 2^31: a division a turn, none of which waits
/// for another. (With 64 bits and a loop over dimensions that are only known at run time, (64, 3, 225, 225) over
/// dimensions 0, 2 and 3 took 27.0 us on an H200 instead of 14.3.)
template <int kDims>
struct Near {
  int stride;                 // of the innermost dimension
  Divisor length[kDims - 1];  // elements of a turn of the innermost dimension, of one of the inner two, ...
  int jump[kDims - 1];        // from where such a turn ends to where the next one begins

  explicit Near(const Strides& s) : stride(static_cast<int>(s.stride[0])) {
    length[0] = s.size[0];
    for (int d = 0; d < kDims - 1; ++d) {
      const bool turns = d + 1 < s.dims;
      if (d > 0) length[d] = turns ? Divisor::of(length[d - 1].value * s.size[d].value) : Divisor{1, 1, 0};
      jump[d] = turns ? static_cast<int>(s.stride[d + 1] - s.size[d].value * s.stride[d]) : 0;
    }
  }

  static bool holds(const Strides& s) { return s.dims <= kDims && has_32_bit_offsets(s); }

#ifdef __CUDACC__
  __device__ int offset(uint32_t i) const {
    uint32_t offset = i * stride;  // wraps on the way, as a jump may be longer than any offset
#pragma unroll
    for (int d = 0; d < kDims - 1; ++d) offset += length[d].divide(i) * jump[d];
    return static_cast<int>(offset);
  }

  /// Whether elements [first, first + count) lie in one turn of the innermost dimension.
  __device__ bool straight(uint32_t first, int count) const {
    const auto turn = static_cast<uint32_t>(length[0].value);
    return first - length[0].divide(first) * turn + count <= turn;
  }
#endif
};

/// The same in up to five dimensions, or with fewer divisions in up to three.
struct NearStrides {
  bool few;  // up to three
  Near<3> in_few;
  Near<5> in_more;

  explicit NearStrides(const Strides& s) : few(Near<3>::holds(s)), in_few(s), in_more(s) {}

#ifdef __CUDACC__
  __device__ int offset(uint32_t i) const { return few ? in_few.offset(i) : in_more.offset(i); }
#endif
};

/// The same of elements that lie anywhere, near or not.
struct AnyStrides : NearStrides {
  bool near;
  Strides far;

  explicit AnyStrides(const Strides& s) : NearStrides(s), near(Near<5>::holds(s)), far(s) {}

#ifdef __CUDACC__
  __device__ int64_t offset_of_small(uint32_t i) const { return near ? in_more.offset(i) : far.offset_of_small(i); }
#endif
};

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
