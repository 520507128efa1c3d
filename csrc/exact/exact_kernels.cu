// From run-time types and plans to kernels.

#include "early_start.cuh"
#include "exact/exact_columns.cuh"
#include "exact/exact_kernels.h"
#include "exact/exact_rows.cuh"

namespace reduce_ops::exact {
namespace {

constexpr int kRoundThreads = 128;

/// Launches a kernel with so many bytes of dynamic shared memory. More than 48 KiB have to be asked for; what is asked
/// for is always the same, so that threads that launch different plans of a kernel at the same time agree.
template <typename... Arguments, typename... Given>
cudaError_t launch_kernel(void (*kernel)(Arguments...), dim3 grid, int warps, size_t bytes, const Gpu& gpu,
                          cudaStream_t stream, Given&&... given) {
  if (bytes + kStaticBytes > 48 << 10) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, gpu.shared_memory - kStaticBytes);
    if (error != cudaSuccess) return error;
  }
  return launch_early(kernel, grid, warps * kWarpSize, bytes, stream, given...);
}

template <typename In>
cudaError_t launch_exact(const Launch& l, cudaStream_t stream) {
  using B = Bins<In>;
  const Problem& p = l.problem;
  const Plan& plan = l.plan;
  const auto* data = static_cast<const In*>(l.data);
  static_assert(B::kBytes == bins_bytes(sizeof(In)));
  static_assert(all_column_warps(sizeof(In)) <= 32, "the bins of so many add up without rounding");
  static_assert(B::kBins * kWarpSize * sizeof(int64_t) == totals_bytes(sizeof(In)));
  const size_t bins = size_t{B::kBytes} * plan.warps;
  switch (plan.family) {
    case Family::run: {
      const dim3 grid(plan.segments, static_cast<unsigned>(p.outputs));
      const auto kernel = p.outputs > 1     ? exact_run<In, 4, true>
                          : plan.loads == 4 ? exact_run<In, 4, false>
                                            : exact_run<In, 2, false>;
      return launch_kernel(kernel, grid, plan.warps, bins, l.gpu, stream, data, p.n, l.slots, l.result, p.kept,
                           p.places);
    }
    case Family::rows:
      return launch_kernel(exact_rows<In>, dim3(plan.blocks), plan.warps, bins, l.gpu, stream, data, p.kept, p.places,
                           p.outputs, p.n, l.result);
    case Family::columns: {
      const dim3 grid(static_cast<unsigned>((p.outputs + plan.width - 1) / plan.width), plan.segments);
      const auto kernel = p.reduced.dims == 1 ? exact_columns<In, true> : exact_columns<In, false>;
      return launch_kernel(kernel, grid, plan.warps, bins + totals_bytes(sizeof(In)), l.gpu, stream, data, p,
                           plan.width, l.slots, l.result);
    }
  }
  return cudaErrorInvalidValue;
}

}  // namespace

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
  wait_for_stream();
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
  const auto kernel = words == Layout32::kWords ? exact_round<Layout32> : exact_round<Layout64>;
  return launch_early(kernel, blocks, kRoundThreads, 0, stream, states, count, result);
}

}  // namespace reduce_ops::exact
