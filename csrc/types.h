// Element types as kernels know them. No PyTorch.

#pragma once

namespace reduce_ops {

/// Named as PyTorch's dtypes. boolean: any byte but 0 is true.
enum class Type {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float8_e4m3fn,
  float8_e5m2,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
};

inline constexpr const char* kTypeNames[] = {
    "boolean",       "int8",        "int16",   "int32",    "int64",   "uint8",   "uint16",    "uint32",    "uint64",
    "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
inline constexpr int kTypeSizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8, 8, 16};

/// As device/numeric.cuh names it.
constexpr const char* name_of(Type type) { return kTypeNames[static_cast<int>(type)]; }

constexpr int size_of(Type type) { return kTypeSizes[static_cast<int>(type)]; }

}  // namespace reduce_ops
