#include "sum/launch.cuh"

namespace reduce_ops::sum {
namespace {

template <typename In>
cudaError_t launch_from(const Launch& l, cudaStream_t stream) {
  return l.out == l.in ? launch_every<In, float, In>(l, stream) : launch_unrounded<In, float>(l, stream);
}

}  // namespace

cudaError_t launch_float16(const Launch& l, cudaStream_t stream) {
  return l.in == Type::float16 ? launch_from<__half>(l, stream) : launch_from<__nv_bfloat16>(l, stream);
}

}  // namespace reduce_ops::sum
