#include "sum/launch.cuh"
#include "sum/sum_kernels.h"

namespace reduce_ops::sum {

cudaError_t launch(const Launch& l, cudaStream_t stream) {
  switch (l.accumulate) {
    case Type::float32:
      return l.in == Type::float16 || l.in == Type::bfloat16 ? launch_float16(l, stream) : launch_float32(l, stream);
    case Type::float64:
      return launch_float64(l, stream);
    case Type::int64:
      return launch_int64(l, stream);
    case Type::complex64:
    case Type::complex128:
      return launch_complex(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace reduce_ops::sum
