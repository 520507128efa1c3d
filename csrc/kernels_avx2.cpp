// AVX2, with F16C: vectors of 32 bytes.

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "exact/kernels_cpu.h"
#include "sum/kernels_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

namespace reduce_ops {
namespace {
constexpr int kVectorBytes = 32;

/// Vectors of floats from eight elements of 16 bits.
struct HalfVectors {
  static constexpr bool kNative = true;
  static __m256 float16(const std::byte* p) { return _mm256_cvtph_ps(load(p)); }
  static __m256 bfloat16(const std::byte* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load(p)), 16));
  }

 private:
  static __m128i load(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
};
}  // namespace

namespace sum::avx2 {
#include "sum/kernels_cpu.inc"
#include "sum/kernels_cpu_instances.inc"
}  // namespace sum::avx2

namespace exact::avx2 {
using namespace sum::avx2;
#include "exact/kernels_cpu.inc"
}  // namespace exact::avx2
}  // namespace reduce_ops

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
