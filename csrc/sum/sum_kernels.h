// The door between PyTorch and the kernels of the full sum: pointers, counts, strides and a stream.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "sum/plan.h"
#include "sum/strides.h"

namespace reduce_ops::sum {

/// Element types, named as PyTorch's dtypes. boolean: any byte but 0 is true.
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

/// One full sum of n > 0 elements.
struct Launch {
  Type in;
  Type accumulate;
  Type out;  // `accumulate`, or `in` where that is float16 or bfloat16
  const void* data;
  int64_t n;
  Layout layout;
  Strides strides;  // for Layout::strided
  Plan plan;
  void* slots;  // kSlotBytes, all zero before and after; unused for one block
  void* result;
};

/// Which kernels sum `in` into `out`: tuned ones in every shape of make_plan and for every layout, or, for a pair that
/// is converted as it is loaded, two shapes for aligned and strided input.
enum class Kernels { tuned, converted };
Kernels kernels_for(Type in, Type out);

/// Bytes of the slots of one launch: enough for kMaxBlocks blocks of the widest type, complex128.
constexpr int64_t kSlotBytes = int64_t{kMaxBlocks} * 4 * 8;

/// Launches the plan on `stream` of the current device and returns what the launch said.
cudaError_t launch(const Launch& launch, cudaStream_t stream);

}  // namespace reduce_ops::sum
