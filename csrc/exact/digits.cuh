// The end of every kernel of the exact sum, done by one warp: from the totals of bins to limbs, from limbs to digits,
// and from those to the result.
//
// Digits are a sum in two's complement, 32 bits each, without carries left, and so the one way to write it. A lane has
// every 32nd of them. All carries are resolved at once, by ballots, in about 0.1 us; limb by limb in one thread it took
// 1 us, and twice that with a negative sum.

#pragma once

#include "device/numeric.cuh"
#include "exact/arguments.cuh"
#include "exact/bins.cuh"
#include "exact/state.h"

namespace reduce_ops::exact {

/// Limb k of the sum of the totals of all bins, which lie `stride` apart. A total reaches over three limbs. Carries are
/// left unresolved.
template <typename Bins>
__device__ int64_t limb_of(const int64_t* totals, int stride, int k) {
  constexpr int kALimb = kLimbBits / Bins::kWidth;  // bins
  int64_t limb = 0;
#pragma unroll
  for (int part = 0; part < 3; ++part) {
#pragma unroll
    for (int i = 0; i < kALimb; ++i) {
      const int b = (k - part) * kALimb + i;
      if (b < 0 || b >= Bins::kBins) continue;
      const int64_t total = totals[b * stride];
      const int shift = i * Bins::kWidth;
      const uint64_t low = (static_cast<uint64_t>(total) & kLimbMask) << shift;
      const int64_t high = ((total >> kLimbBits) << shift) + static_cast<int64_t>(low >> kLimbBits);
      limb += part == 0   ? static_cast<int64_t>(low & kLimbMask)
              : part == 1 ? static_cast<int64_t>(high & kLimbMask)
                          : high >> kLimbBits;
    }
  }
  return limb;
}

/// Bits of more digits than an integer has: three words of 64, the lowest first.
struct WideMask {
  uint64_t word[3];

  WideMask() = default;
  __device__ WideMask(uint64_t low) : word{low, 0, 0} {}
  __device__ explicit operator uint32_t() const { return static_cast<uint32_t>(word[0]); }

  __device__ WideMask operator~() const {
    return by_word([this](int i) { return ~word[i]; });
  }
  __device__ WideMask operator&(const WideMask& other) const {
    return by_word([&](int i) { return word[i] & other.word[i]; });
  }
  __device__ WideMask operator^(const WideMask& other) const {
    return by_word([&](int i) { return word[i] ^ other.word[i]; });
  }
  __device__ WideMask& operator|=(const WideMask& other) {
    return *this = by_word([&](int i) { return word[i] | other.word[i]; });
  }
  __device__ WideMask operator+(const WideMask& other) const {
    uint64_t carry = 0;
    return by_word([&](int i) {
      const uint64_t sum = word[i] + other.word[i];
      const uint64_t result = sum + carry;
      carry = (sum < word[i] ? 1 : 0) + (result < sum ? 1 : 0);
      return result;
    });
  }
  __device__ WideMask operator-() const { return ~*this + 1; }
  __device__ WideMask operator<<(int shift) const {
    return by_word([&](int i) { return bits_from(64 * i - shift); });
  }
  __device__ WideMask operator>>(int shift) const {
    return by_word([&](int i) { return bits_from(64 * i + shift); });
  }
  __device__ bool operator==(const WideMask& other) const {
    return ((word[0] ^ other.word[0]) | (word[1] ^ other.word[1]) | (word[2] ^ other.word[2])) == 0;
  }
  __device__ int leading_zeros() const {
    const auto zeros = [this](int i) { return __clzll(static_cast<long long>(word[i])); };
    return word[2] != 0 ? zeros(2) : word[1] != 0 ? 64 + zeros(1) : 128 + zeros(0);
  }

 private:
  template <typename Word>
  __device__ static WideMask by_word(const Word& of) {
    WideMask result;
#pragma unroll
    for (int i = 0; i < 3; ++i) result.word[i] = of(i);
    return result;
  }

  /// The 64 bits from bit `first` on, which may lie outside.
  __device__ uint64_t bits_from(int first) const {
    uint64_t result = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int up = 64 * i - first;  // where this word is to be
      if (up > -64 && up < 64) result |= up >= 0 ? word[i] << up : word[i] >> -up;
    }
    return result;
  }
};

/// One digit more than limbs: the last limb has 64 bits.
template <typename State>
class Digits {
 public:
  static constexpr int kCount = State::kLimbs + 1;

  __device__ Digits() : digits_{} {}

  /// limb(k): limb k, or 0 if there is none. Called by lane k % 32.
  template <typename Limb>
  __device__ explicit Digits(const Limb& limb) {
    // With 2^63 added to each, limbs are not negative, and carries are 0, 1 or 2; what was added to all of them is
    // taken off again as a number of kCount digits: 0, 0x80000000, 0x7fffffff, 0x7fffffff, ...
    uint32_t carry[kALane];
    uint64_t biased[kALane];
#pragma unroll
    for (int j = 0; j < kALane; ++j) {
      biased[j] = static_cast<uint64_t>(limb(digit(j))) ^ uint64_t { 1 } << 63;
      digits_[j] = static_cast<uint32_t>(biased[j]);
      carry[j] = static_cast<uint32_t>(biased[j] >> 32);
    }
    uint32_t from[kALane];
    from_below(carry, from);
#pragma unroll
    for (int j = 0; j < kALane; ++j) {
      const uint32_t off = digit(j) == 0 ? 0 : digit(j) == 1 ? 0x80000000 : 0x7fffffff;
      const uint64_t sum = uint64_t{digits_[j]} + from[j] + off;
      digits_[j] = static_cast<uint32_t>(sum);
      carry[j] = static_cast<uint32_t>(sum >> 32);
    }
    from_below(carry, from);
    bool carries[kALane], all_ones[kALane];
#pragma unroll
    for (int j = 0; j < kALane; ++j) {
      digits_[j] += from[j];
      carries[j] = digits_[j] < from[j];
      all_ones[j] = digits_[j] == 0xffffffff;
    }
    // From now on a digit is carried to from below or not; a carry runs through digits of all ones.
    const Mask ones = ballot(all_ones);
    const Mask carried = (ones + (ballot(carries) << 1)) ^ ones;
#pragma unroll
    for (int j = 0; j < kALane; ++j) digits_[j] += static_cast<uint32_t>(carried >> digit(j)) & 1;
  }

  /// The digits that this lane has are digit(j), j < kALane, of which those from kCount on mean nothing.
  static constexpr int kALane = (kCount + kWarpSize - 1) / kWarpSize;
  __device__ static int digit(int j) { return j * kWarpSize + threadIdx.x % kWarpSize; }
  __device__ uint32_t operator[](int j) const { return digits_[j]; }

  /// Writes them as the limbs of a state.
  __device__ void store_limbs(int64_t* limbs) const {
    const uint32_t last = at(kCount - 1);
#pragma unroll
    for (int j = 0; j < kALane; ++j) {
      const int k = digit(j);
      if (k < State::kLimbs) {
        limbs[k] = static_cast<int64_t>((k == State::kLimbs - 1 ? uint64_t{last} << 32 : 0) | digits_[j]);
      }
    }
  }

  /// Their value, as `finish` has it. Unless kFinishes it is only rounded: a division in the kernels of sums, not even
  /// executed, took 0.4 us of 3.6 for 2^14 float32, and 5 % for 2^27 float64 (H200).
  template <typename Float, bool kFinishes>
  __device__ Float rounded(Finish finish) const {
    const bool negative = at(kCount - 1) >> 31;
    const Mask used = ~Mask{0} >> (8 * sizeof(Mask) - kCount);
    bool some[kALane];
#pragma unroll
    for (int j = 0; j < kALane; ++j) some[j] = digits_[j] != 0;
    const Mask not_zero = ballot(some) & used;
    if (not_zero == 0) return 0;
    // The magnitude: -x is ~x + 1, whose carry runs through the lowest digits that are 0.
    const int lowest = count_trailing_zeros(not_zero);
    Digits x = *this;
    if (negative) {
#pragma unroll
      for (int j = 0; j < kALane; ++j) {
        x.digits_[j] = digit(j) <= lowest ? -digits_[j] : ~digits_[j];
      }
#pragma unroll
      for (int j = 0; j < kALane; ++j) some[j] = x.digits_[j] != 0;
    }
    const Mask magnitude = ballot(some) & used;
    const int top = kMaskBits - 1 - count_leading_zeros(magnitude);
    const uint64_t high = uint64_t{x.at(top)} << 32 | x.at(top - 1);
    const uint32_t low = x.at(top - 2);
    const int zeros = __clzll(static_cast<long long>(high));  // at most 31
    const uint64_t significand = high << zeros | uint64_t{low} << zeros >> 32;
    const int exponent = State::kLowest + kLimbBits * top + 31 - zeros;
    if (kFinishes && (finish.divisor > 1 || (kOfSquares && finish.root))) {
      const uint64_t middle = uint64_t{low} << 32 | x.at(top - 3);
      const uint32_t last = x.at(top - 4);
      const bool more = last << zeros != 0 || (top > 4 && magnitude << (kMaskBits - top + 4) != 0);
      const uint64_t below = middle << zeros | uint64_t{last} << zeros >> 32;
      return finished<Float>(negative, significand, below, more, exponent, finish);
    }
    const bool more = low << zeros != 0 || (top > 2 && magnitude << (kMaskBits - top + 2) != 0);
    return round_normalized<Float>(negative, significand | more, exponent, finish.rounding);
  }

 private:
  using Mask = std::conditional_t<kALane == 1, uint32_t,
                                  std::conditional_t<kALane <= 4, unsigned __int128, WideMask>>;  // a bit a digit
  static constexpr int kMaskBits = 8 * sizeof(Mask);
  static constexpr bool kOfSquares = State::kTag == SquaresLayout32::kTag;

  /// Not inlined: a division of 128 bits takes some hundred instructions, and no sum needs it.
  template <typename Float>
  __device__ static __noinline__ Float finished(bool negative, uint64_t high, uint64_t low, bool more, int exponent,
                                                Finish finish) {
    const unsigned __int128 significand = static_cast<unsigned __int128>(high) << 64 | low;
    if constexpr (kOfSquares) {
      if (finish.root && negative) return from_bits<Float>(kQuietNaN<Float>);
      if (finish.root) return round_root<Float>(significand, more, exponent, finish.rounding);
    }
    return round_quotient<Float>(negative, significand, more, exponent, finish);
  }

  __device__ uint32_t at(int k) const {
    if (k < 0) return 0;
    uint32_t result = 0;
#pragma unroll
    for (int j = 0; j < kALane; ++j) {
      const uint32_t x = __shfl_sync(kFullWarp, digits_[j], k % kWarpSize);
      if (k / kWarpSize == j) result = x;
    }
    return result;
  }

  /// below[j]: what the digit before digit(j) has of x.
  __device__ static void from_below(const uint32_t (&x)[kALane], uint32_t (&below)[kALane]) {
    const unsigned lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int j = 0; j < kALane; ++j) {
      // Lane 31 hands on to lane 0, for which it is the digit 32 places before.
      const uint32_t given = lane == kWarpSize - 1 ? (j > 0 ? x[j - 1] : 0) : x[j];
      below[j] = __shfl_sync(kFullWarp, given, (lane + kWarpSize - 1) % kWarpSize);
    }
  }

  __device__ static Mask ballot(const bool (&x)[kALane]) {
    Mask mask = 0;
#pragma unroll
    for (int j = 0; j < kALane; ++j) mask |= Mask{__ballot_sync(kFullWarp, x[j])} << (j * kWarpSize);
    return mask;
  }

  __device__ static int count_leading_zeros(Mask x) {
    if constexpr (kALane == 1) {
      return __clz(static_cast<int>(x));
    } else if constexpr (kMaskBits == 128) {
      const auto high = static_cast<long long>(x >> (kMaskBits / 2));
      return high != 0 ? __clzll(high) : 64 + __clzll(static_cast<long long>(x));
    } else {
      return x.leading_zeros();
    }
  }
  __device__ static int count_trailing_zeros(Mask x) { return kMaskBits - 1 - count_leading_zeros(x & -x); }

  uint32_t digits_[kALane];
};

/// The bit of Kind that says what a sum is, if it is no number.
__device__ inline unsigned special_of(unsigned kinds) {
  const unsigned special = kinds & kIsSpecial;
  return (special & (special - 1)) != 0 ? kIsNaN : special;
}

template <typename Float, bool kFinishes, typename State>
__device__ Float rounded(const Digits<State>& digits, unsigned kinds, Finish finish) {
  const unsigned special = special_of(kinds);
  if (special == kIsNaN) return from_bits<Float>(kQuietNaN<Float>);
  if (special != 0) return signed_float<Float>(special == kIsMinusInf, kInfinity<Float>);
  return kinds == 0 ? Float(-0.0) : digits.template rounded<Float, kFinishes>(finish);
}

/// Writes the result of at least one element. kinds: what was among them. Called by a whole warp.
template <typename State, bool kFinishes = false>
__device__ void write(const Result& result, int64_t index, const Digits<State>& digits, unsigned kinds) {
  const bool first = threadIdx.x % kWarpSize == 0;
  switch (result.type) {
    case Type::int64: {
      int64_t* words = static_cast<int64_t*>(result.data) + index * State::kWords;
      if (first) {
        write_kinds<State>(words,
                           {(kinds & kIsNaN) != 0, (kinds & kIsPlusInf) != 0, (kinds & kIsMinusInf) != 0, kinds != 0});
      }
      (special_of(kinds) == 0 ? digits : Digits<State>()).store_limbs(words + kFirstLimb);
      return;
    }
    case Type::float64: {
      const double x = rounded<double, kFinishes>(digits, kinds, result.finish);
      if (first) static_cast<double*>(result.data)[index] = x;
      return;
    }
    case Type::float32: {
      const float x = rounded<float, kFinishes>(digits, kinds, result.finish);
      if (first) static_cast<float*>(result.data)[index] = x;
      return;
    }
    case Type::float16: {
      const float x =
          rounded<float, kFinishes>(digits, kinds, {Rounding::odd, result.finish.root, result.finish.divisor});
      if (first) static_cast<float16*>(result.data)[index] = convert<float16>(x);
      return;
    }
    default: {
      const float x =
          rounded<float, kFinishes>(digits, kinds, {Rounding::odd, result.finish.root, result.finish.divisor});
      if (first) static_cast<bfloat16*>(result.data)[index] = convert<bfloat16>(x);
    }
  }
}

}  // namespace reduce_ops::exact
