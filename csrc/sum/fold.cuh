// The canonical tree in registers: how the elements of a 16-byte load, of a lane and of a warp become one value, in
// the canonical order: neighbours first. Every function here folds an aligned power-of-two range, that is, a
// subtree; left + right is commutative to the bit, so lanes need not care which of the two they hold.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "numeric.cuh"

namespace reduce_ops::sum {

constexpr int kWarpSize = 32;
constexpr int kLoadBytes = 16;  // what one lane loads at once

/// Elements of one load.
template <typename In>
constexpr int kPerLoad = kLoadBytes / static_cast<int>(sizeof(In));

/// x[0..kCount) as a tree. By recursion, because nvcc leaves a loop over halves rolled from 16 values on, and then
/// the array goes to local memory.
template <int kCount, typename Acc>
__device__ Acc fold_array(const Acc* x) {
  if constexpr (kCount == 1) {
    return x[0];
  } else {
    return fold_array<kCount / 2>(x) + fold_array<kCount / 2>(x + kCount / 2);
  }
}

/// The elements of one load.
template <typename In, typename Acc>
__device__ Acc fold_load(const uint4& load) {
  constexpr int kCount = kPerLoad<In>;
  In element[kCount];
  memcpy(element, &load, sizeof load);
  Acc x[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = convert<Acc>(element[i]);
  return fold_array<kCount>(x);
}

template <typename T>
__device__ T shuffle_xor(T x, int mask) {
  constexpr unsigned kFullWarp = 0xffffffff;
  if constexpr (is_complex<T>) {
    return {__shfl_xor_sync(kFullWarp, x.real, mask), __shfl_xor_sync(kFullWarp, x.imag, mask)};
  } else {
    return __shfl_xor_sync(kFullWarp, x, mask);
  }
}

/// One value a lane, lane 0's first; every lane gets the result.
template <typename Acc>
__device__ Acc fold_lanes(Acc x) {
#pragma unroll
  for (int mask = 1; mask < kWarpSize; mask *= 2) x += shuffle_xor(x, mask);
  return x;
}

/// kCount values a lane: value u of all lanes comes before value u + 1 of any. Every lane gets the result.
///
/// Lanes 2i and 2i + 1 each hold a half of the pair sums they both need: each gives away one half of its values and
/// adds the half it is given to the half it keeps. So the number of values halves with every step, and 8 values cost 12
/// shuffles instead of 8 * 5 + 3.
template <int kCount, int kMask = 1, typename Acc>
__device__ Acc fold_exchange(Acc (&x)[kCount], unsigned lane) {
  if constexpr (kCount == 1) {
    Acc sum = x[0];
#pragma unroll
    for (int mask = kMask; mask < kWarpSize; mask *= 2) sum += shuffle_xor(sum, mask);  // the lanes of one value
#pragma unroll
    for (int mask = kMask / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);  // value 0 + 1, 2 + 3, ...
    return sum;
  } else {
    constexpr int kHalf = kCount / 2;
    const bool upper = lane & kMask;
    Acc kept[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const Acc given = select(upper, x[i], x[i + kHalf]);
      kept[i] = select(upper, x[i + kHalf], x[i]) + shuffle_xor(given, kMask);
    }
    return fold_exchange<kHalf, kMask * 2>(kept, lane);
  }
}

/// The same for elements of one or two bytes, into an integer. The sum of a chunk fits 32 bits (4096 * 255, 2048 *
/// 65535), so a word takes one dot product with ones, instead of 4 or 2 conversions and 64-bit additions, which would
/// take longer than the memory, and the warp one instruction.
template <typename In, int kLoads>
__device__ int64_t sum_narrow(const uint4 (&load)[kLoads]) {
  static_assert(kLoads <= 8);
  constexpr uint32_t kOnes = 0x01010101;
  using Sum = std::conditional_t<std::is_signed_v<In>, int, unsigned>;
  Sum sum = 0;
  const auto add = [&sum](uint32_t word) {
    if constexpr (std::is_same_v<In, Boolean>) {
      sum = __dp4a(__vcmpne4(word, 0) & kOnes, kOnes, sum);  // any byte but 0 is true
    } else if constexpr (sizeof(In) == 1) {
      sum = __dp4a(static_cast<Sum>(word), static_cast<Sum>(kOnes), sum);
    } else {
      sum = __dp2a_lo(static_cast<Sum>(word), static_cast<Sum>(kOnes), sum);
    }
  };
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    add(load[u].x);
    add(load[u].y);
    add(load[u].z);
    add(load[u].w);
  }
  return __reduce_add_sync(0xffffffff, sum);
}

/// The elements of kLoads loads a lane: load u of all lanes comes before load u + 1 of any. Every lane gets the result.
template <typename In, typename Acc, int kLoads>
__device__ Acc fold_chunk(const uint4 (&load)[kLoads], unsigned lane) {
  if constexpr (std::is_integral_v<Acc> && sizeof(In) <= 2) {
    return sum_narrow<In>(load);
  } else if constexpr (std::is_integral_v<Acc>) {
    Acc sum = 0;  // integers wrap, so their order is free: no exchange is needed to keep it
#pragma unroll
    for (int u = 0; u < kLoads; ++u) sum += fold_load<In, Acc>(load[u]);
    return fold_lanes(sum);
  } else {
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) x[u] = fold_load<In, Acc>(load[u]);
    return fold_exchange(x, lane);
  }
}

}  // namespace reduce_ops::sum
