// The parts of an exact sum that are worth vectors, for each instruction set of the CPU. All of it is integer
// arithmetic, so that neither a rounding mode nor flushed subnormals can change a sum.

#pragma once

#include <cstddef>
#include <cstdint>

#include "exact/state.h"
#include "sum/tree_cpu.h"

namespace reduce_ops::exact {

template <typename Float>
using BitsOf = typename Format<Float>::Bits;

/// What holds sums of elements of a few neighbouring binades, as multiples of the lowest power of two that they share.
template <typename Float>
using MultipleOf = std::conditional_t<sizeof(Float) == 4, std::int64_t, __int128>;

/// A multiple is added up in parts of this many bits of the significand, in 64 bits each.
template <typename Float>
constexpr int kPartBits = sizeof(Float) == 4 ? 24 : 27;

/// How an element, as a multiple of a unit, is cut into pieces a, b and, of float64, c, lowest first. Products of
/// pieces fit 64 bits, however many of a tile are added up: those of 2^12 float32, or 2^11 float64, whose exponent
/// fields are up to kSpan apart.
template <typename Float>
struct Pieces {
  static constexpr int kCount = sizeof(Float) == 4 ? 2 : 3;
  static constexpr int kBits = sizeof(Float) == 4 ? 24 : 26;
  static constexpr int kSpan = 24;
  static_assert(Format<Float>::kPrecision + kSpan <= kCount * kBits);

  /// What a square is made of: the unit of aa, 2 ab, bb, 2 ac, 2 bc and cc, as an exponent.
  static constexpr int kExponents[] = {0, kBits + 1, 2 * kBits, 2 * kBits + 1, 3 * kBits + 1, 4 * kBits};
  static constexpr int kProducts = kCount * (kCount + 1) / 2;
};

/// What adjacent floats are.
template <typename Float>
struct Extent {
  BitsOf<Float> most;   // magnitude
  BitsOf<Float> least;  // magnitude of those other than 0, less 1; the highest number if there are none
  bool minus_zero;      // whether there is a -0.0
};

/// Memory need not be aligned.
template <typename Float>
struct Kernels {
  /// Elements [begin, begin + n) widened to Float, into adjacent memory.
  void (*gather)(const sum::Elements& elements, std::int64_t begin, std::int64_t n, Float* out);
  Extent<Float> (*extent)(const std::byte* floats, std::int64_t n);
  /// Copies, with zeros for NaN and infinity. Returns which of these there were.
  Kinds (*finite)(const std::byte* floats, std::int64_t n, Float* out);
  /// The sum of floats as a multiple of the unit of exponent field `least`, which is 1 at least and not beyond that of
  /// any float but 0. kPartBits, the highest exponent field less `least` and the bits of n must not exceed 63 together.
  MultipleOf<Float> (*sum)(const std::byte* floats, std::int64_t n, int least);
  /// The same for each of `width` columns of `rows` floats, which lie row by row.
  void (*sum_columns)(const std::byte* floats, std::int64_t rows, std::int64_t width, int least,
                      MultipleOf<Float>* sums);
  /// The sums of the products of pieces of n floats that count units of exponent field `least`, as for sum.
  void (*square)(const std::byte* floats, std::int64_t n, int least, std::int64_t* sums);
};

// For Float float and double.
namespace baseline {
template <typename Float>
Kernels<Float> kernels();
}
namespace avx2 {
template <typename Float>
Kernels<Float> kernels();
}
namespace avx512 {
template <typename Float>
Kernels<Float> kernels();
}

}  // namespace reduce_ops::exact
