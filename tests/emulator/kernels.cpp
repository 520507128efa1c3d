// In place of csrc/sum/sum_kernels_*.cu: the kernels for what tests/sanitizer/sum_driver.cu sums. Those for all types
// take twice as long to compile.

#include "sum/launch.cuh"

namespace reduce_ops::sum {

cudaError_t launch_float16(const Launch& l, cudaStream_t stream) {
  return l.in == Type::float16 ? launch_every<__half, float, __half>(l, stream) : cudaErrorInvalidValue;
}

cudaError_t launch_float32(const Launch& l, cudaStream_t stream) {
  switch (l.in) {
    case Type::float8_e4m3fn:
      return launch_rows<__nv_fp8_e4m3, float>(l, stream);
    case Type::float8_e5m2:
      return launch_rows<__nv_fp8_e5m2, float>(l, stream);
    case Type::float32:
      return launch_every<float, float>(l, stream);
    case Type::int32:
      return launch_few<int32_t, float>(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t launch_float64(const Launch& l, cudaStream_t stream) {
  return l.in == Type::float64 ? launch_every<double, double>(l, stream) : cudaErrorInvalidValue;
}

cudaError_t launch_int64(const Launch& l, cudaStream_t stream) {
  return l.in == Type::int16 ? launch_rows<int16_t, uint64_t>(l, stream) : cudaErrorInvalidValue;
}

cudaError_t launch_int8(const Launch& l, cudaStream_t stream) {
  return l.in == Type::int8 ? launch_every<int8_t, uint64_t>(l, stream) : cudaErrorInvalidValue;
}

cudaError_t launch_complex(const Launch& l, cudaStream_t stream) {
  if (l.in != Type::complex64 || l.accumulate != l.in) return cudaErrorInvalidValue;
  return launch_every<Complex<float>, Complex<float>>(l, stream);
}

}  // namespace reduce_ops::sum
