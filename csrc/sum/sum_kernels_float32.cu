#include "sum/launch.cuh"

namespace reduce_ops::sum {

cudaError_t launch_float32(const Launch& l, cudaStream_t stream) {
  switch (l.in) {
    case Type::float8_e4m3fn:
      return launch_rows<__nv_fp8_e4m3, float>(l, stream);
    case Type::float8_e5m2:
      return launch_rows<__nv_fp8_e5m2, float>(l, stream);
    case Type::float32:
      return launch_every<float, float>(l, stream);
    case Type::boolean:
      return launch_few<Boolean, float>(l, stream);
    case Type::int8:
      return launch_few<int8_t, float>(l, stream);
    case Type::int16:
      return launch_few<int16_t, float>(l, stream);
    case Type::int32:
      return launch_few<int32_t, float>(l, stream);
    case Type::int64:
      return launch_few<int64_t, float>(l, stream);
    case Type::uint8:
      return launch_few<uint8_t, float>(l, stream);
    case Type::uint16:
      return launch_few<uint16_t, float>(l, stream);
    case Type::uint32:
      return launch_few<uint32_t, float>(l, stream);
    case Type::uint64:
      return launch_few<uint64_t, float>(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace reduce_ops::sum
