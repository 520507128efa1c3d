#include "sum/launch.cuh"
#include "sum/sum_kernels.h"

namespace reduce_ops::sum {
namespace {

bool has_16_bits(Type type) { return type == Type::float16 || type == Type::bfloat16; }

bool has_8_bits(Type type) { return type == Type::boolean || type == Type::int8 || type == Type::uint8; }

}  // namespace

cudaError_t launch(const Launch& l, cudaStream_t stream) {
  switch (l.accumulate) {
    case Type::float32:
      return has_16_bits(l.in) || has_16_bits(l.out) ? launch_float16(l, stream) : launch_float32(l, stream);
    case Type::float64:
      return launch_float64(l, stream);
    case Type::int64:
      return has_8_bits(l.in) ? launch_int8(l, stream) : launch_int64(l, stream);
    case Type::complex64:
    case Type::complex128:
      return launch_complex(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace reduce_ops::sum
