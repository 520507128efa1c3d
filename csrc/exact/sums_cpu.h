// Exact sums of a few sequences side by side on the CPU, without PyTorch.
//
// Elements come in tiles that stay in the L1 cache, and a tile goes the way that its exponents allow.
//
// Of few binades, as most data is: every element is a multiple of the least unit among them, and the multiples of a
// sequence add up in an integer of 64 bits, or in two for float64. That takes vectors, and no memory.
//
// Of many: an element is added to the bin that its sign and the upper bits of its exponent name, as an integer that is
// shifted by the lower bits.
//
// Both end in the limbs of a state; a sum that was one tile of few binades is rounded without them.

#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "exact/floats_cpu.h"
#include "exact/state.h"
#include "sum/tree_cpu.h"

namespace reduce_ops::exact {

constexpr std::int64_t kMaxSums = 64;  // side by side: 256 bytes of float32 columns

/// Float: float, also for everything that it holds, or double.
template <typename Float>
class Sums {
 public:
  using Layout = std::conditional_t<sizeof(Float) == 4, Layout32, Layout64>;

  /// Sums elements [begin, end), at least one, of each of `sequences`, up to kMaxSums. elements: those of the first.
  Sums(const sum::Elements& elements, std::int64_t begin, std::int64_t end, sum::Sequences sequences);

  // What there is to know of sequence i; to be asked for once.
  template <typename Result>
  Result rounded(std::int64_t i, Finish finish);
  void write_state(std::int64_t i, std::int64_t* words);

 private:
  using Bits = BitsOf<Float>;
  using Multiple = MultipleOf<Float>;
  using Bin = std::conditional_t<sizeof(Float) == 4, std::uint64_t, unsigned __int128>;

  static constexpr std::int64_t kSize = sizeof(Float);
  static constexpr std::int64_t kTile = 16384 / kSize;  // elements: a third of the L1 cache
  static constexpr int kMantissa = Format<Float>::kPrecision - 1;
  static constexpr int kFieldBits = kFieldBitsOf<Float>;
  static constexpr Bits kMinusZero = Bits{1} << (8 * kSize - 1);

  // 4 lower bits of float32's exponent make 24 + 15 = 39 bits of 63, 5 of float64's 53 + 31 = 84 of 127.
  static constexpr int kLower = kSize == 4 ? 4 : 5;
  static constexpr int kBins = 2 << (kFieldBits - kLower);
  static constexpr std::int64_t kMostBinned = 1 << 24;  // additions to a bin
  static_assert(kMantissa + (1 << kLower) + 24 <= static_cast<int>(8 * sizeof(Bin)) - 1);
  // A long sequence takes as many sets of bins in turn, for an addition to what was just stored waits for it. 8 sets
  // were no faster than 4, of numbers of any exponent and of zeros among others.
  static constexpr std::int64_t kLanes = 4;

  struct Sum {
    Kinds kinds;
    bool has_limbs;
    int field;           // the exponent field of whose unit `first` is a multiple
    Multiple first;      // the sum, as long as there are no limbs
    std::int64_t added;  // to the limbs, since carries were resolved
    std::int64_t words[Layout::kWords];
  };

  /// Elements in work: `rows` of `width`, row by row. A single sequence is one row.
  struct Tile {
    const std::byte* floats;
    std::int64_t rows;
    std::int64_t width;
  };

  void add_sequence(Sum& sum, const sum::Elements& elements, std::int64_t begin, std::int64_t end);
  void add_columns(const sum::Elements& elements, std::int64_t begin, std::int64_t end, std::int64_t apart);
  void add_tile(Tile tile, Sum* sums);
  void take_out_specials(Tile& tile, Sum* sums);
  void add_multiple(Sum& sum, Multiple value, int field);
  void add_to_limbs(Sum& sum, Multiple value, int field);
  void add_one_by_one(const Tile& tile, Sum* sums);
  void add_to_bins(const Tile& tile, Sum* sums);
  void flush_bins(Sum* sums);

  const Kernels<Float> kernels_;
  const std::int64_t elements_;   // of each sequence
  const std::int64_t sequences_;  // sums_ that are in use
  const bool as_columns_;         // or else one sequence after the other
  const std::int64_t sets_;       // of bins: one for each column, or for each lane
  Sum sums_[kMaxSums];
  std::unique_ptr<Bin[][kBins]> bins_;  // made when there is something for them
  std::int64_t binned_ = 0;             // additions to a bin, at most
  alignas(64) Float tile_[kTile];
};

}  // namespace reduce_ops::exact
