// How CUB's sums read elements narrower than their sum: each is converted as it is loaded, so that CUB adds in Sum.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace reduce_ops::bench {

template <typename In, typename Sum>
struct Widen {
  __device__ Sum operator()(In x) const {
    if constexpr (std::is_same_v<In, __half>) {
      return __half2float(x);
    } else if constexpr (std::is_same_v<In, __nv_bfloat16>) {
      return __bfloat162float(x);
    } else {
      return x;
    }
  }
};

}  // namespace reduce_ops::bench
