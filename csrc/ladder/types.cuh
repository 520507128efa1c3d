#pragma once

#include "device/numeric.cuh"

/// The device type behind each name of types.def.
namespace reduce_ops::ladder::device {

using reduce_ops::bfloat16;
using reduce_ops::complex128;
using reduce_ops::complex64;
using reduce_ops::float16;
using reduce_ops::float32;
using reduce_ops::float64;
using reduce_ops::int32;
using int64 = uint64;  // wraps by definition, where a signed overflow would be undefined

}  // namespace reduce_ops::ladder::device
