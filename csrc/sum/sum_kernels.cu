#include "sum/launch.cuh"
#include "sum/sum_kernels.h"

namespace reduce_ops::sum {

Kernels kernels_for(Type in, Type out) {
  const bool integer = in <= Type::uint64;
  const bool float8 = in == Type::float8_e4m3fn || in == Type::float8_e5m2;
  const Type own = integer ? Type::int64 : float8 ? Type::float32 : in;
  return out == own ? Kernels::tuned : Kernels::converted;
}

cudaError_t launch(const Launch& l, cudaStream_t stream) {
  switch (l.accumulate) {
    case Type::float32:
      return launch_float32(l, stream);
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
