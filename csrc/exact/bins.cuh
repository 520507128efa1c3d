// Where the elements of an exact sum go: bins, each of which takes only elements of neighbouring exponents, and only so
// many that no addition rounds. A lane has bins of its own, a column in shared memory: no atomics, no bank conflicts,
// and no branch on the data, so that all data take the same time.
//
// An element with exponent field e is m * 2^(e - bias), with e at least 1. Bin b takes those with e / width == b, which
// are multiples of one unit, 2^(width * b - bias).
//
//     elements                        bins           width  below, in units  additions to a bin that round nothing
//     float16, float8                 64 of float32  4      2^(11 + 3)       2^10, in 24 bits
//     bfloat16                        64 of float32  4      2^(8 + 3)        2^13, in 24 bits
//     float32                         16 of float64  16     2^(24 + 15)      2^14, in 53 bits
//     float64, in 3 parts             68 of int64    32     2^32             2^31, in 63 bits
//     squares of float32, in 2 parts  34 of int64    16     2^32             2^31, in 63 bits
//     squares of float64, in 5 parts  134 of int64   32     2^32             2^31, in 63 bits
//
// A square is m^2 * 2^(2 (e - bias)), so its exponent field counts as 2 e.
//
// The bins b of 32 lanes, or warps, are added up in float64 before a lane has added more than kAdditions elements,
// which is exact by the same count (so 2^9 a lane for float32), and kept as an int64 number of units. Special values
// come free: -0.0 stays -0.0 until something else is added, NaN and infinities stick in the last bin, and subnormals
// need no care, as long as they are not flushed to zero.

#pragma once

#include "device/numeric.cuh"
#include "exact/arguments.cuh"
#include "exact/state.h"

namespace reduce_ops::exact {

inline constexpr int kWarpSize = 32;

/// What a sum, or a part of one, holds: bits. More than one special bit is NaN too.
enum Kind : unsigned { kIsNaN = 1, kIsPlusInf = 2, kIsMinusInf = 4, kIsSpecial = 7, kIsOther = 8 };

__device__ inline unsigned kind_of_special(double x) { return isnan(x) ? kIsNaN : x > 0 ? kIsPlusInf : kIsMinusInf; }

/// Bins of floating point. Elements are multiplied by 2^kScale, so that the last bin does not overflow; the least unit
/// of bfloat16, 2^-133, is then 2^-147, which float32 has.
template <typename BinT, int kBinsT, int kWidthT, int kPrecision, int kScale>
struct FloatingBins {
  using Bin = BinT;
  using Total = double;
  using Element = float;
  using State = Layout32;
  static constexpr int kBins = kBinsT;
  static constexpr int kWidth = kWidthT;
  static constexpr int kRow = kWarpSize * static_cast<int>(sizeof(Bin));  // bytes of the bins b of a warp
  static constexpr int kBytes = kBins * kRow;                             // of those of a warp

  /// Of a lane, before merge(): a bin of its own is exact, and so are 32 of them in float64.
  static constexpr int kBinBits = sizeof(Bin) == 4 ? 24 : 53;
  static constexpr int kElementBits = kPrecision + kWidth - 1;
  static constexpr int kAdditions = 1 << (kBinBits - kElementBits - (sizeof(Bin) == 4 ? 0 : 5));
  static_assert(kBins * kWidth == 256, "every exponent of float32 has a bin");
  static_assert(kBinBits + (sizeof(Bin) == 4 ? 5 : 0) <= 53, "32 bins add up in float64");
  // units() counts in those of a float32 of that bin, of 24 bits.
  static_assert(max_elements_a_block({sizeof(Bin) == 4 ? 2 : 4, false}) <= int64_t{1} << (63 - (24 + kWidth - 1)),
                "totals fit int64");
  static_assert(sizeof(Bin) > 4 || 2 * kAdditions <= 1 << -kScale,
                "sums of elements below 2^(128 + kScale) stay below 2^127");

  static __device__ Bin empty() { return Bin(-0.0); }

  /// Adds x to its bin. offset: of this lane's first bin in `shared`; has no bits in common with those of a row.
  static __device__ void add(char* shared, unsigned offset, float x, unsigned&) {
    Bin& bin = *bin_of(shared, offset, x);
    bin = plus(bin, x);
  }

  /// The same for two elements, whose bins are read together: a lane waits half as often (H200, float32: 2^22 9.1 us
  /// instead of 9.4, 2^28 0.4 % less).
  static __device__ void add(char* shared, unsigned offset, float x, float y, unsigned&) {
    Bin& bin = *bin_of(shared, offset, x);
    Bin& other = *bin_of(shared, offset, y);
    const Bin in_other = other;
    const Bin sum = plus(bin, x);
    bin = sum;
    other = plus(&bin == &other ? sum : in_other, y);
  }

  /// A total as a number of units, where it is one.
  static __device__ int64_t units(int b, double total, unsigned& kinds) {
    if (__double_as_longlong(total) == __double_as_longlong(-0.0)) return 0;
    kinds |= kIsOther;
    if (!isfinite(total)) {
      kinds |= kind_of_special(total);
      return 0;
    }
    const int exponent = -State::kLowest - kScale - kWidth * b;
    return static_cast<int64_t>(total * __longlong_as_double(static_cast<int64_t>(1023 + exponent) << 52));
  }

 private:
  static __device__ Bin* bin_of(char* shared, unsigned offset, float x) {
    constexpr int kBelow = (kWidth == 4 ? 25 : 27) - (kRow == 128 ? 7 : 8);  // bits to where b times kRow begins
    static_assert(kRow == 128 || kRow == 256);
    const unsigned row = __float_as_uint(x) >> kBelow & (kBins - 1) * kRow;
    return reinterpret_cast<Bin*>(shared + (offset | row));
  }

  static __device__ Bin plus(Bin bin, float x) {
    if constexpr (kScale == 0) {
      return bin + x;
    } else {
      return __fmaf_rn(x, 1.0f / (1 << -kScale), bin);
    }
  }
};

/// Bins of integers: an element is cut into three parts of 32 bits, where the bins' boundaries are.
struct IntegerBins {
  using Bin = int64_t;
  using Total = int64_t;
  using Element = double;
  using State = Layout64;
  static constexpr int kBins = State::kLimbs;
  static constexpr int kWidth = 32;
  static constexpr int kRow = kWarpSize * static_cast<int>(sizeof(Bin));
  static constexpr int kBytes = kBins * kRow;
  static constexpr int kAdditions = max_elements_a_block({8, false});
  static_assert(kAdditions <= int64_t{1} << (63 - kWidth), "totals fit int64");

  static __device__ Bin empty() { return 0; }

  static __device__ void add(char* shared, unsigned offset, double x, unsigned& kinds) {
    const int high = __double2hiint(x);
    const int low = __double2loint(x);
    const unsigned field = static_cast<unsigned>(high) >> 20 & 0x7ff;
    if (((high & 0x7fffffff) | low) != 0 || high == 0) kinds |= kIsOther;
    if (field == 0x7ff) kinds |= kind_of_special(x);  // what it adds below is of no account then
    const unsigned position = max(field, 1u);
    const unsigned top = (high & 0xfffff) | (field != 0 ? 1 << 20 : 0);
    const int64_t magnitude = static_cast<int64_t>(uint64_t{top} << 32 | static_cast<unsigned>(low));
    const int64_t m = high < 0 ? -magnitude : magnitude;
    const auto m_low = static_cast<unsigned>(m);
    const auto m_high = static_cast<unsigned>(m >> 32);
    const unsigned shift = position % 32;
    Bin* bin = reinterpret_cast<Bin*>(shared + offset + position / 32 * kRow);
    bin[0] += m_low << shift;
    bin[kWarpSize] += __funnelshift_l(m_low, m_high, shift);
    bin[2 * kWarpSize] += static_cast<int>(__funnelshift_l(m_high, static_cast<int>(m_high) >> 31, shift));
  }

  static __device__ void add(char* shared, unsigned offset, double x, double y, unsigned& kinds) {
    add(shared, offset, x, kinds);
    add(shared, offset, y, kinds);
  }

  static __device__ int64_t units(int, int64_t total, unsigned&) { return total; }
};

/// Bins of squares: integers, to which a square is added in parts of 32 bits.
template <typename ElementT, typename StateT, int kBinsT, int kWidthT>
struct SquareBins {
  using Bin = int64_t;
  using Total = int64_t;
  using Element = ElementT;
  using State = StateT;
  static constexpr int kBins = kBinsT;
  static constexpr int kWidth = kWidthT;
  static constexpr int kRow = kWarpSize * static_cast<int>(sizeof(Bin));
  static constexpr int kBytes = kBins * kRow;
  static constexpr int kAdditions = max_elements_a_block({sizeof(Element), true});
  static_assert(kAdditions <= int64_t{1} << (63 - kLimbBits), "totals fit int64");

  static __device__ Bin empty() { return 0; }

  static __device__ void add(char* shared, unsigned offset, Element x, unsigned& kinds) {
    using Bits = typename Format<Element>::Bits;
    constexpr int kMantissa = Format<Element>::kPrecision - 1;
    const Bits bits = bits_of(x) & ~(Bits{1} << (8 * sizeof(Bits) - 1));
    kinds |= bits > kInfinity<Element>    ? kIsOther | kIsNaN
             : bits == kInfinity<Element> ? kIsOther | kIsPlusInf
                                          : kIsOther;
    const auto field = static_cast<unsigned>(bits >> kMantissa);
    const Bits m = (bits & ((Bits{1} << kMantissa) - 1)) | static_cast<Bits>(field != 0) << kMantissa;
    const unsigned position = 2 * max(field, 1u);
    const unsigned shift = position % kWidth;
    Bin* bin = reinterpret_cast<Bin*>(shared + offset + position / kWidth * kRow);
    if constexpr (sizeof(Element) == 4) {
      const uint64_t square = uint64_t{m} * m << shift;  // 48 + 14 bits
      bin[0] += static_cast<unsigned>(square);
      bin[2 * kWarpSize] += static_cast<unsigned>(square >> 32);
    } else {
      const unsigned __int128 square = static_cast<unsigned __int128>(m) * m;  // 106 bits
      unsigned below = 0;
#pragma unroll
      for (int part = 0; part < 5; ++part) {
        const auto word = part < 4 ? static_cast<unsigned>(square >> (32 * part)) : 0;
        bin[part * kWarpSize] += __funnelshift_l(below, word, shift);
        below = word;
      }
    }
  }

  static __device__ void add(char* shared, unsigned offset, Element x, Element y, unsigned& kinds) {
    add(shared, offset, x, kinds);
    add(shared, offset, y, kinds);
  }

  static __device__ int64_t units(int, int64_t total, unsigned&) { return total; }

 private:
  static __device__ uint32_t bits_of(float x) { return __float_as_uint(x); }
  static __device__ uint64_t bits_of(double x) { return static_cast<uint64_t>(__double_as_longlong(x)); }
};

/// Elements of which something else is added up. They lie in memory as T does; kernels convert them to what their bins
/// take.
template <typename T>
struct Magnitude {
  T element;

  Magnitude() = default;
  __device__ explicit Magnitude(int) : element{} {}  // one that is missing
  template <typename Element>
  __device__ explicit operator Element() const {
    return fabs(convert<Element>(element));
  }
};
template <typename T>
struct Square {
  T element;

  Square() = default;
  __device__ explicit Square(int) : element{} {}
  template <typename Element>
  __device__ explicit operator Element() const {
    return convert<Element>(element);  // SquareBins square it
  }
};

template <typename In>
inline constexpr Terms kTerms{sizeof(In), false};
template <typename T>
inline constexpr Terms kTerms<Square<T>>{sizeof(T), true};

/// The bins of elements of a type.
template <typename In>
struct BinsOf {
  using Type = FloatingBins<float, 64, 4, 11, -14>;
};
template <>
struct BinsOf<bfloat16> {
  using Type = FloatingBins<float, 64, 4, 8, -14>;
};
template <>
struct BinsOf<float> {
  using Type = FloatingBins<double, 16, 16, 24, 0>;
};
template <>
struct BinsOf<double> {
  using Type = IntegerBins;
};
template <typename T>
struct BinsOf<Magnitude<T>> : BinsOf<T> {};
template <typename T>
struct BinsOf<Square<T>> {
  using Type = SquareBins<float, SquaresLayout32, 34, 16>;
};
template <>
struct BinsOf<Square<double>> {
  using Type = SquareBins<double, SquaresLayout64, SquaresLayout64::kLimbs, 32>;
};
template <typename In>
using Bins = typename BinsOf<In>::Type;

}  // namespace reduce_ops::exact
