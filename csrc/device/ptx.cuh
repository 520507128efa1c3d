// What CUDA C++ has no words for, or only in headers that take long to parse. On a CPU, where tests run the kernels,
// tests/emulator/device/ptx.cuh takes its place.

#pragma once

#include "device/standard.cuh"

namespace reduce_ops {

__device__ inline float half_to_float(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

/// To nearest even.
__device__ inline uint16_t float_to_half(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

__device__ inline float bfloat16_to_float(uint16_t bits) {
  float x;
#if __CUDA_ARCH__ >= 900
  asm("cvt.f32.bf16 %0, %1;" : "=f"(x) : "h"(bits));
#else
  asm("mov.b32 %0, {0, %1};" : "=f"(x) : "h"(bits));
#endif
  return x;
}

/// To nearest even.
__device__ inline uint16_t float_to_bfloat16(float x) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

#if __CUDA_ARCH__ >= 890
/// Two elements of float8 as two of float16.
template <bool kIsE4m3>
__device__ uint32_t float8_to_halves(uint16_t pair) {
  uint32_t halves;
  if constexpr (kIsE4m3) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
  }
  return halves;
}
#endif

/// The larger one, or a NaN if one is NaN; of zeros 0.0.
__device__ inline float maximum(float x, float y) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
  return larger;
}

/// A load of bytes that are used once: through to the registers, without a place in L1. Word: uint4, uint2 or uint32_t.
template <typename Word>
__device__ Word load_once(const Word* p) {
  Word v;
  if constexpr (sizeof(Word) == 16) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
  } else if constexpr (sizeof(Word) == 8) {
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  } else {
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  }
  return v;
}

/// Starts to copy 16 bytes to shared memory, past the registers and L1.
__device__ inline void copy_async(uint4* shared, const uint4* p) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(p) : "memory");
}

/// Until the copies that this thread started are there.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Atomic, in no order with what is at other addresses.
__device__ inline void store_relaxed(uint64_t* p, uint64_t x) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
}

__device__ inline uint64_t load_relaxed(const uint64_t* p) {
  uint64_t x;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
  return x;
}

/// p, whatever it was made of: nvcc adds that up again for each load, in 6 instructions instead of 1.
template <typename T>
__device__ const T* opaque(const T* p) {
  size_t address = __cvta_generic_to_global(p);
  asm("" : "+l"(address));
  return static_cast<const T*>(__cvta_global_to_generic(address));
}

/// word, as it was loaded: of a load that may be left out nvcc takes elements of 2 bytes apart within that branch, and
/// so waits there for each (in a row, 2^16 - 1 float16 1.91 us instead of 1.53, H200).
__device__ inline uint4 opaque(uint4 word) {
  asm("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
  return word;
}

}  // namespace reduce_ops
