// The state of an exact sum: what its words mean, how elements and carries get into them, how they are rounded. No
// PyTorch. On a GPU a warp resolves carries (digits.cuh); what both do is marked as such.
//
// A state is a run of int64 words in which everything merges by addition, so that `a + b`, an all-reduce and a running
// sum of states are exact:
//
//     word 0      how many tensors with elements were added up, times (tag of the layout << 32) + 1
//     words 1..3  how many of those tensors have a sum of NaN, of +Inf, of -Inf
//     word 4      how many of them hold an element other than -0.0
//     words 5..   limbs, low to high: limb k weighs 2^(32 k + lowest)
//
// A fresh state is normalized: every limb but the last is in [0, 2^32), and the last one, which is signed, holds the
// rest; where the sum is no number, all limbs are 0. That is one way to write a sum, so fresh states of the same
// elements have the same bits.

#pragma once

#include "device/standard.cuh"

namespace reduce_ops::exact {

enum Word : int { kHeader, kNaNs, kPlusInfs, kMinusInfs, kOthers, kFirstLimb };

inline constexpr int kLimbBits = 32;
inline constexpr uint64_t kLimbMask = (uint64_t{1} << kLimbBits) - 1;
inline constexpr int kCountBits = 30;  // up to 2^30 fresh states may be added up

/// Elements are sums of powers of two from 2^(kLowest_ + 1) to 2^(kBeyond - 1).
template <int kTag_, int kLowest_, int kBeyond, int kLimbs_>
struct Layout {
  static constexpr int64_t kTag = kTag_;
  static constexpr int kLowest = kLowest_;  // what exponent field 0 would be the exponent of
  static constexpr int kLimbs = kLimbs_;
  static constexpr int kWords = kFirstLimb + kLimbs;
  static constexpr int64_t kOne = (kTag << 32) + 1;  // word 0 of a fresh state

  // 2^30 limbs of 32 bits, and carries in, stay below 2^63. The sum of 2^63 elements reaches 2^kBeyond times that, of
  // which the last limb holds what is left of the others: with the sign and 2^30 states that has to fit 64 bits too.
  static_assert(kLimbBits + kCountBits < 63);
  static_assert(kBeyond + 63 - (kLowest + kLimbBits * (kLimbs - 1)) + kCountBits < 63);
  static_assert((kTag - 1) << kCountBits < int64_t{1} << 32);  // so that counts of tags from 1 to kTag cannot meet
};

/// Of float32 and everything that it holds (float8, float16, bfloat16): m * 2^(e - 150) with e the exponent field, at
/// least 1.
using Layout32 = Layout<1, -150, 128, 11>;
/// Of float64: m * 2^(e - 1075).
using Layout64 = Layout<2, -1075, 1024, 68>;
/// Of the squares of such elements: m^2 * 2^(2 e - 300), and m^2 * 2^(2 e - 2150) of float64. The two share a tag, for
/// their states differ in length.
using SquaresLayout32 = Layout<4, -300, 256, 20>;
using SquaresLayout64 = Layout<4, -2150, 2048, 134>;
static_assert(Layout32::kWords == 16 && Layout64::kWords == 73);
static_assert(SquaresLayout32::kWords == 25 && SquaresLayout64::kWords == 139);

/// Of bool and integers: word 1 is the sum, which wraps as that of reduce::sum.
struct LayoutInt {
  static constexpr int64_t kTag = 3;
  static constexpr int kWords = 2;
  static constexpr int64_t kOne = (kTag << 32) + 1;
};

/// What is added up of each element.
enum class Term : int16_t { element, magnitude, square };

/// What there is among the terms of a tensor.
struct Kinds {
  bool nan;
  bool plus_inf;
  bool minus_inf;
  bool other;  // than -0.0

  REDUCE_OPS_ANYWHERE bool special() const { return nan || plus_inf || minus_inf; }
};

/// Writes words 0 to 4 of the fresh state of a tensor that has elements.
template <typename Layout>
REDUCE_OPS_ANYWHERE inline void write_kinds(int64_t* words, Kinds kinds) {
  const bool nan = kinds.nan || (kinds.plus_inf && kinds.minus_inf);
  words[kHeader] = Layout::kOne;
  words[kNaNs] = nan;
  words[kPlusInfs] = kinds.plus_inf && !nan;
  words[kMinusInfs] = kinds.minus_inf && !nan;
  words[kOthers] = kinds.other;
}

/// Calls call(layout) with that of states of floats of so many words.
template <typename Call>
auto with_layout(int64_t words, const Call& call) {
  return words == Layout32::kWords          ? call(Layout32())
         : words == Layout64::kWords        ? call(Layout64())
         : words == SquaresLayout32::kWords ? call(SquaresLayout32())
                                            : call(SquaresLayout64());
}

/// Whether word 0 can be that of up to 2^30 states of this layout.
template <typename Layout>
REDUCE_OPS_ANYWHERE inline bool is_header(int64_t header) {
  const uint64_t count = static_cast<uint64_t>(header) & kLimbMask;
  const uint64_t of_so_many = count * static_cast<uint64_t>(Layout::kOne);  // wraps, as the sum did
  return count <= uint64_t{1} << kCountBits && static_cast<uint64_t>(header) == of_so_many;
}

/// Resolves carries.
template <typename Layout>
inline void normalize(int64_t* limbs) {
  for (int k = 0; k < Layout::kLimbs - 1; ++k) {
    limbs[k + 1] += limbs[k] >> kLimbBits;
    limbs[k] &= static_cast<int64_t>(kLimbMask);
  }
}

/// Makes words, of which limbs are there but may have carries left, the fresh state of a tensor that has elements.
template <typename Layout>
inline void write_fresh(int64_t* words, Kinds kinds) {
  write_kinds<Layout>(words, kinds);
  normalize<Layout>(words + kFirstLimb);
  for (int k = kFirstLimb; kinds.special() && k < Layout::kWords; ++k) words[k] = 0;
}

/// Adds value * 2^(lowest + position), without resolving carries; there must be two limbs above the one of `position`.
/// It moves no limb by 2^32 or more, so 2^30 of it fit before normalize().
inline void add_at(int64_t* limbs, int64_t value, int position) {
  const int k = position / kLimbBits;
  const int shift = position % kLimbBits;
  const uint64_t low = (static_cast<uint64_t>(value) & kLimbMask) << shift;
  const int64_t high = (value >> kLimbBits) * (int64_t{1} << shift) + static_cast<int64_t>(low >> 32);
  limbs[k] += static_cast<int64_t>(low & kLimbMask);
  limbs[k + 1] += high & static_cast<int64_t>(kLimbMask);
  limbs[k + 2] += high >> kLimbBits;
}

// ---- rounding ----

enum class Rounding {
  nearest,  // to nearest, ties to even
  odd,      // what is not exact becomes the neighbour with an odd last bit, and nothing overflows: a float32 made that
            // way rounds to nearest in a format of 22 bits or less as the exact value would
};

template <typename Float>
struct Format;
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int kPrecision = 24;
  static constexpr int kLeastExponent = -126;
  static constexpr int kMostExponent = 127;
};
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int kPrecision = 53;
  static constexpr int kLeastExponent = -1022;
  static constexpr int kMostExponent = 1023;
};

template <typename Float>
REDUCE_OPS_ANYWHERE inline Float from_bits(typename Format<Float>::Bits bits) {
  Float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

template <typename Float>
REDUCE_OPS_ANYWHERE inline Float signed_float(bool negative, typename Format<Float>::Bits magnitude) {
  using Bits = typename Format<Float>::Bits;
  return from_bits<Float>(magnitude | static_cast<Bits>(negative) << (8 * sizeof(Bits) - 1));
}

template <typename Float>
constexpr typename Format<Float>::Bits kInfinity =
    static_cast<typename Format<Float>::Bits>(Format<Float>::kMostExponent - Format<Float>::kLeastExponent + 2)
    << (Format<Float>::kPrecision - 1);
template <typename Float>
constexpr typename Format<Float>::Bits kQuietNaN = kInfinity<Float> | kInfinity<Float> >> 1;

/// significand * 2^(exponent - 63), where bit 63 of the significand is set and the last one also stands for whatever
/// lies below it.
template <typename Float>
REDUCE_OPS_ANYWHERE inline Float round_normalized(bool negative, uint64_t significand, int exponent,
                                                  Rounding rounding) {
  using F = Format<Float>;
  using Bits = typename F::Bits;
  if (exponent > F::kMostExponent) {
    return signed_float<Float>(negative, rounding == Rounding::odd ? kInfinity<Float> - 1 : kInfinity<Float>);
  }
  const int below = F::kLeastExponent > exponent ? F::kLeastExponent - exponent : 0;  // how far into the subnormals
  const int dropped = 64 - F::kPrecision + below;
  const uint64_t kept = dropped < 64 ? significand >> dropped : 0;
  const uint64_t rest = dropped <= 64 ? significand << (64 - dropped) : 1;  // as a fraction of the last kept bit
  const uint64_t half = uint64_t{1} << 63;
  const bool up = rounding == Rounding::odd ? rest != 0 && kept % 2 == 0 : rest > half || (rest == half && kept % 2);
  // The leading bit of a normal number counts the exponent field up by one, and a carry out of the others once more.
  const int field = below > 0 ? 0 : exponent - F::kLeastExponent;
  const Bits magnitude = (static_cast<Bits>(field) << (F::kPrecision - 1)) + static_cast<Bits>(kept) + up;
  return signed_float<Float>(negative, magnitude);
}

/// What becomes of a sum: it is divided, by a number of elements, or its square root is taken; then it is rounded once.
struct Finish {
  Rounding rounding;
  bool root = false;    // only where divisor is 1
  int64_t divisor = 1;  // more than 0
};

/// (significand + f) * 2^(exponent - 127) / divisor, where bit 127 of the significand is set and 0 <= f < 1. more:
/// whether f is not 0.
///
/// Rounded once, for floor((significand + f) / divisor) is floor(significand / divisor): the remainder of the latter is
/// divisor - 1 at most, and stays less than the divisor when f is added. The quotient has 65 bits or more, the divisor
/// having 63 at most. It is exact if that remainder and f are 0.
template <typename Float>
REDUCE_OPS_ANYWHERE inline Float round_quotient(bool negative, unsigned __int128 significand, bool more, int exponent,
                                                Finish finish) {
  const unsigned __int128 quotient = significand / static_cast<uint64_t>(finish.divisor);
  more = more || quotient * static_cast<uint64_t>(finish.divisor) != significand;
  int zeros = 0;  // at most 63
  for (int step = 32; step > 0; step /= 2) {
    if (quotient << zeros >> (128 - step) == 0) zeros += step;
  }
  const unsigned __int128 normalized = quotient << zeros;
  more = more || static_cast<uint64_t>(normalized) != 0;
  const uint64_t top = static_cast<uint64_t>(normalized >> 64);
  return round_normalized<Float>(negative, top | static_cast<uint64_t>(more), exponent - zeros, finish.rounding);
}

/// floor(sqrt(x)) of an x from 2^126 on. exact: whether that is the root of x itself.
///
/// The root s of the high half, and its remainder r, are found first. With x = h * 2^64 + m * 2^32 + l, the root of x
/// is s * 2^32 + q or one less, where q = floor((r * 2^32 + m) / (2 s)): one step of the division that P. Zimmermann's
/// "Karatsuba square root" (1999) is made of, which needs bit 63 or 62 of h to be set.
REDUCE_OPS_ANYWHERE inline uint64_t root_of(unsigned __int128 x, bool* exact) {
  const uint64_t high = static_cast<uint64_t>(x >> 64), low = static_cast<uint64_t>(x);
  // A float64 has 53 bits, so this root of 32 bits may be one too many or one too few, in any rounding mode.
  uint64_t s = static_cast<uint64_t>(std::sqrt(static_cast<double>(high)));
  s = s > kLimbMask ? kLimbMask : s;
  if (s * s > high) --s;
  if (high - s * s > 2 * s) ++s;
  const uint64_t rest = high - s * s;                           // at most 2 s, which has 33 bits
  const uint64_t half = rest << 31 | low >> 33;                 // of r * 2^32 + m, which may have 65 bits
  const uint64_t q = half / s;                                  // at most 2^32
  const uint64_t left = (half - q * s) << 1 | (low >> 32 & 1);  // less than 2 s
  uint64_t root = (s << 32) + q;
  __int128 remainder = static_cast<__int128>(left) << 32 | static_cast<__int128>(low & kLimbMask);
  remainder -= static_cast<__int128>(static_cast<unsigned __int128>(q) * q);
  if (remainder < 0) {
    --root;
    remainder += static_cast<__int128>(root) * 2 + 1;
  }
  *exact = remainder == 0;
  return root;
}

/// The square root of (significand + f) * 2^(exponent - 127), where bit 127 of the significand is set and 0 <= f < 1.
/// more: whether f is not 0.
///
/// Rounded once, for floor(sqrt(x + f)) is floor(sqrt(x)) for an integer x: no square of an integer lies between x and
/// x + f. The root has 64 bits, 11 more than any format. It is exact if x is a square and f is 0. (docs/exact.md)
template <typename Float>
REDUCE_OPS_ANYWHERE inline Float round_root(unsigned __int128 significand, bool more, int exponent, Rounding rounding) {
  const int odd = exponent & 1;  // then the power of two is even, and else after a shift by one
  more = more || (odd == 0 && (significand & 1) != 0);
  bool exact;
  const uint64_t root = root_of(significand >> (1 - odd), &exact);
  return round_normalized<Float>(false, root | static_cast<uint64_t>(more || !exact), exponent >> 1, rounding);
}

/// The value of limbs, as `finish` has it. Overwrites them.
template <typename Layout, typename Float>
inline Float round_limbs(int64_t* limbs, Finish finish) {
  constexpr int kLast = Layout::kLimbs - 1;
  normalize<Layout>(limbs);
  const bool negative = limbs[kLast] < 0;
  if (negative) {
    for (int k = 0; k <= kLast; ++k) limbs[k] = -limbs[k];
    normalize<Layout>(limbs);
  }
  int top = kLast;
  while (top >= 0 && limbs[top] == 0) --top;
  if (top < 0) return 0;
  // The 128 bits from the leading one on. The last limb may have more than 32 itself.
  const auto limb = [&](int k) { return k >= 0 ? static_cast<uint64_t>(limbs[k]) : 0; };
  const int zeros = __builtin_clzll(limb(top));
  const uint64_t below = limb(top - 3) << 32 | limb(top - 4);
  unsigned __int128 significand = limb(top);
  significand = (significand << 64 | limb(top - 1) << 32 | limb(top - 2)) << zeros;
  if (zeros > 0) significand |= below >> (64 - zeros);
  bool more = below << zeros != 0;
  for (int k = 0; k < top - 4; ++k) more |= limbs[k] != 0;
  const int exponent = Layout::kLowest + kLimbBits * top + 63 - zeros;
  if (finish.divisor > 1) return round_quotient<Float>(negative, significand, more, exponent, finish);
  if (finish.root && negative) return from_bits<Float>(kQuietNaN<Float>);
  if (finish.root) return round_root<Float>(significand, more, exponent, finish.rounding);
  more |= static_cast<uint64_t>(significand) != 0;
  return round_normalized<Float>(negative, static_cast<uint64_t>(significand >> 64) | more, exponent, finish.rounding);
}

/// The value of a state, as `finish` has it. Overwrites its limbs; with a header of another layout it is NaN.
template <typename Layout, typename Float>
inline Float round_state(int64_t* words, Finish finish) {
  const bool plus = words[kPlusInfs] != 0, minus = words[kMinusInfs] != 0;
  if (words[kNaNs] != 0 || (plus && minus) || !is_header<Layout>(words[kHeader])) {
    return from_bits<Float>(kQuietNaN<Float>);
  }
  if (plus || minus) return signed_float<Float>(minus, kInfinity<Float>);
  if (words[kHeader] != 0 && words[kOthers] == 0) return signed_float<Float>(true, 0);
  return round_limbs<Layout, Float>(words + kFirstLimb, finish);
}

}  // namespace reduce_ops::exact
