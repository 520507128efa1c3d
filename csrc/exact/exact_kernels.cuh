// From run-time types and plans to kernels. One file for each size of elements instantiates them, so that they compile
// side by side.

#pragma once

#include <algorithm>

#include "exact/exact_columns.cuh"
#include "exact/exact_kernels.h"
#include "exact/exact_rows.cuh"

namespace reduce_ops::exact {

/// A kernel with as much dynamic shared memory as its plan asks for; more than 48 KiB, with the static one, have to be
/// asked for.
template <typename... Arguments, typename... Given>
cudaError_t launch_kernel(void (*kernel)(Arguments...), dim3 grid, int warps, size_t bytes, cudaStream_t stream,
                          Given&&... given) {
  if (bytes > 32 << 10) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error != cudaSuccess) return error;
  }
  kernel<<<grid, warps * kWarpSize, bytes, stream>>>(given...);
  return cudaGetLastError();
}

template <typename In>
cudaError_t launch_exact(const Launch& l, cudaStream_t stream) {
  using B = Bins<In>;
  constexpr int64_t kMaxGridY = 65535;
  const Problem& p = l.problem;
  const Plan& plan = l.plan;
  const auto* data = static_cast<const In*>(l.data);
  static_assert(B::kBytes == bins_bytes(sizeof(In)));
  static_assert(B::kBins * kWarpSize * sizeof(int64_t) == totals_bytes(sizeof(In)));
  const size_t bins = size_t{B::kBytes} * plan.warps;
  switch (plan.family) {
    case Family::run: {
      const dim3 grid(plan.segments, static_cast<unsigned>(std::min(p.outputs, kMaxGridY)),
                      static_cast<unsigned>((p.outputs + kMaxGridY - 1) / kMaxGridY));
      const auto kernel = p.outputs > 1     ? exact_run<In, 4, true>
                          : plan.loads == 4 ? exact_run<In, 4, false>
                                            : exact_run<In, 2, false>;
      return launch_kernel(kernel, grid, plan.warps, bins, stream, data, p.n, l.slots, l.result, p.outputs, p.kept,
                           p.places);
    }
    case Family::rows:
      return launch_kernel(exact_rows<In>, dim3(plan.blocks), plan.warps, bins, stream, data, p.kept, p.places,
                           p.outputs, p.n, l.result);
    case Family::columns: {
      const dim3 grid(static_cast<unsigned>((p.outputs + plan.width - 1) / plan.width), plan.segments);
      const auto kernel = p.reduced.dims == 1 ? exact_columns<In, true> : exact_columns<In, false>;
      return launch_kernel(kernel, grid, plan.warps, bins + totals_bytes(sizeof(In)), stream, data, p, plan.width,
                           l.slots, l.result);
    }
  }
  return cudaErrorInvalidValue;
}

}  // namespace reduce_ops::exact
