// The canonical tree on the CPU, without PyTorch: elements at any address and stride in, the sum of a range out.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "types.h"

namespace reduce_ops::sum {

/// What becomes of an element when it is a leaf, of one part, before it is added.
enum class Map : std::uint8_t { none, nan_to_zero, nonzero, abs, square };

/// What is done to elements as they are loaded.
struct Changes {
  bool negate_real = false;  // as a negative view asks
  bool negate_imag = false;  // as a negative or a conjugate view asks
  Map map = Map::none;
};

/// Elements in row-major order of their index. Addresses need not be aligned.
struct Elements {
  const std::byte* data;
  Type type;  // of a complex element: that of its two parts
  Changes changes;
  std::int64_t bytes;  // of the elements of all sequences: how far from the core they may be
  int dims;            // at least 1
  // Innermost dimension first. No more than 64: an int64 count has no more factors than 63, and size 1 is left out.
  std::array<std::int64_t, 64> sizes;
  std::array<std::int64_t, 64> strides;  // in bytes
};

/// The dimension whose elements lie closest in memory; 0, the innermost, if there is no closer one.
int closest_dim(const Elements& elements);

/// Unlike std::complex, an array of it costs nothing to declare.
template <typename Part>
struct Complex {
  Part real;
  Part imag;
};

/// Sequences of elements: where the elements of the first lie is said elsewhere, those of the others lie `stride` bytes
/// further on each.
struct Sequences {
  std::int64_t count;
  std::int64_t stride;
};

/// sums[i]: the canonical sum of elements [begin, end) of sequence i, each converted to Leaf. Leaf is float, double,
/// uint64_t (for int64: it wraps by definition), Complex<float> or Complex<double>. The range must not be empty. Its
/// sum is a node of the tree over all elements if it starts at a multiple of its length, a power of two, or is what is
/// left from such a multiple on. Throws std::invalid_argument for a pair of types that sum_op.cpp does not list.
template <typename Leaf>
void tree_sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums);

/// The same for the largest or the smallest element of each, or a NaN if one is NaN. 0.0 is larger than -0.0. Leaf is
/// float, double or uint64_t (for int64).
template <typename Leaf>
void extreme_elements(bool largest, const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences,
                      Leaf* results);

}  // namespace reduce_ops::sum
