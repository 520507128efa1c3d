// The canonical tree on the CPU, without PyTorch: elements at any address and stride in, the sum of a range out.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reduce_ops::sum {

/// What lies in memory; a complex element is two of these, real and imaginary part.
enum class Stored : std::uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float8_e4m3fn,
  float8_e5m2,
  float16,
  bfloat16,
  float32,
  float64,
};

/// Elements in row-major order of their index. Addresses need not be aligned.
struct Elements {
  const std::byte* data;
  Stored stored;
  bool negate_real;  // as a negative view asks
  bool negate_imag;  // as a negative or a conjugate view asks
  int dims;          // at least 1
  // Innermost dimension first. No more than 64: an int64 count has no more factors than 63, and size 1 is left out.
  std::array<std::int64_t, 64> sizes;
  std::array<std::int64_t, 64> strides;  // in bytes
};

/// Unlike std::complex, an array of it costs nothing to declare.
template <typename Part>
struct Complex {
  Part real;
  Part imag;
};

/// The canonical sum of elements [begin, end), each converted to Leaf. Leaf is float, double, uint64_t (for int64: it
/// wraps by definition), Complex<float> or Complex<double>. The range must not be empty. It is a node of the tree over
/// all elements if it starts at a multiple of its length, a power of two, or is what is left from such a multiple on.
/// Throws std::invalid_argument for a pair of types that sum_cpu.h does not list.
template <typename Leaf>
Leaf tree_sum(const Elements& elements, std::int64_t begin, std::int64_t end);

}  // namespace reduce_ops::sum
