// From the row-major index of an element to where it lies, as kernels are told. The host makes these (sum/strides.h).

#pragma once

#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// Dimensions that a kernel takes; a tensor with more that cannot be merged is copied first.
inline constexpr int kMaxDims = 12;

/// Division by a fixed number: one multiplication and a shift for 32-bit dividends below 2^31, as in "Division by
/// Invariant Integers using Multiplication" (Granlund, Montgomery 1994); the plain 64-bit division beyond.
struct Divisor {
  int64_t value;
  uint32_t multiplier;
  uint32_t shift;

  static Divisor of(int64_t value);  // sum/strides.h

#ifdef __CUDACC__
  __device__ uint32_t divide(uint32_t dividend) const { return (__umulhi(dividend, multiplier) + dividend) >> shift; }
#endif
};

struct Strides {
  int dims;
  bool small;                // fewer than 2^31 elements: 32-bit divisions will do
  Divisor size[kMaxDims];    // innermost first; the outermost is not divided by
  int64_t stride[kMaxDims];  // in elements

  /// Not inlined: a 64-bit division is some hundred instructions, which would crowd out the loops that ask for offsets.
  REDUCE_OPS_ANYWHERE REDUCE_OPS_NOINLINE int64_t offset_of_large(int64_t index) const {
    int64_t offset = 0;
    for (int d = 0; d < dims - 1; ++d) {
      const int64_t quotient = index / size[d].value;
      offset += (index - quotient * size[d].value) * stride[d];
      index = quotient;
    }
    return offset + index * stride[dims - 1];
  }

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

/// Where an element lies, if they are in up to kDims dimensions and within 2^31: a division a turn, none of which waits
/// for another. (With 64 bits and a loop over dimensions that are only known at run time, (64, 3, 225, 225) over
/// dimensions 0, 2 and 3 took 27.0 us on an H200 instead of 14.3.)
template <int kDims>
struct Near {
  int stride;                 // of the innermost dimension
  Divisor length[kDims - 1];  // elements of a turn of the innermost dimension, of one of the inner two, ...
  int jump[kDims - 1];        // from where such a turn ends to where the next one begins

  explicit Near(const Strides& s);

  static bool holds(const Strides& s);

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

  explicit NearStrides(const Strides& s);

#ifdef __CUDACC__
  __device__ int offset(uint32_t i) const { return few ? in_few.offset(i) : in_more.offset(i); }
#endif
};

/// The same of elements that lie anywhere, near or not.
struct AnyStrides : NearStrides {
  bool near;
  Strides far;

  explicit AnyStrides(const Strides& s);

#ifdef __CUDACC__
  __device__ int64_t offset_of_small(uint32_t i) const { return near ? in_more.offset(i) : far.offset_of_small(i); }
#endif
};

/// In two dimensions, with what one division for all loads of a lane takes: kWarpSize elements on is as many turns on
/// as ever, or one more.
struct NearSteps : Near<2> {
  int left;  // elements beyond the turns that kWarpSize of them take
  int step;  // from an element to the one kWarpSize on, if no more turns than these end between them

  explicit NearSteps(const Strides& s);
};

}  // namespace reduce_ops::sum
