// Exact sums of squares of a few sequences side by side on the CPU, without PyTorch.
//
// A square has twice the bits of an element and spans twice its binades, so it is never made. Elements of a tile that
// are few binades apart are multiples of the least unit among them, cut into pieces of 24 or 26 bits; products of
// pieces add up in 64 bits each. That takes vectors, as sums do (sums_cpu.h). Those of other tiles are squared one by
// one: a square is added to the bin that the upper bits of its exponent name, shifted by the lower bits.

#pragma once

#include <cstdint>
#include <type_traits>

#include "exact/floats_cpu.h"
#include "exact/state.h"
#include "sum/tree_cpu.h"

namespace reduce_ops::exact {

constexpr std::int64_t kMaxSquares = 64;  // sequences side by side

/// Float: float, also for everything that it holds, or double.
template <typename Float>
class Squares {
 public:
  using Layout = std::conditional_t<sizeof(Float) == 4, SquaresLayout32, SquaresLayout64>;

  /// Adds the squares of elements [begin, end), at least one, of each of `sequences`, up to kMaxSquares. elements:
  /// those of the first.
  Squares(const sum::Elements& elements, std::int64_t begin, std::int64_t end, sum::Sequences sequences);

  // What there is to know of sequence i; to be asked for once.
  template <typename Result>
  Result rounded(std::int64_t i, Finish finish);
  void write_state(std::int64_t i, std::int64_t* words);

 private:
  using Bits = BitsOf<Float>;

  static constexpr std::int64_t kSize = sizeof(Float);
  static constexpr std::int64_t kTile = 16384 / kSize;  // elements: a third of the L1 cache
  static constexpr int kMantissa = Format<Float>::kPrecision - 1;

  // 4 lower bits of float32's exponent make 48 + 30 bits, and 90 those of a tile; 2 of float64's 106 + 6, and 123.
  static constexpr int kLower = kSize == 4 ? 4 : 2;
  static constexpr int kBins = 1 << (kFieldBitsOf<Float> - kLower);
  static_assert(2 * (kMantissa + (1 << kLower)) + (kSize == 4 ? 12 : 11) <= 126);
  static_assert(kTile <= 1 << (kSize == 4 ? 12 : 11));

  struct Sum {
    Kinds kinds;
    std::int64_t added;  // to the limbs, since carries were resolved
    std::int64_t words[Layout::kWords];

    /// Adds value * 2^(lowest + position), of up to 63 bits or of up to 126.
    void add(std::int64_t value, int position);
    void add_wide(unsigned __int128 value, int position);
  };

  void add_tile(Sum& sum, const std::byte* floats, std::int64_t n);
  void add_one_by_one(Sum& sum, const std::byte* floats, std::int64_t n);
  void add_by_bins(Sum& sum, const std::byte* floats, std::int64_t n);

  const Kernels<Float> kernels_;
  Sum sums_[kMaxSquares];
  alignas(64) Float tile_[kTile];
};

}  // namespace reduce_ops::exact
