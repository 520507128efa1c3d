// Floats as exact sums on the CPU see them: which kernels take them, and what integers they are.

#pragma once

#include <cstddef>
#include <cstring>

#include "exact/kernels_cpu.h"
#include "exact/state.h"
#include "isa_cpu.h"
#include "sum/tree_cpu.h"

namespace reduce_ops::exact {

template <typename Float>
Kernels<Float> best_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return avx512::kernels<Float>();
  if (isa() == Isa::avx2) return avx2::kernels<Float>();
#endif
  return baseline::kernels<Float>();
}

template <typename Bits>
Bits read(const std::byte* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

inline const std::byte* bytes(const void* p) { return static_cast<const std::byte*>(p); }

/// Whether elements are floats side by side, to be added as they are.
template <typename Float>
bool lies_in_place(const sum::Elements& elements) {
  constexpr Type kType = sizeof(Float) == 4 ? Type::float32 : Type::float64;
  return elements.type == kType && elements.dims == 1 && elements.strides[0] == sizeof(Float) &&
         elements.changes.map == sum::Map::none;
}

template <typename Float>
constexpr int kFieldBitsOf = 8 * sizeof(Float) - Format<Float>::kPrecision;

/// A finite float: significand times the unit of its exponent field. Without a branch, which zeros among other numbers
/// would make a guess.
template <typename Float>
struct Number {
  using Bits = BitsOf<Float>;

  explicit Number(Bits bits) {
    constexpr int kMantissa = Format<Float>::kPrecision - 1;
    const Bits stored = bits >> kMantissa & ((Bits{1} << kFieldBitsOf<Float>)-1);
    significand = (bits & ((Bits{1} << kMantissa) - 1)) | static_cast<Bits>(stored != 0) << kMantissa;
    field = static_cast<int>(stored + static_cast<Bits>(stored == 0));
    negative = bits >> (8 * sizeof(Bits) - 1) != 0;
  }

  Bits significand;
  int field;
  bool negative;
};

}  // namespace reduce_ops::exact
