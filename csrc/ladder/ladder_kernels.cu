#include "ladder/ladder_kernels.h"
#include "ladder/types.cuh"
#include "ladder/v0_baseline.cuh"
#include "ladder/v1_no_divergence.cuh"
#include "ladder/v2_no_bank_conflict.cuh"
#include "ladder/v3_add_during_load.cuh"
#include "ladder/v4_unroll_last_warp.cuh"
#include "ladder/v5_completely_unroll.cuh"
#include "ladder/v6_multi_add.cuh"
#include "ladder/v7_shuffle.cuh"
#include "ladder/v8_warp_shuffle.cuh"

namespace reduce_ops::ladder {
namespace {

template <typename In, typename Out>
cudaError_t start(void (*rung)(const In*, int64_t, Out*), const Pass& p, cudaStream_t stream) {
  rung<<<static_cast<unsigned>(p.grid.blocks), p.grid.threads, 0, stream>>>(static_cast<const In*>(p.a), p.n,
                                                                            static_cast<Out*>(p.sums));
  return cudaGetLastError();
}

/// The rungs that take m, the number of elements a thread adds.
template <typename In, typename Out>
cudaError_t start(void (*rung)(const In*, int64_t, int64_t, Out*), const Pass& p, cudaStream_t stream) {
  rung<<<static_cast<unsigned>(p.grid.blocks), p.grid.threads, 0, stream>>>(static_cast<const In*>(p.a), p.n,
                                                                            p.grid.elements, static_cast<Out*>(p.sums));
  return cudaGetLastError();
}

/// Calls launch(std::integral_constant<int, T>) for the T among kSizes that equals `threads`.
template <int... kSizes, typename Launch>
cudaError_t with_block_size(int threads, Launch launch) {
  cudaError_t status = cudaErrorInvalidValue;
  (void)((threads == kSizes && (status = launch(std::integral_constant<int, kSizes>{}), true)) || ...);
  return status;
}

template <typename In, typename Acc, typename Out>
cudaError_t launch_typed(int version, const Pass& pass, cudaStream_t stream) {
  switch (version) {
#define RUNG(N, ...) \
  case N:            \
    return start(sum_v##N<In, Acc, Out>, pass, stream);
#define RUNG_WITH_BLOCK_SIZE(N, elements, title, summary, ...) \
  case N:                                                      \
    return with_block_size<__VA_ARGS__>(                       \
        pass.grid.threads, [&](auto threads) { return start(sum_v##N<In, Acc, Out, threads()>, pass, stream); });
#include "ladder/ladder.def"
  }
  return cudaErrorInvalidValue;
}

cudaError_t launch_compiled(int version, const Pass& pass, cudaStream_t stream) {
#define PASS(in, acc, out)                                    \
  if (pass.a_type == Type::in && pass.sums_type == Type::out) \
    return launch_typed<device::in, device::acc, device::out>(version, pass, stream);
#include "ladder/types.def"
  return cudaErrorInvalidValue;
}

}  // namespace

const bool kCompiled = set_compiled(&launch_compiled);

}  // namespace reduce_ops::ladder
