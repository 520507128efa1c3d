// Arithmetic that every kernel shares: how elements are widened, what a missing element is, how a lane looks at
// another lane's value. No PyTorch.

#pragma once

#include "device/ptx.cuh"
#include "device/standard.cuh"

namespace reduce_ops {

inline constexpr unsigned kFullWarp = 0xffffffff;  // the lanes of a shuffle

/// A complex number is two independent sums. Laid out as PyTorch's: real part first.
template <typename T>
struct alignas(2 * sizeof(T)) Complex {
  T real;
  T imag;

  __device__ Complex operator+(Complex other) const { return {real + other.real, imag + other.imag}; }
  __device__ Complex& operator+=(Complex other) { return *this = *this + other; }
};

/// A value of an operator (operators.cuh) on its way up the tree.
template <typename Op>
struct Node {
  typename Op::Value value;

  __device__ Node operator+(Node other) const { return {Op::combine(value, other.value)}; }
  __device__ Node& operator+=(Node other) { return *this = *this + other; }
};

// Elements by the names of PyTorch's dtypes (types.h), as kernels are named by them (kernel.h). The narrow floats are
// their bits, which convert() widens: cuda_fp16.h and its like take NVRTC longer to parse than all of a kernel's own
// headers.

/// A byte of a bool tensor: true unless it is 0, as in PyTorch. (A C++ bool with another value than 0 or 1 is
/// undefined.)
struct boolean {
  uint8_t byte;

  __device__ operator bool() const { return byte != 0; }
};

struct float16 {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
struct float8_e4m3fn {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
};

using int8 = int8_t;
using int16 = int16_t;
using int32 = int32_t;
using int64 = int64_t;
using uint8 = uint8_t;
using uint16 = uint16_t;
using uint32 = uint32_t;
using uint64 = uint64_t;
using float32 = float;
using float64 = double;
using complex64 = Complex<float>;
using complex128 = Complex<double>;

template <typename T>
constexpr bool is_complex = false;
template <typename T>
constexpr bool is_complex<Complex<T>> = true;

template <typename T>
struct Operator {  // of a sum
  using Value = T;
};
template <typename Op>
struct Operator<Node<Op>> : Op {};

/// Whether T is a Node.
template <typename T>
constexpr bool is_node = false;
template <typename Op>
constexpr bool is_node<Node<Op>> = true;

/// The accumulate type of what T combines.
template <typename T>
using ValueOf = typename Operator<T>::Value;

template <typename T>
constexpr bool is_e4m3 = std::is_same_v<T, float8_e4m3fn>;
template <typename T>
constexpr bool is_float8 = is_e4m3<T> || std::is_same_v<T, float8_e5m2>;

/// What a missing element counts as: x + identity has the bits of x for every x. (0.0 would turn -0.0 into 0.0.)
template <typename T>
__device__ constexpr T identity() {
  if constexpr (is_node<T>) {
    return {Operator<T>::identity()};
  } else if constexpr (is_complex<T>) {
    return {decltype(T::real)(-0.0), decltype(T::imag)(-0.0)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return T(-0.0);
  } else {
    return T(0);
  }
}

/// An element of float8, by what every GPU has.
template <typename Float8>
__device__ float widen_float8(unsigned code) {
  if constexpr (is_e4m3<Float8>) {  // an exponent of as many bits as it has, but with another bias
    const float x = 256 * half_to_float(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7));
    return (code & 0x7f) == 0x7f ? half_to_float(0x7fff) : x;
  } else {
    return half_to_float(static_cast<uint16_t>(code << 8));  // the upper byte of a float16
  }
}

/// Two elements of float8, the first in the lower byte. By GPUs from sm_89 on in one instruction: 2^30 in 233 us, one
/// by one 244 (H200). For others CUDA has branches and a loop: of sm_80 half of the code of float32's kernels.
template <typename Float8>
__device__ float2 widen_pair(uint16_t pair) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  const uint32_t halves = float8_to_halves<is_e4m3<Float8>>(pair);
  return {half_to_float(static_cast<uint16_t>(halves)), half_to_float(static_cast<uint16_t>(halves >> 16))};
#else
  return {widen_float8<Float8>(pair & 0xff), widen_float8<Float8>(pair >> 8)};
#endif
}

/// Widens an element exactly, or rounds a sum to nearest even. To a Node: its leaf; from one: its value. From a complex
/// number to a real one: its real part.
template <typename To, typename From>
__device__ To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_node<To>) {
    return {Operator<To>::leaf(x)};
  } else if constexpr (is_node<From>) {
    return convert<To>(x.value);
  } else if constexpr (is_complex<From> && !is_complex<To>) {
    return convert<To>(x.real);
  } else if constexpr (std::is_same_v<From, float16>) {
    return convert<To>(half_to_float(x.bits));
  } else if constexpr (std::is_same_v<From, bfloat16>) {
    return convert<To>(bfloat16_to_float(x.bits));
  } else if constexpr (is_float8<From>) {
    return convert<To>(widen_pair<From>(x.bits).x);
  } else if constexpr (is_float8<To>) {
    static_assert(!is_float8<To>, "nothing is rounded to float8");
  } else if constexpr (is_complex<To>) {
    using Part = decltype(To::real);
    return {static_cast<Part>(x.real), static_cast<Part>(x.imag)};
  } else if constexpr (std::is_same_v<To, float16>) {
    return {float_to_half(x)};
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    return {float_to_bfloat16(x)};
  } else {
    return static_cast<To>(x);
  }
}

/// What a missing element counts as, as an element: -0.0 or, of integers, 0.
template <typename T>
__device__ T missing() {
  if constexpr (is_float8<T>) {
    return {0x80};
  } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return {0x8000};
  } else {
    return identity<T>();
  }
}

/// condition ? a : b, by components: of a struct, ?: takes an address, which puts register arrays into local memory.
template <typename T>
__device__ T select(bool condition, T a, T b) {
  if constexpr (is_node<T>) {
    return {select(condition, a.value, b.value)};
  } else if constexpr (is_complex<T>) {
    return {condition ? a.real : b.real, condition ? a.imag : b.imag};
  } else {
    return condition ? a : b;
  }
}

/// The leaf of an element, which is missing<In>() if it does not exist: of a sum that is the identity already.
template <typename Acc, typename In>
__device__ Acc leaf_or_identity(In element, bool exists) {
  const Acc leaf = convert<Acc>(element);
  if constexpr (is_node<Acc>) {
    return select(exists, leaf, identity<Acc>());
  } else {
    return leaf;
  }
}

/// move(x), by components.
template <typename T, typename Move>
__device__ T by_components(T x, Move move) {
  if constexpr (is_node<T>) {
    return {by_components(x.value, move)};
  } else if constexpr (is_complex<T>) {
    return {move(x.real), move(x.imag)};
  } else {
    return move(x);
  }
}

/// The values of another lane of a full warp: that of lane `lane`, that of the lane whose number differs in the bits of
/// `mask`, or that of the lane `distance` further up (past the warp, a lane gets its own).
template <typename T>
__device__ T shuffle(T x, int lane) {
  return by_components(x, [lane](auto part) { return __shfl_sync(kFullWarp, part, lane); });
}
template <typename T>
__device__ T shuffle_xor(T x, int mask) {
  return by_components(x, [mask](auto part) { return __shfl_xor_sync(kFullWarp, part, mask); });
}
template <typename T>
__device__ T shuffle_down(T x, int distance) {
  return by_components(x, [distance](auto part) { return __shfl_down_sync(kFullWarp, part, distance); });
}

}  // namespace reduce_ops
