#include "exact/sums_cpu.h"

#include <algorithm>
#include <bit>
#include <span>

namespace reduce_ops::exact {
namespace {

// One core of an EPYC Zen 5, AVX-512, float32 in cache.

// Sequences up to this long are gathered as columns, many at once: rows of 32 normal numbers take 26 ns each that way
// and 46 one after the other, rows of 64 40 and 49, rows of 128 95 and 56.
constexpr std::int64_t kShort = 32;
// So many elements are added to limbs one by one, where bins would have to be emptied for them: of rows of 64 numbers
// of any exponent each takes 280 ns one by one, 164 through bins.
constexpr std::int64_t kFew = 32;
// From so many elements on a sequence takes several sets of bins in turn, which all have to be emptied: of rows of 64
// each takes 530 ns with four sets, 160 with one.
constexpr std::int64_t kLong = 2048;

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

/// magnitude * 2^exponent, divided and rounded; magnitude is not 0.
template <typename Result, typename Magnitude>
Result round_integer(bool negative, Magnitude magnitude, int exponent, Finish finish) {
  if (finish.divisor > 1) {
    const auto high = static_cast<std::uint64_t>(static_cast<unsigned __int128>(magnitude) >> 64);
    const int zeros = high != 0 ? std::countl_zero(high) : 64 + std::countl_zero(static_cast<std::uint64_t>(magnitude));
    const unsigned __int128 significand = static_cast<unsigned __int128>(magnitude) << zeros;
    return round_quotient<Result>(negative, significand, /*more=*/false, exponent + 127 - zeros, finish);
  }
  if constexpr (sizeof(Magnitude) > 8) {
    if (const auto high = static_cast<std::uint64_t>(magnitude >> 64); high != 0) {
      const int excess = std::bit_width(high);
      const bool more = (magnitude << (128 - excess)) != 0;
      const auto top = static_cast<std::uint64_t>(magnitude >> excess) | static_cast<std::uint64_t>(more);
      return round_normalized<Result>(negative, top, exponent + excess + 63, finish.rounding);
    }
  }
  const auto bits = static_cast<std::uint64_t>(magnitude);
  const int zeros = std::countl_zero(bits);
  return round_normalized<Result>(negative, bits << zeros, exponent + 63 - zeros, finish.rounding);
}

}  // namespace

template <typename Float>
Sums<Float>::Sums(const sum::Elements& elements, std::int64_t begin, std::int64_t end, sum::Sequences sequences)
    : kernels_(best_kernels<Float>()),
      elements_(end - begin),
      sequences_(sequences.count),
      as_columns_(sequences_ > 1 && (sequences.stride < elements.strides[0] || elements_ <= kShort)),
      sets_(as_columns_         ? sequences_
            : elements_ < kLong ? 1
                                : kLanes) {
  for (Sum& sum : std::span(sums_, sequences_)) {
    sum.kinds = {};
    sum.has_limbs = false;
    sum.field = 1;
    sum.first = 0;
    sum.added = 0;
  }
  if (as_columns_) {
    add_columns(elements, begin, end, sequences.stride);
    return;
  }
  sum::Elements sequence = elements;
  for (Sum& sum : std::span(sums_, sequences_)) {
    add_sequence(sum, sequence, begin, end);
    sequence.data += sequences.stride;
  }
}

template <typename Float>
void Sums<Float>::add_sequence(Sum& sum, const sum::Elements& elements, std::int64_t begin, std::int64_t end) {
  const bool in_place = lies_in_place<Float>(elements);
  for (std::int64_t i = begin; i < end; i += kTile) {
    const std::int64_t n = std::min(kTile, end - i);
    if (!in_place) kernels_.gather(elements, i, n, tile_);
    add_tile({in_place ? elements.data + i * kSize : bytes(tile_), 1, n}, &sum);
  }
  flush_bins(&sum);
}

template <typename Float>
void Sums<Float>::add_columns(const sum::Elements& elements, std::int64_t begin, std::int64_t end, std::int64_t apart) {
  const sum::Elements rows = interleaved(elements, sequences_, apart);
  const std::int64_t step = kTile / sequences_;
  for (std::int64_t i = begin; i < end; i += step) {
    const std::int64_t n = std::min(step, end - i);
    kernels_.gather(rows, i * sequences_, n * sequences_, tile_);
    add_tile({bytes(tile_), n, sequences_}, sums_);
  }
  flush_bins(sums_);
}

/// Adds each column to its sum or, of a single sequence, the row to the only one.
template <typename Float>
void Sums<Float>::add_tile(Tile tile, Sum* sums) {
  Extent<Float> extent = kernels_.extent(tile.floats, tile.rows * tile.width);
  if (extent.most >= kInfinity<Float>) {
    take_out_specials(tile, sums);
    extent = kernels_.extent(tile.floats, tile.rows * tile.width);
  }
  const std::int64_t n = as_columns_ ? tile.rows : tile.width;
  for (std::int64_t s = 0; s < (as_columns_ ? tile.width : 1); ++s) {
    bool& other = sums[s].kinds.other;
    other |= !extent.minus_zero;
    const std::byte* element = tile.floats + s * kSize;
    for (std::int64_t i = 0; !other && i < n; ++i) {
      other = read<Bits>(element + i * (as_columns_ ? tile.width : 1) * kSize) != kMinusZero;
    }
  }
  if (extent.most == 0) return;

  const int least = std::max<int>(1, static_cast<int>((extent.least + 1) >> kMantissa));
  const int most = std::max<int>(1, static_cast<int>(extent.most >> kMantissa));
  if (kPartBits<Float> + most - least + std::bit_width(static_cast<std::uint64_t>(n)) > 63) {
    elements_ <= kFew ? add_one_by_one(tile, sums) : add_to_bins(tile, sums);
  } else if (!as_columns_) {
    add_multiple(*sums, kernels_.sum(tile.floats, n, least), least);
  } else {
    Multiple multiples[kMaxSums];
    kernels_.sum_columns(tile.floats, n, tile.width, least, multiples);
    for (std::int64_t s = 0; s < tile.width; ++s) add_multiple(sums[s], multiples[s], least);
  }
}

/// Notes NaNs and infinities, and has zeros in their places in tile_.
template <typename Float>
void Sums<Float>::take_out_specials(Tile& tile, Sum* sums) {
  const auto note = [](Sum& sum, Kinds found) {
    sum.kinds.nan |= found.nan;
    sum.kinds.plus_inf |= found.plus_inf;
    sum.kinds.minus_inf |= found.minus_inf;
    sum.kinds.other = true;
  };
  const std::int64_t n = tile.rows * tile.width;
  for (std::int64_t i = 0; as_columns_ && i < n; ++i) {
    const std::byte* element = tile.floats + i * kSize;
    if ((read<Bits>(element) & ~kMinusZero) < kInfinity<Float>) continue;
    Float zero;
    note(sums[i % tile.width], kernels_.finite(element, 1, &zero));
  }
  const Kinds found = kernels_.finite(tile.floats, n, tile_);
  if (!as_columns_) note(*sums, found);
  tile.floats = bytes(tile_);
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
void Sums<Float>::add_one_by_one(const Tile& tile, Sum* sums) {
  for (std::int64_t i = 0; i < tile.rows * tile.width; ++i) {
    const Number<Float> x(read<Bits>(tile.floats + i * kSize));
    const auto magnitude = static_cast<Multiple>(x.significand);
    add_to_limbs(sums[as_columns_ ? i % tile.width : 0], x.negative ? -magnitude : magnitude, x.field);
  }
}

template <typename Float>
void Sums<Float>::add_to_bins(const Tile& tile, Sum* sums) {
  const std::int64_t n = tile.rows * tile.width;
  if (!bins_) bins_ = std::make_unique<Bin[][kBins]>(static_cast<std::size_t>(sets_));
  if (binned_ + n > kMostBinned) flush_bins(sums);
  binned_ += n;
  const auto add = [&](std::int64_t set, std::int64_t i) {
    const auto bits = read<Bits>(tile.floats + i * kSize);
    const Number<Float> x(bits);
    bins_[set][bits >> (kMantissa + kLower)] += static_cast<Bin>(x.significand) << x.field % (1 << kLower);
  };
  std::int64_t i = 0;
  if (as_columns_) {
    for (; i < n; i += tile.width) {
      for (std::int64_t set = 0; set < tile.width; ++set) add(set, i + set);
    }
  } else if (sets_ == kLanes) {
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t set = 0; set < kLanes; ++set) add(set, i + set);
    }
  }
  for (; i < n; ++i) add(0, i);
}

template <typename Float>
void Sums<Float>::flush_bins(Sum* sums) {
  if (binned_ == 0) return;
  constexpr int kNegative = kBins / 2;
  for (std::int64_t set = 0; set < sets_; ++set) {
    Bin* bins = bins_[set];
    for (int b = 0; b < kNegative; ++b) {
      const auto value = static_cast<Multiple>(bins[b] - bins[b + kNegative]);
      if (value != 0) add_to_limbs(sums[as_columns_ ? set : 0], value, b << kLower);
    }
    std::fill_n(bins, kBins, Bin{0});
  }
  binned_ = 0;
}

template <typename Float>
template <typename Result>
Result Sums<Float>::rounded(std::int64_t i, Finish finish) {
  Sum& sum = sums_[i];
  write_kinds<Layout>(sum.words, sum.kinds);
  if (sum.has_limbs) return round_state<Layout, Result>(sum.words, finish);
  if (sum.first == 0 || sum.kinds.special()) {
    std::fill_n(sum.words + kFirstLimb, Layout::kLimbs, 0);
    return round_state<Layout, Result>(sum.words, finish);
  }
  const bool negative = sum.first < 0;
  const Bin magnitude = negative ? -static_cast<Bin>(sum.first) : static_cast<Bin>(sum.first);
  return round_integer<Result>(negative, magnitude, Layout::kLowest + sum.field, finish);
}

template <typename Float>
void Sums<Float>::write_state(std::int64_t i, std::int64_t* words) {
  Sum& sum = sums_[i];
  if (!sum.has_limbs) add_to_limbs(sum, 0, 1);
  write_fresh<Layout>(sum.words, sum.kinds);
  std::copy_n(sum.words, Layout::kWords, words);
}

template class Sums<float>;
template class Sums<double>;
template float Sums<float>::rounded(std::int64_t, Finish);
template double Sums<float>::rounded(std::int64_t, Finish);
template float Sums<double>::rounded(std::int64_t, Finish);
template double Sums<double>::rounded(std::int64_t, Finish);

}  // namespace reduce_ops::exact
