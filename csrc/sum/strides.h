// From the row-major index of an element to where it lies.

#pragma once

#include <cstdint>

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
    Divisor d{value, 0, 0};
    while (d.shift < 31 && (int64_t{1} << d.shift) < value) ++d.shift;
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
    int64_t offset = 0;
    if (small) {
      auto rest = static_cast<uint32_t>(index);
      for (int d = 0; d < dims - 1; ++d) {
        const uint32_t quotient = size[d].divide(rest);
        offset += (rest - quotient * static_cast<uint32_t>(size[d].value)) * stride[d];
        rest = quotient;
      }
      return offset + rest * stride[dims - 1];
    }
    for (int d = 0; d < dims - 1; ++d) {
      const int64_t quotient = index / size[d].value;
      offset += (index - quotient * size[d].value) * stride[d];
      index = quotient;
    }
    return offset + index * stride[dims - 1];
  }
#endif
};

/// Dimensions merged as far as the row-major order of their elements allows, innermost first: neighbours that lie in
/// one run are one dimension, and those of size 1 are none. `sizes` and `strides` are indexable, outermost first, as
/// PyTorch's. Returns false if more than kMaxDims are left.
template <typename Array>
bool collapse(const Array& sizes, const Array& strides, int64_t n, Strides& out) {
  out.dims = 0;
  out.small = n < (int64_t{1} << 31);
  for (auto d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    const int64_t size = sizes[d];
    const int64_t stride = strides[d];
    if (size == 1) continue;
    if (out.dims > 0) {
      Divisor& inner = out.size[out.dims - 1];
      if (stride == inner.value * out.stride[out.dims - 1]) {
        inner.value *= size;
        continue;
      }
    }
    if (out.dims == kMaxDims) return false;
    out.size[out.dims].value = size;
    out.stride[out.dims] = stride;
    ++out.dims;
  }
  if (out.dims == 0) {  // one element
    out.dims = 1;
    out.size[0].value = 1;
    out.stride[0] = 1;
  }
  for (int d = 0; d < out.dims; ++d) out.size[d] = Divisor::of(out.size[d].value);
  return true;
}

/// Whether the elements are one run.
inline bool is_run(const Strides& s) { return s.dims == 1 && s.stride[0] == 1; }

/// Whether they are runs of whole groups of `group` elements, `group` elements apart, as far as strides tell.
inline bool is_rows(const Strides& s, int64_t group) {
  bool rows = s.stride[0] == 1 && s.size[0].value % group == 0;
  for (int d = 1; d < s.dims; ++d) rows = rows && s.stride[d] % group == 0;
  return rows;
}

}  // namespace reduce_ops::sum
