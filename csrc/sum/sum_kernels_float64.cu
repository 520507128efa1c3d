#include "sum/launch.cuh"

namespace reduce_ops::sum {

cudaError_t launch_float64(const Launch& l, cudaStream_t stream) {
  switch (l.in) {
    case Type::float16:
      return launch_few<__half, double>(l, stream);
    case Type::bfloat16:
      return launch_few<__nv_bfloat16, double>(l, stream);
    case Type::float8_e4m3fn:
      return launch_few<__nv_fp8_e4m3, double>(l, stream);
    case Type::float8_e5m2:
      return launch_few<__nv_fp8_e5m2, double>(l, stream);
    case Type::float32:
      return launch_few<float, double>(l, stream);
    case Type::float64:
      return launch_every<double, double>(l, stream);
    case Type::boolean:
      return launch_few<Boolean, double>(l, stream);
    case Type::int8:
      return launch_few<int8_t, double>(l, stream);
    case Type::int16:
      return launch_few<int16_t, double>(l, stream);
    case Type::int32:
      return launch_few<int32_t, double>(l, stream);
    case Type::int64:
      return launch_few<int64_t, double>(l, stream);
    case Type::uint8:
      return launch_few<uint8_t, double>(l, stream);
    case Type::uint16:
      return launch_few<uint16_t, double>(l, stream);
    case Type::uint32:
      return launch_few<uint32_t, double>(l, stream);
    case Type::uint64:
      return launch_few<uint64_t, double>(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace reduce_ops::sum
