#include "exact/squares_cpu.h"

#include <algorithm>
#include <span>

namespace reduce_ops::exact {

template <typename Float>
Squares<Float>::Squares(const sum::Elements& elements, std::int64_t begin, std::int64_t end, sum::Sequences sequences)
    : kernels_(best_kernels<Float>()) {
  const std::span<Sum> sums(sums_, static_cast<std::size_t>(sequences.count));
  for (Sum& sum : sums) {
    sum.kinds = {};
    sum.kinds.other = true;
    sum.added = 0;
    std::fill_n(sum.words + kFirstLimb, Layout::kLimbs, 0);
  }
  const bool in_place = lies_in_place<Float>(elements);
  // Sequences across memory share cache lines, and tiles are short enough for these to stay (1024 x 4096 float32 over
  // dimension 0 on a Xeon: 3.9 ns an element, 7.7 with tiles four times as long).
  const bool across = sequences.count > 1 && sequences.stride < elements.strides[0];
  const std::int64_t step = across ? kTile / 16 : kTile;
  for (std::int64_t i = begin; i < end; i += step) {
    const std::int64_t n = std::min(step, end - i);
    sum::Elements sequence = elements;
    for (Sum& sum : sums) {
      if (!in_place) kernels_.gather(sequence, i, n, tile_);
      add_tile(sum, in_place ? sequence.data + i * kSize : bytes(tile_), n);
      sequence.data += sequences.stride;
    }
  }
}

template <typename Float>
void Squares<Float>::add_tile(Sum& sum, const std::byte* floats, std::int64_t n) {
  Extent<Float> extent = kernels_.extent(floats, n);
  if (extent.most >= kInfinity<Float>) {
    const Kinds found = kernels_.finite(floats, n, tile_);
    sum.kinds.nan |= found.nan;
    sum.kinds.plus_inf |= found.plus_inf || found.minus_inf;
    floats = bytes(tile_);
    extent = kernels_.extent(floats, n);
  }
  if (extent.most == 0) return;
  const int least = std::max<int>(1, static_cast<int>((extent.least + 1) >> kMantissa));
  const int most = std::max<int>(1, static_cast<int>(extent.most >> kMantissa));
  if (most - least > Pieces<Float>::kSpan) {
    // Bins have to be cleared and emptied.
    return n < kBins / 4 ? add_one_by_one(sum, floats, n) : add_by_bins(sum, floats, n);
  }
  std::int64_t products[Pieces<Float>::kProducts];
  kernels_.square(floats, n, least, products);
  for (int i = 0; i < Pieces<Float>::kProducts; ++i) {
    sum.add(products[i], 2 * least + Pieces<Float>::kExponents[i]);
  }
}

template <typename Float>
void Squares<Float>::add_one_by_one(Sum& sum, const std::byte* floats, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Number<Float> x(read<Bits>(floats + i * kSize));
    sum.add_wide(static_cast<unsigned __int128>(x.significand) * x.significand, 2 * x.field);
  }
}

template <typename Float>
void Squares<Float>::add_by_bins(Sum& sum, const std::byte* floats, std::int64_t n) {
  unsigned __int128 bins[kBins] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    const Number<Float> x(read<Bits>(floats + i * kSize));
    const auto square = static_cast<unsigned __int128>(x.significand) * x.significand;
    bins[x.field >> kLower] += square << 2 * (x.field % (1 << kLower));
  }
  for (int b = 0; b < kBins; ++b) {
    if (bins[b] != 0) sum.add_wide(bins[b], 2 * (b << kLower));
  }
}

template <typename Float>
void Squares<Float>::Sum::add_wide(unsigned __int128 value, int position) {
  add(static_cast<std::int64_t>(value & INT64_MAX), position);
  add(static_cast<std::int64_t>(value >> 63), position + 63);
}

template <typename Float>
void Squares<Float>::Sum::add(std::int64_t value, int position) {
  add_at(words + kFirstLimb, value, position);
  if (++added == std::int64_t{1} << 28) {
    normalize<Layout>(words + kFirstLimb);
    added = 0;
  }
}

template <typename Float>
template <typename Result>
Result Squares<Float>::rounded(std::int64_t i, Finish finish) {
  Sum& sum = sums_[i];
  write_kinds<Layout>(sum.words, sum.kinds);
  return round_state<Layout, Result>(sum.words, finish);
}

template <typename Float>
void Squares<Float>::write_state(std::int64_t i, std::int64_t* words) {
  Sum& sum = sums_[i];
  write_fresh<Layout>(sum.words, sum.kinds);
  std::copy_n(sum.words, Layout::kWords, words);
}

template class Squares<float>;
template class Squares<double>;
template float Squares<float>::rounded(std::int64_t, Finish);
template double Squares<float>::rounded(std::int64_t, Finish);
template float Squares<double>::rounded(std::int64_t, Finish);
template double Squares<double>::rounded(std::int64_t, Finish);

}  // namespace reduce_ops::exact
