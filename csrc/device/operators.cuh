// What a reduction computes. Kernels know two things of what they accumulate in, an accumulate type: it is combined by
// `+`, and an element becomes one, or one a result, by convert(). For a sum that is float or int64_t itself. Any other
// operator is an Op with
//
//   Value                 the accumulate type of what is combined
//   leaf(element)         what an element comes in with, a Value
//   combine(left, right)  commutative to the bit, for lanes do not care which of the two they hold
//   identity()            what a missing element counts as: combine(x, identity()) has the bits of x
//   finish(value, n)      what becomes of the last Value, of n elements, before it is rounded; or finish(value, n,
//                         freedom), of so many degrees of freedom
//
// and kernels accumulate in Node<Op> (numeric.cuh), whose `+` is combine. So a new operator is one struct here, an
// enumerator (sum/operator.h) and its name (sum/instance_cuda.cpp). An operator that takes two launches is two
// (of_parts, of_nodes): one that leaves Values, and one whose elements these are.
//
// Every operation is rounded on its own, so that a CPU gets the same bits: kernels are compiled without fused
// multiply-adds.

#pragma once

#include "device/numeric.cuh"

namespace reduce_ops {

/// Elements added up: what sums of other leaves, and what becomes of sums, have in common with a sum.
template <typename T>
struct Sum {
  using Value = T;

  template <typename In>
  static __device__ T leaf(In element) {
    return convert<T>(element);
  }
  static __device__ T combine(T left, T right) { return left + right; }
  static __device__ constexpr T identity() { return reduce_ops::identity<T>(); }
  static __device__ T finish(T sum, int64_t) { return sum; }
};

/// Their sum, divided by how many there are, a number that is rounded to T first.
template <typename T>
struct Mean : Sum<T> {
  static __device__ T finish(T sum, int64_t n) {
    return by_components(sum, [n](auto part) { return part / static_cast<decltype(part)>(n); });
  }
};

/// Their sum without those that are NaN.
template <typename T>
struct NanSum : Sum<T> {
  template <typename In>
  static __device__ T leaf(In element) {
    const T x = convert<T>(element);
    return x == x ? x : T(0);
  }
};

/// How many are not 0, added up as numbers.
template <typename T>
struct Count : Sum<T> {
  template <typename In>
  static __device__ T leaf(In element) {
    return convert<T>(element) == 0 ? T(0) : T(1);
  }
};

/// |x|, added up.
template <typename T>
struct SumOfAbs : Sum<T> {
  template <typename In>
  static __device__ T leaf(In element) {
    return std::fabs(convert<T>(element));
  }
};

/// x * x, added up.
template <typename T>
struct SumOfSquares : Sum<T> {
  template <typename In>
  static __device__ T leaf(In element) {
    const T x = convert<T>(element);
    return x * x;
  }
};

/// The square root of that.
template <typename T>
struct Norm : SumOfSquares<T> {
  static __device__ T finish(T sum, int64_t) { return std::sqrt(sum); }
};

/// The square root of their sum.
template <typename T>
struct Root : Sum<T> {
  static __device__ T finish(T sum, int64_t) { return std::sqrt(sum); }
};

/// Of the differences d from the mean, each a Complex of d * d and d: the sum of squares, corrected for what the mean
/// was rounded by, and divided by the degrees of freedom. No less than 0, which rounding could make it.
template <typename T>
struct Variance : Sum<Complex<T>> {
  static __device__ Complex<T> finish(Complex<T> sums, int64_t n, double freedom) {
    const T squares = sums.real - sums.imag * sums.imag / static_cast<T>(n);
    return {(squares < 0 ? T(0) : squares) / static_cast<T>(freedom), T(0)};
  }
};

/// The square root of that.
template <typename T>
struct Deviation : Variance<T> {
  static __device__ Complex<T> finish(Complex<T> sums, int64_t n, double freedom) {
    return {std::sqrt(Variance<T>::finish(sums, n, freedom).real), T(0)};
  }
};

/// The largest element, or a NaN, of any bits, if one is NaN. 0.0 is larger than -0.0.
template <typename T>
struct Max {
  using Value = T;

  template <typename In>
  static __device__ T leaf(In element) {
    return convert<T>(element);
  }
  static __device__ T combine(T left, T right) {
    if constexpr (std::is_same_v<T, float>) {
      return maximum(left, right);
    } else if constexpr (std::is_floating_point_v<T>) {
      const bool are_zeros = left == 0 && right == 0;  // 0.0 + -0.0 is 0.0
      const bool are_numbers = left <= right || right < left;
      if (are_zeros || !are_numbers) return left + right;
    }
    return left < right ? right : left;
  }
  static __device__ constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(__builtin_bit_cast(float, 0xff800000u));  // -inf
    } else {
      return static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1));
    }
  }
  static __device__ T finish(T x, int64_t) { return x; }
};

/// The largest |x|, or a NaN.
template <typename T>
struct MaxAbs : Max<T> {
  template <typename In>
  static __device__ T leaf(In element) {
    return std::fabs(convert<T>(element));
  }
};

/// The smallest element, or a NaN, of any bits, if one is NaN. -0.0 is smaller than 0.0.
template <typename T>
struct Min : Max<T> {
  static __device__ T combine(T left, T right) {
    if constexpr (std::is_floating_point_v<T>) {
      return -Max<T>::combine(-left, -right);
    } else {
      return left < right ? left : right;
    }
  }
  static __device__ constexpr T identity() {
    if constexpr (std::is_floating_point_v<T>) {
      return -Max<T>::identity();
    } else {
      return ~Max<T>::identity();
    }
  }
};

/// The smallest |x|, or a NaN.
template <typename T>
struct MinAbs : Min<T> {
  template <typename In>
  static __device__ T leaf(In element) {
    return std::fabs(convert<T>(element));
  }
};

}  // namespace reduce_ops
