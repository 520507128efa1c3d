#include "sum/launch.cuh"

namespace reduce_ops::sum {
namespace {

/// From Half to Half, from Half to sums that are not rounded yet, and from these to Half.
template <typename Half>
cudaError_t launch_half(const Launch& l, cudaStream_t stream) {
  if (l.in == Type::float32) return launch_few<float, float, Half>(l, stream);
  return l.out == l.in ? launch_every<Half, float, Half>(l, stream) : launch_unrounded<Half, float>(l, stream);
}

}  // namespace

cudaError_t launch_float16(const Launch& l, cudaStream_t stream) {
  const bool is_float16 = l.in == Type::float16 || l.out == Type::float16;
  return is_float16 ? launch_half<__half>(l, stream) : launch_half<__nv_bfloat16>(l, stream);
}

}  // namespace reduce_ops::sum
