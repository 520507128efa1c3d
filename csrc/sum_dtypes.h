// Which dtypes can be summed, what they accumulate in and what dtype their sum has. The rules are torch.sum's.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <string_view>

#include "types.h"

namespace reduce_ops {

/// float32 for 16-bit and smaller floats, int64 for bool and integers, complex64 for complex32, else the dtype itself.
c10::ScalarType accumulate_dtype(c10::ScalarType element);

/// The dtype of the sum when the caller names none: int64 for bool and integers, float32 for float8, else the input's.
c10::ScalarType result_dtype(c10::ScalarType input);

/// Throws NotImplementedError, naming operator and argument, unless `dtype` is one that can be summed.
void check_summable(std::string_view op, std::string_view argument, c10::ScalarType dtype);

/// Likewise, but a sum of a `self` without data has only a dtype: what is exported or compiled throws when it runs.
void check_summable(std::string_view op, std::string_view argument, const at::Tensor& self, c10::ScalarType dtype);

/// Throws unless `dtype`, asked for by the argument, can hold what the operator makes of `input`: a real number cannot
/// hold a complex one.
void check_holds(std::string_view op, std::string_view argument, c10::ScalarType input, c10::ScalarType dtype);

/// x in that dtype: x itself where it has it. Keeps subnormal numbers, as sums do (denormals_cpu.h).
at::Tensor converted(const at::Tensor& x, c10::ScalarType dtype);

/// The name that kernels have for a dtype, of those that can be summed; complex32, which has none, is an internal
/// error.
Type type_of(c10::ScalarType dtype);

}  // namespace reduce_ops
