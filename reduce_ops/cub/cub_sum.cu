#include <cub/device/device_reduce.cuh>
#include <cuda/std/complex>

#include "cub_sum.h"
#include "widen.cuh"

namespace reduce_ops::bench {
namespace {

template <typename In, typename Sum>
cudaError_t sum_as(void* temporary, size_t& bytes, const void* data, int64_t n, void* sum, cudaStream_t stream) {
  const In* in = static_cast<const In*>(data);
  Sum* out = static_cast<Sum*>(sum);
  if constexpr (std::is_same_v<In, Sum>) {
    return cub::DeviceReduce::Sum(temporary, bytes, in, out, n, stream);
  } else {
    return cub::DeviceReduce::TransformReduce(temporary, bytes, in, out, n, cuda::std::plus<>{}, Widen<In, Sum>{},
                                              Sum{}, stream);
  }
}

}  // namespace

cudaError_t cub_sum(CubType type, void* temporary, size_t& bytes, const void* data, int64_t n, void* sum,
                    cudaStream_t stream) {
  switch (type) {
    case CubType::float16:
      return sum_as<__half, float>(temporary, bytes, data, n, sum, stream);
    case CubType::bfloat16:
      return sum_as<__nv_bfloat16, float>(temporary, bytes, data, n, sum, stream);
    case CubType::float32:
      return sum_as<float, float>(temporary, bytes, data, n, sum, stream);
    case CubType::float64:
      return sum_as<double, double>(temporary, bytes, data, n, sum, stream);
    case CubType::boolean:
      return sum_as<bool, int64_t>(temporary, bytes, data, n, sum, stream);
    case CubType::uint8:
      return sum_as<uint8_t, int64_t>(temporary, bytes, data, n, sum, stream);
    case CubType::int8:
      return sum_as<int8_t, int64_t>(temporary, bytes, data, n, sum, stream);
    case CubType::int16:
      return sum_as<int16_t, int64_t>(temporary, bytes, data, n, sum, stream);
    case CubType::int32:
      return sum_as<int32_t, int64_t>(temporary, bytes, data, n, sum, stream);
    case CubType::int64:
      return sum_as<int64_t, int64_t>(temporary, bytes, data, n, sum, stream);
    case CubType::complex64:
      return sum_as<cuda::std::complex<float>, cuda::std::complex<float>>(temporary, bytes, data, n, sum, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace reduce_ops::bench
