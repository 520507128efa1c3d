// Rows that stay in registers between two reductions: their mean, and the variance from it. Memory is read once, where
// two launches read it twice. A row is one warp's or one block's, which so has room for 4096 loads of 16 bytes at most.
//
// What limits it: the memory; of rows of some KB the blocks that a multiprocessor holds, as each waits for its own
// loads.

#pragma once

#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/pack.cuh"

namespace reduce_ops::sum {

/// The value above those of all warps of a row, for all of its threads. s: a place for each warp.
template <typename Acc>
__device__ Acc fold_warps(Acc x, Acc* s, int warps, unsigned lane, unsigned warp) {
  if (warps == 1) return x;
  if (lane == 0) s[warp] = x;
  __syncthreads();
  return fold_lanes(static_cast<int>(lane) < warps ? s[lane] : identity<Acc>());
}

/// What a lane holds of a row: kLoads times kVector neighbours of the n elements of its row, from `first` on. kWhole:
/// all of them exist, which to ask of each took as long as all else.
template <bool kWhole, int kVector, int kLoads, typename In>
class Held {
 public:
  __device__ Held(int first, int n) : first_(first), n_(n) {}

  __device__ void load(const In* row) {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const In* const p = row + index(u, 0);
      if (exists(u, kVector - 1)) {
        pack_[u] = Pack<kVector, In>::template load</*kOnce=*/true>(p);
      } else {
        pack_[u] = {};
#pragma unroll
        for (int v = 0; v < kVector - 1; ++v) {
          if (exists(u, v)) pack_[u].element[v] = p[v];
        }
      }
    }
  }

  /// The node above leaf(x) of all elements x of the warp, as T.
  template <typename T, typename Leaf>
  __device__ auto fold(unsigned lane, const Leaf& leaf) const {
    using Node = decltype(leaf(T{}));
    Node node[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      Node x[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        x[v] = select(exists(u, v), leaf(convert<T>(pack_[u].element[v])), identity<Node>());
      }
      node[u] = fold_array<kVector>(x);
    }
    return fold_exchange(node, lane);
  }

 private:
  __device__ int index(int u, int v) const { return first_ + u * kWarpSize * kVector + v; }
  __device__ bool exists(int u, int v) const { return kWhole || index(u, v) < n_; }

  int first_, n_;
  Pack<kVector, In> pack_[kLoads];
};

/// Each row by blockDim.x threads, as many as it takes to load it at once; blockDim.y rows a block, one if that is more
/// than a warp. Acc: Node<Variance<T>> or Node<Deviation<T>>.
template <int kThreads, int kVector, int kLoads, typename In, typename T, typename Acc, typename Out>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads) sum_resident_rows(const __grid_constant__ ResidentRows r) {
  constexpr int kMostWarps = kThreads / kWarpSize;
  constexpr int kChunk = kLoads * kWarpSize * kVector;
  __shared__ T totals[kMostWarps];
  __shared__ Acc pairs[kMostWarps];
  const unsigned lane = threadIdx.x % kWarpSize;
  const unsigned warp = threadIdx.x / kWarpSize;
  const int warps = blockDim.x / kWarpSize;
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= r.rows) return;
  wait_for_stream();
  let_next_start();
  const In* const data = static_cast<const In*>(r.data) + r.kept.offset(row);
  const int first = static_cast<int>(warp) * kChunk + static_cast<int>(lane) * kVector;

  const auto reduce = [&](auto held) {
    held.load(data);
    const T sum = held.template fold<T>(lane, [](T x) { return x; });
    const T mean = Mean<T>::finish(fold_warps(sum, totals, warps, lane, warp), r.n);
    const Acc differences = held.template fold<T>(lane, [mean](T x) {
      const T d = x - mean;
      return Acc{{d * d, d}};
    });
    const Acc result = fold_warps(differences, pairs, warps, lane, warp);
    if (threadIdx.x > 0) return;
    static_cast<T*>(r.means)[row] = mean;
    r.results.store<Out>(row, result);
  };
  if (warps * kChunk == r.n) {
    reduce(Held<true, kVector, kLoads, In>(first, r.n));
  } else {
    reduce(Held<false, kVector, kLoads, In>(first, r.n));
  }
}

}  // namespace reduce_ops::sum
