// AVX2: vectors of 32 bytes.

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "exact/kernels_cpu.h"
#include "sum/kernels_cpu.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

namespace reduce_ops::exact::avx2 {
namespace {
constexpr int kVectorBytes = 32;
}
#include "exact/kernels_cpu.inc"
}  // namespace reduce_ops::exact::avx2

namespace reduce_ops::sum::avx2 {
namespace {
constexpr int kVectorBytes = 32;
}
#include "sum/kernels_cpu.inc"
}  // namespace reduce_ops::sum::avx2

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
