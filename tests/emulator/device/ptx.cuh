// Takes the place of csrc/device/ptx.cuh.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace reduce_ops {

inline float half_to_float(uint16_t bits) { return __half2float(__half(__half_raw{bits})); }
inline uint16_t float_to_half(float x) { return __half_raw(__float2half_rn(x)).x; }
inline float bfloat16_to_float(uint16_t bits) { return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{bits})); }
inline uint16_t float_to_bfloat16(float x) { return __nv_bfloat16_raw(__float2bfloat16_rn(x)).x; }

inline float maximum(float x, float y) {
  if (x != x || y != y) return x + y;
  if (x == y) return std::signbit(x) ? y : x;
  return x < y ? y : x;
}

template <typename Word>
Word load_once(const Word* p) {
  emulator::require(reinterpret_cast<uintptr_t>(p) % sizeof(Word) == 0, "a load that is not aligned");
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

inline void copy_async(uint4* shared, const uint4* p) { *shared = load_once(p); }

inline void wait_for_copies() {}

inline void store_relaxed(uint64_t* p, uint64_t x) { *p = x; }

/// Who polls for a word lets the others go on.
inline uint64_t load_relaxed(const uint64_t* p) {
  if (*p == 0) emulator::yield();
  return *p;
}

template <typename T>
T opaque(T x) {
  return x;
}

}  // namespace reduce_ops
