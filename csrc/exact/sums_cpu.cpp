#include "exact/sums_cpu.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "isa_cpu.h"

namespace reduce_ops::exact {
namespace {

/// Sequences up to this long are gathered as columns, many at once.
constexpr std::int64_t kShort = 32;

template <typename Float>
Kernels<Float> best_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return avx512::kernels<Float>();
  if (isa() == Isa::avx2) return avx2::kernels<Float>();
#endif
  return baseline::kernels<Float>();
}

template <typename Bits>
Bits read(const std::byte* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

/// The elements of sequences side by side, those of the same index next to each other.
sum::Elements interleaved(const sum::Elements& elements, std::int64_t count, std::int64_t apart) {
  sum::Elements result = elements;
  result.dims = elements.dims + 1;
  result.sizes[0] = count;
  result.strides[0] = apart;
  std::copy_n(elements.sizes.begin(), elements.dims, result.sizes.begin() + 1);
  std::copy_n(elements.strides.begin(), elements.dims, result.strides.begin() + 1);
  return result;
}

/// magnitude * 2^exponent, rounded; magnitude is not 0.
template <typename Result, typename Magnitude>
Result round_integer(bool negative, Magnitude magnitude, int exponent, Rounding rounding) {
  if constexpr (sizeof(Magnitude) > 8) {
    if (const auto high = static_cast<std::uint64_t>(magnitude >> 64); high != 0) {
      const int excess = std::bit_width(high);
      const bool more = (magnitude << (128 - excess)) != 0;
      const auto top = static_cast<std::uint64_t>(magnitude >> excess) | static_cast<std::uint64_t>(more);
      return round_normalized<Result>(negative, top, exponent + excess + 63, rounding);
    }
  }
  const auto bits = static_cast<std::uint64_t>(magnitude);
  const int zeros = std::countl_zero(bits);
  return round_normalized<Result>(negative, bits << zeros, exponent + 63 - zeros, rounding);
}

template <typename Float>
constexpr Type kType = sizeof(Float) == 4 ? Type::float32 : Type::float64;

}  // namespace

template <typename Float>
Sums<Float>::Sums(std::int64_t count) : kernels_(best_kernels<Float>()), count_(count) {
  for (Sum& sum : std::span(sums_, count)) {
    sum.kinds = {};
    sum.has_limbs = false;
    sum.field = 1;
    sum.first = 0;
    sum.added = 0;
  }
}

template <typename Float>
void Sums<Float>::add(const sum::Elements& elements, std::int64_t begin, std::int64_t end, std::int64_t apart) {
  if (count_ > 1 && (apart < elements.strides[0] || end - begin <= kShort)) {
    return add_columns(elements, begin, end, apart);
  }
  sum::Elements sequence = elements;
  for (std::int64_t i = 0; i < count_; ++i, sequence.data += apart) add_sequence(sums_[i], sequence, begin, end);
}

template <typename Float>
void Sums<Float>::add_sequence(Sum& sum, const sum::Elements& elements, std::int64_t begin, std::int64_t end) {
  const bool in_place = elements.type == kType<Float> && elements.dims == 1 && elements.strides[0] == kSize;
  for (std::int64_t i = begin; i < end; i += kTile) {
    const std::int64_t n = std::min(kTile, end - i);
    const std::byte* row = elements.data + i * kSize;
    if (!in_place) {
      kernels_.gather(elements, i, n, tile_);
      row = reinterpret_cast<const std::byte*>(tile_);
    }
    add_tile({row, 1, 0, n}, &sum, true);
  }
  flush_bins(&sum, true);
}

template <typename Float>
void Sums<Float>::add_columns(const sum::Elements& elements, std::int64_t begin, std::int64_t end, std::int64_t apart) {
  const bool in_place = elements.type == kType<Float> && elements.dims == 1 && apart == kSize;
  const sum::Elements rows = interleaved(elements, count_, apart);
  const std::int64_t step = kTile / count_;
  for (std::int64_t i = begin; i < end; i += step) {
    const std::int64_t n = std::min(step, end - i);
    if (in_place) {
      add_tile({elements.data + i * elements.strides[0], n, elements.strides[0], count_}, sums_, false);
    } else {
      kernels_.gather(rows, i * count_, n * count_, tile_);
      add_tile({reinterpret_cast<const std::byte*>(tile_), n, count_ * kSize, count_}, sums_, false);
    }
  }
  flush_bins(sums_, false);
}

/// Adds columns to a sum each, or, if it is a row, all elements to one.
template <typename Float>
void Sums<Float>::add_tile(Tile tile, Sum* sums, bool is_row) {
  Extent<Float> extent = kernels_.extent(tile);
  if (extent.most >= kInfinity<Float>) {
    tile = without_specials(tile, sums, is_row);
    extent = kernels_.extent(tile);
  }
  for (std::int64_t c = 0; c < (is_row ? 1 : tile.width); ++c) {
    bool& other = sums[c].kinds.other;
    other |= !extent.minus_zero;
    for (std::int64_t i = 0; !other && i < (is_row ? tile.width : tile.rows); ++i) {
      other = read<Bits>(tile.data + (is_row ? i * kSize : i * tile.row_stride + c * kSize)) != kMinusZero;
    }
  }
  if (extent.most == 0) return;

  const int least = std::max<int>(1, static_cast<int>((extent.least + 1) >> kMantissa));
  const int most = std::max<int>(1, static_cast<int>(extent.most >> kMantissa));
  const auto n = static_cast<std::uint64_t>(is_row ? tile.width : tile.rows);
  if (kMantissa + 1 + most - least + std::bit_width(n) >= static_cast<int>(8 * sizeof(Multiple))) {
    return add_to_bins(tile, sums, is_row);
  }
  if (is_row) return add_multiple(*sums, kernels_.sum_row(tile.data, tile.width, least), least);
  Multiple multiples[kMaxSums] = {};
  kernels_.add_columns(tile, least, multiples);
  for (std::int64_t c = 0; c < tile.width; ++c) add_multiple(sums[c], multiples[c], least);
}

/// Notes NaNs and infinities; a copy of the tile has zeros in their places.
template <typename Float>
Tile Sums<Float>::without_specials(const Tile& tile, Sum* sums, bool is_row) {
  Float* out = tile_;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    for (std::int64_t c = 0; c < tile.width; ++c, ++out) {
      auto bits = read<Bits>(tile.data + r * tile.row_stride + c * kSize);
      const Bits magnitude = bits & ~kMinusZero;
      if (magnitude >= kInfinity<Float>) {
        Kinds& kinds = sums[is_row ? 0 : c].kinds;
        (magnitude > kInfinity<Float> ? kinds.nan : bits == magnitude ? kinds.plus_inf : kinds.minus_inf) = true;
        bits = 0;
      }
      std::memcpy(out, &bits, sizeof(bits));
    }
  }
  return {reinterpret_cast<const std::byte*>(tile_), tile.rows, tile.width * kSize, tile.width};
}

template <typename Float>
void Sums<Float>::add_multiple(Sum& sum, Multiple value, int field) {
  if (!sum.has_limbs && sum.first == 0) {
    sum.first = value;
    sum.field = field;
  } else {
    add_to_limbs(sum, value, field);
  }
}

template <typename Float>
void Sums<Float>::add_to_limbs(Sum& sum, Multiple value, int field) {
  std::int64_t* limbs = sum.words + kFirstLimb;
  if (!sum.has_limbs) {
    sum.has_limbs = true;
    std::fill_n(limbs, Layout::kLimbs, 0);
    add_to_limbs(sum, sum.first, sum.field);
  }
  if constexpr (sizeof(Multiple) == 8) {
    add_at(limbs, value, field);
  } else {
    add_at(limbs, static_cast<std::int64_t>(value & INT64_MAX), field);
    add_at(limbs, static_cast<std::int64_t>(value >> 63), field + 63);
  }
  if (++sum.added == std::int64_t{1} << 28) {
    normalize<Layout>(limbs);
    sum.added = 0;
  }
}

template <typename Float>
void Sums<Float>::add_to_bins(const Tile& tile, Sum* sums, bool is_row) {
  if (!bins_) bins_ = std::make_unique<Bin[][kBins]>(static_cast<std::size_t>(std::max(count_, kLanes)));
  const std::int64_t n = is_row ? (tile.width + kLanes - 1) / kLanes : tile.rows;
  if (binned_ + n > kMostBinned) flush_bins(sums, is_row);
  binned_ += n;
  const auto add = [](Bin* bins, const std::byte* from) {
    const auto bits = read<Bits>(from);
    const int field = static_cast<int>(bits >> kMantissa & ((1 << kFieldBits) - 1));
    constexpr Bits kLeading = Bits{1} << kMantissa;
    const Bits mantissa = (bits & (kLeading - 1)) | (field > 0 ? kLeading : 0);
    const int shift = field > 0 ? field % (1 << kLower) : 1;
    bins[bits >> (kMantissa + kLower)] += static_cast<Bin>(mantissa) << shift;
  };
  if (is_row) {
    std::int64_t i = 0;
    for (; i + kLanes <= tile.width; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) add(bins_[lane], tile.data + (i + lane) * kSize);
    }
    for (; i < tile.width; ++i) add(bins_[0], tile.data + i * kSize);
  } else {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const std::byte* row = tile.data + r * tile.row_stride;
      for (std::int64_t c = 0; c < tile.width; ++c) add(bins_[c], row + c * kSize);
    }
  }
}

template <typename Float>
void Sums<Float>::flush_bins(Sum* sums, bool is_row) {
  if (binned_ == 0) return;
  constexpr int kNegative = kBins / 2;
  for (std::int64_t set = 0; set < (is_row ? kLanes : count_); ++set) {
    Bin* bins = bins_[set];
    for (int b = 0; b < kNegative; ++b) {
      const auto value = static_cast<Multiple>(bins[b] - bins[b + kNegative]);
      if (value != 0) add_to_limbs(sums[is_row ? 0 : set], value, b << kLower);
    }
    std::fill_n(bins, kBins, Bin{0});
  }
  binned_ = 0;
}

template <typename Float>
template <typename Result>
Result Sums<Float>::rounded(std::int64_t i, Rounding rounding) {
  Sum& sum = sums_[i];
  write_kinds<Layout>(sum.words, sum.kinds);
  const bool special = sum.kinds.nan || sum.kinds.plus_inf || sum.kinds.minus_inf;
  if (sum.has_limbs) return round_state<Layout, Result>(sum.words, rounding);
  if (sum.first == 0 || special) {
    std::fill_n(sum.words + kFirstLimb, Layout::kLimbs, 0);
    return round_state<Layout, Result>(sum.words, rounding);
  }
  const bool negative = sum.first < 0;
  const Bin magnitude = negative ? -static_cast<Bin>(sum.first) : static_cast<Bin>(sum.first);
  return round_integer<Result>(negative, magnitude, Layout::kLowest + sum.field, rounding);
}

template <typename Float>
void Sums<Float>::write_state(std::int64_t i, std::int64_t* words) {
  Sum& sum = sums_[i];
  if (!sum.has_limbs) add_to_limbs(sum, 0, 1);
  write_kinds<Layout>(sum.words, sum.kinds);
  normalize<Layout>(sum.words + kFirstLimb);
  std::copy_n(sum.words, Layout::kWords, words);
}

template class Sums<float>;
template class Sums<double>;
template float Sums<float>::rounded(std::int64_t, Rounding);
template double Sums<float>::rounded(std::int64_t, Rounding);
template float Sums<double>::rounded(std::int64_t, Rounding);
template double Sums<double>::rounded(std::int64_t, Rounding);

}  // namespace reduce_ops::exact
