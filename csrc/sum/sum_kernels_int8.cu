#include "sum/launch.cuh"

namespace reduce_ops::sum {

cudaError_t launch_int8(const Launch& l, cudaStream_t stream) {
  switch (l.in) {
    case Type::boolean:
      return launch_every<Boolean, uint64_t>(l, stream);
    case Type::int8:
      return launch_every<int8_t, uint64_t>(l, stream);
    case Type::uint8:
      return launch_every<uint8_t, uint64_t>(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace reduce_ops::sum
