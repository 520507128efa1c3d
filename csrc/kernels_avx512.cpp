// AVX-512: vectors of 64 bytes.

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "exact/kernels_cpu.h"
#include "sum/kernels_cpu.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif

namespace reduce_ops::exact::avx512 {
namespace {
constexpr int kVectorBytes = 64;
}
#include "exact/kernels_cpu.inc"
}  // namespace reduce_ops::exact::avx512

namespace reduce_ops::sum::avx512 {
namespace {
constexpr int kVectorBytes = 64;
}
#include "sum/kernels_cpu.inc"
}  // namespace reduce_ops::sum::avx512

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
