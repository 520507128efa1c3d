#include "sum/launch.cuh"

namespace reduce_ops::sum {

cudaError_t launch_int64(const Launch& l, cudaStream_t stream) {
  switch (l.in) {  // uint64_t wraps by definition, where a signed overflow would be undefined
    case Type::int16:
      return launch_rows<int16_t, uint64_t>(l, stream);
    case Type::int32:
      return launch_every<int32_t, uint64_t>(l, stream);
    case Type::int64:
      return launch_every<uint64_t, uint64_t>(l, stream);
    case Type::uint16:
      return launch_few<uint16_t, uint64_t>(l, stream);
    case Type::uint32:
      return launch_few<uint32_t, uint64_t>(l, stream);
    case Type::uint64:
      return launch_every<uint64_t, uint64_t>(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace reduce_ops::sum
