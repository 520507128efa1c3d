#include "sum/launch.cuh"

namespace reduce_ops::sum {
namespace {

/// From Half to Half or to sums that are not rounded, and from such sums to Half.
template <typename Half>
cudaError_t launch_half(const Launch& l, cudaStream_t stream) {
  return l.in == Type::float32 ? launch_few<float, float, Half>(l, stream) : launch_every<Half, float, Half>(l, stream);
}

}  // namespace

cudaError_t launch_float16(const Launch& l, cudaStream_t stream) {
  const bool is_float16 = l.in == Type::float16 || l.out == Type::float16;
  return is_float16 ? launch_half<__half>(l, stream) : launch_half<__nv_bfloat16>(l, stream);
}

}  // namespace reduce_ops::sum
