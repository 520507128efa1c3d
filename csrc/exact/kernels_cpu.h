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

/// Rows of floats in memory, which need not be aligned.
struct Tile {
  const std::byte* data;
  std::int64_t rows;
  std::int64_t row_stride;  // in bytes
  std::int64_t width;
};

/// What a tile holds.
template <typename Float>
struct Extent {
  BitsOf<Float> most;   // magnitude
  BitsOf<Float> least;  // magnitude of those other than 0, less 1; the highest number if there are none
  bool minus_zero;      // whether there is a -0.0
};

template <typename Float>
struct Kernels {
  /// Elements [begin, begin + n) widened to Float, into adjacent memory.
  void (*gather)(const sum::Elements& elements, std::int64_t begin, std::int64_t n, Float* out);
  Extent<Float> (*extent)(const Tile& tile);
  /// Adds the floats of each column to its sum, as multiples of the unit of exponent field `least`, which is 1 at least
  /// and beyond that of no float but 0.
  void (*add_columns)(const Tile& tile, int least, MultipleOf<Float>* sums);
  /// The same for floats that are one row and one sum.
  MultipleOf<Float> (*sum_row)(const std::byte* row, std::int64_t n, int least);
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
