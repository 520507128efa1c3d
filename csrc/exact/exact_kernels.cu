#include "exact/exact_kernels.cuh"

namespace reduce_ops::exact {

constexpr int kRoundThreads = 128;

cudaError_t launch(const Launch& l, cudaStream_t stream) {
  switch (l.in) {
    case Type::float8_e4m3fn:
      return launch_exact<__nv_fp8_e4m3>(l, stream);
    case Type::float8_e5m2:
      return launch_exact<__nv_fp8_e5m2>(l, stream);
    case Type::float16:
      return launch_exact<__half>(l, stream);
    case Type::bfloat16:
      return launch_exact<__nv_bfloat16>(l, stream);
    case Type::float32:
      return launch_exact<float>(l, stream);
    case Type::float64:
      return launch_exact<double>(l, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

/// A warp a state. One whose header is not that of the layout is no sum: NaN.
template <typename State>
__global__ void __launch_bounds__(kRoundThreads)
    exact_round(const int64_t* __restrict__ states, int64_t count, const __grid_constant__ Result result) {
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpSize;
  if (i >= count) return;
  const int64_t* words = states + i * State::kWords;
  const int64_t* limbs = words + kFirstLimb;
  const bool fits = is_header<State>(words[kHeader]);
  unsigned kinds = (words[kNaNs] != 0 || !fits ? kIsNaN : 0) | (words[kPlusInfs] != 0 ? kIsPlusInf : 0) |
                   (words[kMinusInfs] != 0 ? kIsMinusInf : 0) | (words[kOthers] != 0 ? kIsOther : 0);
  if (words[kHeader] == 0) kinds |= kIsOther;  // of no elements: +0
  const Digits<State> digits([limbs](int k) { return k < State::kLimbs ? limbs[k] : 0; });
  write(result, i, digits, kinds);
}

cudaError_t launch_round(const int64_t* states, int words, int64_t count, const Result& result, cudaStream_t stream) {
  constexpr int kABlock = kRoundThreads / kWarpSize;
  const auto blocks = static_cast<unsigned>((count + kABlock - 1) / kABlock);
  if (words == Layout32::kWords) {
    exact_round<Layout32><<<blocks, kRoundThreads, 0, stream>>>(states, count, result);
  } else {
    exact_round<Layout64><<<blocks, kRoundThreads, 0, stream>>>(states, count, result);
  }
  return cudaGetLastError();
}

}  // namespace reduce_ops::exact
