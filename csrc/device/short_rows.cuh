// Sums along rows that lie close to each other in memory and are so short that a warp would be too much for one.
//
// - Rows of 2 to 8 elements: a lane loads some rows whole, as many as fill its loads (3 loads of 16 bytes for four rows
//   of three float32), and needs no other lane (sum_tiny_rows).
//
// - Rows of a multiple of 16 bytes: kLanes lanes load a row, one load each, and fold it by exchange: of the few rows
//   that a lane has in flight it ends with one (sum_small_rows).
//
// - Any other rows: a block copies a tile of some 12 KiB of them to shared memory, by copies of 16 bytes wherever the
//   tile begins. There kLanes lanes take a row: they read neighbouring elements, 8 each, and fold them by exchange
//   (sum_staged_rows). Small tiles win, as more blocks are then at different points (H200, rows of 257 float32, before
//   tiles began with a line: 35.1 us with 12 KiB, 36.3 with 20, 37.4 with 28).

#pragma once

#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// Rows of kN elements without a gap. data and result: multiples of 16 bytes.
template <int kN, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(256) sum_tiny_rows(const __grid_constant__ ShortRows r) {
  constexpr NarrowItem kItem = whole_rows(kN, sizeof(In));
  const auto* const data = static_cast<const In*>(r.data);
  constexpr int kItems = tiny_items(kN, sizeof(In), sizeof(Out));
  constexpr int kRows = kItem.rows;
  const int64_t first = (int64_t{blockIdx.x} * kItems * blockDim.x + threadIdx.x) * kRows;
  const int64_t step = int64_t{blockDim.x} * kRows;
  if (first >= r.rows) return;
  if (threadIdx.x == 0 && static_cast<int>(blockIdx.x) < r.prefetching) {
    prefetch(data + first * kN, data + min(first + kItems * step, r.rows) * kN);
  }
  wait_for_stream();
  let_next_start();
  In element[kItems][kRows * kN] = {};
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int64_t row = first + i * step;
    const In* p = data + row * kN;
    if (row + kRows <= r.rows) {
#pragma unroll
      for (int k = 0; k < kItem.loads; ++k) {
        const uint4 load = __ldg(reinterpret_cast<const uint4*>(p) + k);
        memcpy(element[i] + k * kPerLoad<In>, &load, sizeof load);
      }
    } else {
#pragma unroll
      for (int e = 0; e < kRows * kN; ++e) {
        if (row + e / kN < r.rows) element[i][e] = p[e];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    Acc sum[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      constexpr int kPower = kN <= 2 ? 2 : kN <= 4 ? 4 : 8;
      using Part = Partial<In, Acc>;
      Part x[kPower];
#pragma unroll
      for (int e = 0; e < kPower; ++e) x[e] = e < kN ? convert<Part>(element[i][k * kN + e]) : identity<Part>();
      sum[k] = widen<Acc>(fold_array<kPower>(x));
    }
    const int64_t row = first + i * step;
    if (row + kRows <= r.rows) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) sum[k] = r.results.finish(sum[k]);
      r.results.visit<Acc, Out>([&](auto* result) { store_streaming<kRows>(result + row, sum); });
    } else {
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        if (row + k < r.rows) r.results.store<Out>(row + k, sum[k]);
      }
    }
  }
}

/// Rows of up to kLanes loads of 16 bytes; data and pitch: multiples of 16 bytes.
template <int kLanes, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(256)
    sum_small_rows(const __grid_constant__ ShortRows r, const __grid_constant__ Places places) {
  constexpr int kLoads = kLanes < 4 ? kLanes : 4;
  constexpr int kRowsALoad = kWarpSize / kLanes;
  const unsigned lane = threadIdx.x % kWarpSize;
  const int64_t warp = int64_t{blockIdx.x} * (blockDim.x / kWarpSize) + threadIdx.x / kWarpSize;
  const int64_t first = warp * kRowsALoad * kLoads + lane / kLanes;
  const int place = static_cast<int>(lane % kLanes);
  const bool has_load = place < r.n / kPerLoad<In>;

  const auto* word = reinterpret_cast<const uint4*>(static_cast<const In*>(r.data) + first * r.pitch) + place;
  if (static_cast<int>(blockIdx.x) < r.prefetching) {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      if (has_load && first + u * kRowsALoad < r.rows) prefetch(word + u * kRowsALoad * r.pitch / kPerLoad<In>);
    }
  }
  wait_for_stream();
  let_next_start();
  uint4 load[kLoads];
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    if (has_load && first + u * kRowsALoad < r.rows)
      load[u] = load_once(word + u * kRowsALoad * r.pitch / kPerLoad<In>);
  }
  Acc x[kLoads];
#pragma unroll
  for (int u = 0; u < kLoads; ++u) x[u] = select(has_load, fold_load<In, Acc>(load[u]), identity<Acc>());
  const Acc sum = exchange<kLoads, kLanes>(x, lane);
  const int64_t row = first + exchanged<kLoads>(lane) * kRowsALoad;
  if (place < kLoads && row < r.rows) r.results.store<Out>(places.of(row), sum);
}

inline constexpr int kStagedElements = 8;  // of a lane at once
inline constexpr int kStagedChunks =
    std::bit_ceil((kMaxShortRow - 1u) / (kWarpSize * kStagedElements) + 1);  // of a row
static_assert(kStagedChunks * kWarpSize * kStagedElements >= kMaxShortRow);

/// A chunk of a row, of which n > 0 elements are left, by kLanes lanes; every lane gets the result. Where a lane has no
/// row, element must not be read.
template <int kLanes, typename Acc, typename In>
__device__ Acc fold_staged(const In* element, int n, bool has_row) {
  const int lane = threadIdx.x % kLanes;
  if (kLanes == kWarpSize && n <= kLanes) {  // few are left, such as the last of 257
    Acc x = identity<Acc>();
    if (has_row && lane < n) x = convert<Acc>(element[lane]);
    return fold_lanes(x);
  }
  Acc x[kStagedElements];
  if (kLanes == kWarpSize && n >= kLanes * kStagedElements && has_row) {  // nothing is missing
#pragma unroll
    for (int u = 0; u < kStagedElements; ++u) x[u] = convert<Acc>(element[u * kLanes + lane]);
  } else {
#pragma unroll
    for (int u = 0; u < kStagedElements; ++u) {
      x[u] = identity<Acc>();
      if (has_row && u * kLanes + lane < n) x[u] = convert<Acc>(element[u * kLanes + lane]);
    }
  }
  return fold_exchange<kStagedElements, kLanes>(x, threadIdx.x);
}

/// Rows of up to 8 * kLanes elements or, where kLanes is 32, kMaxShortRow. Where: InPlace or Places, which in this
/// loop, unlike behind it, cost rows that are in place 5 to 12 % (H200, (131072, 257) float16 25.4 us instead of 24.3,
/// int8 26.8 and 23.9).
template <int kLanes, typename Where, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(kStagedThreads)
    sum_staged_rows(const __grid_constant__ ShortRows r, const __grid_constant__ Where where) {
  wait_for_stream();
  let_next_start();
  constexpr int kWords = kTileBytes / kLoadBytes;
  __shared__ uint4 tile[kWords];
  const int64_t first = int64_t{blockIdx.x} * r.tile_rows;
  const int rows = static_cast<int>(min(r.rows - first, int64_t{r.tile_rows}));

  // From the start of a line, so that what a warp copies at once is whole lines: 33.7 us for (131072, 257), from the
  // word that the tile begins in 35.7 (H200).
  const auto begin = reinterpret_cast<uintptr_t>(static_cast<const In*>(r.data) + first * r.pitch);
  const auto* source = reinterpret_cast<const uint4*>(begin & ~uintptr_t{kLineBytes - 1});
  const int skip = static_cast<int>(begin % kLineBytes);
  const int bytes = skip + static_cast<int>(((rows - 1) * r.pitch + r.n) * sizeof(In));
  // The word that the last element ends in may not be all there; its elements are copied one by one.
  const int words = bytes / kLoadBytes;
#pragma unroll
  for (int i = 0; i < kWords / kStagedThreads; ++i) {
    const int w = i * kStagedThreads + threadIdx.x;
    if (w >= skip / kLoadBytes && w < words) copy_async(tile + w, source + w);
  }
  const int left = words * kLoadBytes / static_cast<int>(sizeof(In)) + static_cast<int>(threadIdx.x);
  if (left * static_cast<int>(sizeof(In)) < bytes) {
    reinterpret_cast<In*>(tile)[left] = reinterpret_cast<const In*>(source)[left];
  }
  wait_for_copies();
  __syncthreads();

  constexpr int kChunk = kLanes * kStagedElements;
  constexpr int kChunks = kLanes < kWarpSize ? 1 : kStagedChunks;
  constexpr int kRowsAtOnce = kStagedThreads / kLanes;
  const In* elements = reinterpret_cast<const In*>(reinterpret_cast<const char*>(tile) + skip);
  for (int row0 = 0; row0 < rows; row0 += kRowsAtOnce) {
    const int row = row0 + threadIdx.x / kLanes;
    const In* element = elements + row * r.pitch;
    Acc node[kChunks];
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      node[c] = identity<Acc>();
      if (c * kChunk < r.n) node[c] = fold_staged<kLanes, Acc>(element + c * kChunk, r.n - c * kChunk, row < rows);
    }
    const Acc sum = fold_array<kChunks>(node);
    if (threadIdx.x % kLanes == 0 && row < rows) r.results.store<Out>(where.of(first + row), sum);
  }
}

}  // namespace reduce_ops::sum
