// States, rounded, after a division or a root.

#pragma once

#include "device/early_start.cuh"
#include "exact/arguments.cuh"
#include "exact/digits.cuh"

namespace reduce_ops::exact {

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
  write<State, /*kFinishes=*/true>(result, i, digits, kinds);
}

}  // namespace reduce_ops::exact
