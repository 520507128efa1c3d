// AVX-512: vectors of 64 bytes.

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "exact/kernels_cpu.h"
#include "sum/kernels_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif

namespace reduce_ops {
namespace {
constexpr int kVectorBytes = 64;

/// Vectors of floats from sixteen elements of 16 bits.
struct HalfVectors {
  static constexpr bool kNative = true;
  static __m512 float16(const std::byte* p) { return _mm512_cvtph_ps(load(p)); }
  static __m512 bfloat16(const std::byte* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load(p)), 16));
  }

 private:
  static __m256i load(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
};
}  // namespace

namespace sum::avx512 {
#include "sum/kernels_cpu.inc"
#include "sum/kernels_cpu_instances.inc"
}  // namespace sum::avx512

namespace exact::avx512 {
using namespace sum::avx512;
#include "exact/kernels_cpu.inc"
}  // namespace exact::avx512
}  // namespace reduce_ops

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
