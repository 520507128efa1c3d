// Neighbouring elements that a thread loads together.

#pragma once

#include "device/ptx.cuh"
#include "device/standard.cuh"

namespace reduce_ops::sum {

/// kVector neighbouring elements.
template <int kVector, typename In>
struct alignas(kVector * sizeof(In)) Pack {
  In element[kVector];

  /// kOnce: nobody else reads the same sectors, so they need no place in L1.
  template <bool kOnce>
  static __device__ Pack load(const In* p) {
    Pack pack;
    if constexpr (!kOnce || sizeof(Pack) < 4) {
      pack = *reinterpret_cast<const Pack*>(p);
    } else {
      using Word =
          std::conditional_t<sizeof(Pack) == 16, uint4, std::conditional_t<sizeof(Pack) == 8, uint2, uint32_t>>;
      static_assert(sizeof(Pack) == sizeof(Word));
      const Word word = load_once(reinterpret_cast<const Word*>(p));
      memcpy(&pack, &word, sizeof pack);
    }
    return pack;
  }

  /// From anywhere, where neighbours load the sectors' other elements: those of two bytes as the aligned words of four
  /// bytes that hold them, but for the last one, behind which an allocation may end.
  static __device__ Pack load_anywhere(const In* p) {
    Pack pack;
    if constexpr (sizeof(In) == 2) {
      constexpr int kWords = kVector / 2;
      const auto address = reinterpret_cast<uintptr_t>(p);
      const bool between = address % 4 != 0;
      const auto* word = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
      uint32_t w[kWords + 1];
#pragma unroll
      for (int i = 0; i < kWords; ++i) w[i] = word[i];
      w[kWords] = between ? reinterpret_cast<const uint16_t*>(p)[kVector - 1] : 0;
#pragma unroll
      for (int i = 0; i < kWords; ++i) w[i] = __funnelshift_r(w[i], w[i + 1], between ? 16 : 0);
      memcpy(&pack, w, sizeof pack);
    } else {
#pragma unroll
      for (int v = 0; v < kVector; ++v) pack.element[v] = p[v];
    }
    return pack;
  }
};

}  // namespace reduce_ops::sum
