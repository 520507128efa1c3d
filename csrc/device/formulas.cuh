// Formulas (transform/formula.h) as types: Add<Mul<Input<0>, Input<1>>, Input<0>> is x0 * x1 + x0. Such a type is part
// of a kernel's name, so that the text of a formula never reaches a compiler. Each has of<T>(values), what it is of the
// inputs and constants in `values`, in T, which is float, double or int64_t; every operation is rounded on its own.

#pragma once

#include "device/operators.cuh"

namespace reduce_ops {

template <int kIndex>
struct Input {
  template <typename T, typename Values>
  static __device__ T of(const Values& values) {
    return values.input[kIndex];
  }
};

template <int kIndex>
struct Constant {
  template <typename T, typename Values>
  static __device__ T of(const Values& values) {
    return values.template constant<T>(kIndex);
  }
};

/// As integers wrap by definition, where a signed overflow would be undefined.
template <typename T, typename Operation>
__device__ T wrapping(T left, T right, Operation operation) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(operation(static_cast<uint64_t>(left), static_cast<uint64_t>(right)));
  } else {
    return operation(left, right);
  }
}

template <typename T>
__device__ T negative(T x) {
  return wrapping(T(0), x, [](auto zero, auto y) { return std::is_integral_v<T> ? zero - y : -y; });
}

template <typename T>
__device__ T magnitude(T x) {
  if constexpr (std::is_integral_v<T>) {
    return x < 0 ? negative(x) : x;
  } else {
    return std::fabs(x);
  }
}

#define REDUCE_OPS_BINARY(Name, result)              \
  template <typename Left, typename Right>           \
  struct Name {                                      \
    template <typename T, typename Values>           \
    static __device__ T of(const Values& values) {   \
      const T left = Left::template of<T>(values);   \
      const T right = Right::template of<T>(values); \
      return result;                                 \
    }                                                \
  };
REDUCE_OPS_BINARY(Add, wrapping(left, right, [](auto a, auto b) { return a + b; }))
REDUCE_OPS_BINARY(Sub, wrapping(left, right, [](auto a, auto b) { return a - b; }))
REDUCE_OPS_BINARY(Mul, wrapping(left, right, [](auto a, auto b) { return a * b; }))
REDUCE_OPS_BINARY(Div, left / right)
REDUCE_OPS_BINARY(Less, T(left < right))
REDUCE_OPS_BINARY(LessEqual, T(left <= right))
REDUCE_OPS_BINARY(More, T(left > right))
REDUCE_OPS_BINARY(MoreEqual, T(left >= right))
REDUCE_OPS_BINARY(Equal, T(left == right))
REDUCE_OPS_BINARY(Unequal, T(left != right))
REDUCE_OPS_BINARY(Least, Min<T>::combine(left, right))
REDUCE_OPS_BINARY(Greatest, Max<T>::combine(left, right))
#undef REDUCE_OPS_BINARY

#define REDUCE_OPS_UNARY(Name, result)             \
  template <typename X>                            \
  struct Name {                                    \
    template <typename T, typename Values>         \
    static __device__ T of(const Values& values) { \
      const T x = X::template of<T>(values);       \
      return result;                               \
    }                                              \
  };
REDUCE_OPS_UNARY(Neg, negative(x))
REDUCE_OPS_UNARY(Abs, magnitude(x))
REDUCE_OPS_UNARY(Sqrt, std::sqrt(x))
REDUCE_OPS_UNARY(Square, wrapping(x, x, [](auto a, auto b) { return a * b; }))
REDUCE_OPS_UNARY(IsNan, T(x != x))
#undef REDUCE_OPS_UNARY

template <typename Condition, typename Then, typename Else>
struct Where {
  template <typename T, typename Values>
  static __device__ T of(const Values& values) {
    const T then = Then::template of<T>(values);
    const T otherwise = Else::template of<T>(values);
    return Condition::template of<T>(values) != 0 ? then : otherwise;
  }
};

template <typename Real, typename Imag>
struct Pair {
  template <typename T, typename Values>
  static __device__ Complex<T> of(const Values& values) {
    return {Real::template of<T>(values), Imag::template of<T>(values)};
  }
};

}  // namespace reduce_ops
