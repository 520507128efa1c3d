// The device language of CUDA on a CPU, as far as csrc/device and csrc/exact speak it. Included ahead of a kernel it
// lets a C++ compiler have it, with AddressSanitizer or without; tests/emulator is searched before csrc.
//
// Every lane of a block is a fiber, and blocks come one after the other. So barriers, shuffles and polls work, and what
// shows is each index, each access and the tree; not races, the order of memory, or speed.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

namespace emulator {

constexpr unsigned kWarpSize = 32;

/// What a lane shows the others of its warp.
struct alignas(16) Value {
  char bytes[16];
};

/// What all of them show: there are two, as the first to read the one are at the next while others are still to read
/// it.
struct Board {
  unsigned long shown = 0;  // by all lanes together, ever
  Value values[kWarpSize];
};

struct Warp {
  Board boards[2];
};

struct Lane {
  uint3 thread;
  unsigned number;  // in the warp
  Warp* warp;
  unsigned long exchanges = 0;  // so far
};

/// The one that runs.
extern Lane* lane;

/// Ends the program unless it is so.
void require(bool condition, const char* what);

/// Lets another lane run.
void yield();

/// Until all lanes of the block that have not ended are here.
void wait_for_block();

/// Runs a kernel: `body` once for each thread.
void run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body);

/// A kernel, called with what a launch points to.
using Call = void (*)(void** arguments);

template <typename... Parameters, size_t... kIndex>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<kIndex...>) {
  kernel(*static_cast<std::remove_const_t<Parameters>*>(arguments[kIndex])...);
}

template <typename... Parameters>
void call(void (*kernel)(Parameters...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<Parameters...>());
}

/// Makes kernels known by their expressions, as jit::Name has them. test_emulator.py writes the files that do so.
struct Registered {
  Registered(const char* expression, Call call);
};

/// Shows the warp a value, and returns what all lanes show once they have.
const Value* show(const Value& value);

/// The x of all lanes. Not checked for accesses: kernels shuffle more than they do anything else.
template <typename T>
struct Shown {
  const Value* values;

  [[gnu::no_sanitize_address]] explicit Shown(T x) {
    static_assert(sizeof x <= sizeof(Value));
    Value value;
    __builtin_memcpy(&value, &x, sizeof x);
    values = show(value);
  }

  [[gnu::no_sanitize_address]] T operator[](unsigned number) const {
    T x;
    __builtin_memcpy(&x, &values[number % kWarpSize], sizeof x);
    return x;
  }
};

}  // namespace emulator

// ---- words of the language

#undef __device__
#undef __forceinline__
#undef __global__
#undef __grid_constant__
#undef __launch_bounds__
#undef __noinline__
#undef __shared__
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __noinline__
#define __shared__ thread_local
#define __CUDACC__ 1

extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

// ---- its functions

using std::isfinite;
using std::isnan;

inline void __syncthreads() { emulator::wait_for_block(); }

inline void __syncwarp() { emulator::Shown<int>(0); }

template <typename T>
T __shfl_sync(unsigned, T x, int from) {
  return emulator::Shown<T>(x)[from];
}

template <typename T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  return emulator::Shown<T>(x)[emulator::lane->number ^ mask];
}

template <typename T>
T __shfl_down_sync(unsigned, T x, int distance) {
  const emulator::Shown<T> shown(x);
  const unsigned from = emulator::lane->number + distance;
  return from < emulator::kWarpSize ? shown[from] : x;
}

template <typename T>
T __reduce_add_sync(unsigned, T x) {
  const emulator::Shown<T> shown(x);
  T sum = 0;
  for (unsigned i = 0; i < emulator::kWarpSize; ++i) sum += shown[i];
  return sum;
}

template <typename T>
T __reduce_or_sync(unsigned, T x) {
  const emulator::Shown<T> shown(x);
  T bits = 0;
  for (unsigned i = 0; i < emulator::kWarpSize; ++i) bits |= shown[i];
  return bits;
}

inline unsigned __ballot_sync(unsigned, int x) {
  return __reduce_or_sync(0, (x != 0 ? 1u : 0u) << emulator::lane->number);
}

inline int __any_sync(unsigned, int x) {
  const emulator::Shown<int> shown(x);
  bool any = false;
  for (unsigned i = 0; i < emulator::kWarpSize; ++i) any |= shown[i] != 0;
  return any;
}

template <typename T>
T __ldg(const T* p) {
  return *p;
}

template <typename T>
void __stcs(T* p, T x) {
  *p = x;
}

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }

inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(std::bit_cast<long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<long long>(x)); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }

inline unsigned atomicOr(unsigned* p, unsigned x) { return std::exchange(*p, *p | x); }

inline int __ffs(int x) { return std::countr_zero(static_cast<unsigned>(x)) % 32 + (x != 0); }

inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> shift % 32);
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << shift % 32 >> 32);
}

inline unsigned __vcmpne4(unsigned a, unsigned b) {
  unsigned mask = 0;
  for (int i = 0; i < 32; i += 8) mask |= (a >> i & 0xff) != (b >> i & 0xff) ? 0xffu << i : 0;
  return mask;
}

template <typename T>  // int or unsigned
T __dp4a(T a, T b, T c) {
  using Byte = std::conditional_t<std::is_signed_v<T>, int8_t, uint8_t>;
  for (int i = 0; i < 32; i += 8) c += static_cast<Byte>(a >> i) * static_cast<Byte>(b >> i);
  return c;
}

template <typename T>  // int or unsigned
T __dp2a_lo(T a, T b, T c) {
  using Half = std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>;
  using Byte = std::conditional_t<std::is_signed_v<T>, int8_t, uint8_t>;
  for (int i = 0; i < 2; ++i) c += static_cast<Half>(a >> 16 * i) * static_cast<Byte>(b >> 8 * i);
  return c;
}

template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return std::min<std::common_type_t<A, B>>(a, b);
}

template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return std::max<std::common_type_t<A, B>>(a, b);
}
