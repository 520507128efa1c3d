// Where sums go.

#pragma once

#include <cstdint>

#include "numeric.cuh"

namespace reduce_ops::sum {

/// The sums, rounded to Out.
template <typename Acc, typename Out>
struct Results {
  Out* sums;

  /// store(sums), which converts what it stores.
  template <typename Store>
  __device__ void visit(Store store) const {
    store(sums);
  }
  __device__ void store(int64_t i, Acc sum) const { sums[i] = convert<Out>(sum); }
};

/// Where that rounds, the same kernels also store sums as they are, for `dtype=float32` of 16-bit elements.
template <typename Acc, typename Out>
  requires(sizeof(Out) < sizeof(Acc))
struct Results<Acc, Out> {
  void* sums;
  bool rounded;

  template <typename Store>
  __device__ void visit(Store store) const {
    if (rounded) {
      store(static_cast<Out*>(sums));
    } else {
      store(static_cast<Acc*>(sums));
    }
  }
  __device__ void store(int64_t i, Acc sum) const {
    visit([=]<typename To>(To* result) { result[i] = convert<To>(sum); });
  }
};

}  // namespace reduce_ops::sum
