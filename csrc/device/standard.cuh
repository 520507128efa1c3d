// What kernels use of the C++ standard library. NVRTC brings nothing of it, and the toolkit's cuda/std, which a machine
// with PyTorch alone lacks, takes a second to parse: so for NVRTC it is written out here, some sixty lines.

#pragma once

#ifndef __CUDACC_RTC__

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

#else

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;

namespace std {

using ::fabs;
using ::int64_t;
using ::sqrt;
using ::uint32_t;
using ::uint64_t;

template <typename T, T kValue>
struct integral_constant {
  static constexpr T value = kValue;
  constexpr operator T() const { return kValue; }
};

template <typename A, typename B>
constexpr bool is_same_v = false;
template <typename A>
constexpr bool is_same_v<A, A> = true;

template <typename T, typename... Types>
constexpr bool is_one_of = (is_same_v<T, Types> || ...);

template <typename T>
constexpr bool is_signed_integer = is_one_of<T, char, signed char, short, int, long, long long>;

template <typename T>
constexpr bool is_integral_v =
    is_signed_integer<T> ||
    is_one_of<T, bool, unsigned char, unsigned short, unsigned, unsigned long, unsigned long long>;

template <typename T>
constexpr bool is_floating_point_v = is_one_of<T, float, double>;

template <typename T>
constexpr bool is_signed_v = is_signed_integer<T> || is_floating_point_v<T>;

template <typename T>
concept integral = is_integral_v<T>;

template <bool kCondition, typename Then, typename Else>
struct conditional {
  using type = Then;
};
template <typename Then, typename Else>
struct conditional<false, Then, Else> {
  using type = Else;
};
template <bool kCondition, typename Then, typename Else>
using conditional_t = typename conditional<kCondition, Then, Else>::type;

template <typename T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}

template <typename T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}

template <typename T>
constexpr T gcd(T a, T b) {
  return b == 0 ? a : gcd(b, a % b);
}

template <typename T>
constexpr int bit_width(T x) {
  return x == 0 ? 0 : 1 + bit_width(static_cast<T>(x >> 1));
}

template <typename T>
constexpr T bit_ceil(T x) {
  return x <= 1 ? T{1} : static_cast<T>(T{1} << bit_width(static_cast<T>(x - 1)));
}

template <typename T>
constexpr bool has_single_bit(T x) {
  return x != 0 && (x & (x - 1)) == 0;
}

}  // namespace std

#endif

/// Of functions that host and kernels share; also where no CUDA compiler knows the words.
#ifdef __CUDACC__
#define REDUCE_OPS_ANYWHERE __host__ __device__
#define REDUCE_OPS_NOINLINE __noinline__
#else
#define REDUCE_OPS_ANYWHERE
#define REDUCE_OPS_NOINLINE
#endif
