// From run-time types and plans to kernels.

#pragma once

#include <algorithm>

#include "exact/exact_columns.cuh"
#include "exact/exact_kernels.h"
#include "exact/exact_rows.cuh"

namespace reduce_ops::exact {

/// Launches a kernel with so many bytes of dynamic shared memory. More than 48 KiB have to be asked for; what is asked
/// for is always the same, so that threads that launch different plans of a kernel at the same time agree.
template <typename... Arguments, typename... Given>
cudaError_t launch_kernel(void (*kernel)(Arguments...), dim3 grid, int warps, size_t bytes, const Gpu& gpu,
                          cudaStream_t stream, Given&&... given) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, gpu.shared_memory - kStaticBytes);
  if (error != cudaSuccess) return error;
  kernel<<<grid, warps * kWarpSize, bytes, stream>>>(given...);
  return cudaGetLastError();
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

}  // namespace reduce_ops::exact
