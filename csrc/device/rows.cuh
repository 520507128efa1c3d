// Outputs of many elements, of which the full sum is the one with a single output: one or more blocks an output.
//
// The leaves of an output are cut into chunks. A warp turns a chunk into one value without shared memory or barrier
// (sources.cuh) and drops it into shared memory; a block does so with `tiles` times as many chunks as it has warps, one
// barrier, and one fold. The last block of an output folds the sums of all its blocks (slots.cuh). All of these are
// aligned power-of-two ranges, or, of integers, any that do not overlap, so nothing of the grid shows in the result.
//
// Why it is fast: in the middle of a launch every warp does nothing but load and fold, and at its end one barrier, one
// published word and the collector's polls are left: up to 2^26 floats 0.6 us more than a kernel that only reads,
// beyond up to 1.4 % (H200). What limits it: the memory; below some 2^20 elements the latency of a launch, of a load
// and of that end.

#pragma once

#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/shifted.cuh"
#include "device/slots.cuh"
#include "device/sources.cuh"
#include "device/strided.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// Tiles, of a chunk a warp, that a block folds at once.
inline constexpr int kTilesAtOnce = kMaxTiles / kWarpSize;

/// Blocks of an output of sum_small_grid, at most.
template <int kThreads, bool kBatched>
inline constexpr int kMostSmallBlocks = most_small_blocks(kThreads, !kBatched);

/// s[0..count), count <= kMost <= 32 * 32, as a tree. Called by the whole block after a barrier; warp 0 gets the
/// result.
template <int kMost, typename Acc>
__device__ Acc fold_shared(Acc* s, int count, unsigned lane, unsigned warp) {
  static_assert(kMost <= kWarpSize * kWarpSize);
  if (kMost > kWarpSize && count > kWarpSize) {
    const int groups = (count + kWarpSize - 1) / kWarpSize;
    for (int g = warp; g < groups; g += blockDim.x / kWarpSize) {
      const int i = g * kWarpSize + lane;
      const Acc sum = fold_lanes(i < count ? s[i] : identity<Acc>());
      __syncwarp();
      if (lane == 0) s[g * kWarpSize] = sum;
    }
    __syncthreads();
    if (warp != 0) return identity<Acc>();
    return fold_lanes(static_cast<int>(lane) < groups ? s[lane * kWarpSize] : identity<Acc>());
  }
  if (warp != 0) return identity<Acc>();
  Acc sum = static_cast<int>(lane) < count ? s[lane] : identity<Acc>();
  for (int mask = 1; mask < count; mask *= 2) sum += shuffle_xor(sum, mask);
  return sum;
}

/// The sum of the slots from `first` up to `end`, but no more than kCount * 32, once all are there.
template <int kCount, typename Acc>
__device__ Acc take_range(const Slots<Acc>& slots, int first, int end, unsigned lane) {
  Sums<1, Acc> sums[kCount];
  slots.take_by_warp(first + lane, kWarpSize, end, sums);
  Acc x[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = sums[i].x[0];
  return fold_exchange(x, lane);
}

/// The same of all slots up to `end`, at most kMostBlocks, by the whole block; thread 0 gets the result.
template <int kCount, int kWarps, int kMostBlocks, typename Acc>
__device__ Acc fold_ranges(const Slots<Acc>& slots, int end, Acc* s, unsigned lane, unsigned warp) {
  constexpr int kRange = kCount * kWarpSize;
  const int ranges = (end + kRange - 1) / kRange;
  for (int r = warp; r < ranges; r += kWarps) {
    const Acc sum = take_range<kCount>(slots, r * kRange, end, lane);
    if (lane == 0) s[r] = sum;
  }
  __syncthreads();
  return fold_shared<(kMostBlocks + kRange - 1) / kRange>(s, ranges, lane, warp);
}

/// The sums of the `blocks` blocks of an output, at most kMostBlocks, once all are published. Called by the whole
/// collecting block; thread 0 gets the result.
template <int kWarps, int kMostBlocks, typename Acc>
__device__ Acc collect(const Slots<Acc>& slots, int blocks, Acc* s, unsigned lane, unsigned warp) {
  if (kMostBlocks <= kWarpSize || blocks <= kWarpSize) {  // warp 0 alone, without a barrier
    return warp == 0 ? take_range<1>(slots, 0, blocks, lane) : identity<Acc>();
  }
  __syncthreads();  // s is free again
  constexpr int kAtOnce = kWarps * kWarpSize;
  if (kMostBlocks <= kAtOnce || blocks <= kAtOnce) {
    return fold_ranges<1, kWarps, kAtOnce>(slots, blocks, s, lane, warp);
  }
  // Polls in flight: 2048 blocks cost 16 warps one round trip to L2 instead of four. Wide types would spill.
  constexpr int kPolls = sizeof(Acc) <= 4 ? 4 : sizeof(Acc) <= 8 ? 2 : 1;
  return fold_ranges<kPolls, kWarps, kMostBlocks>(slots, blocks, s, lane, warp);
}

/// The chunk from leaf `first` on of n, of which there may be less, or nothing.
template <typename Source>
__device__ typename Source::Acc sum_chunk(const Source& source, const typename Source::Row& row, int64_t first,
                                          int64_t n, unsigned lane) {
  static_assert(sizeof(Source) == sizeof(typename Source::Argument), "it is what the host passes");
  if (n - first >= Source::kChunk + Source::kSlack) return source.chunk(row, first, n, lane);
  return first < n ? source.ragged_chunk(row, first, n, lane) : identity<typename Source::Acc>();
}

/// s[0..count), count <= kMost <= 32, as a tree, by one warp.
template <int kMost, typename Acc>
__device__ Acc fold_few(const Acc* s, unsigned count, unsigned lane) {
  Acc sum = lane < count ? s[lane] : identity<Acc>();
#pragma unroll
  for (int mask = 1; mask < kMost; mask *= 2) sum += shuffle_xor(sum, mask);
  return sum;
}

/// At most one chunk: one warp an output. n > 0. Where: Places or InPlace, of outputs that are many, here and below.
template <int kThreads, typename Source, typename Where, typename Out>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    sum_warp(const __grid_constant__ Source source, int64_t outputs, int64_t n, const __grid_constant__ Where where,
             int prefetching, const Results results) {
  // Blocks of two loads a lane, those in place, live so short that anything more shows: (131072, 256) 40.4 us instead
  // of 30.8 (H200).
  constexpr bool kBrief = std::is_same_v<Where, InPlace>;
  if (kBrief) wait_for_stream();
  using Acc = typename Source::Acc;
  const unsigned lane = threadIdx.x % kWarpSize;
  const int64_t output = int64_t{blockIdx.x} * (kThreads / kWarpSize) + threadIdx.x / kWarpSize;
  if (output >= outputs) return;
  const auto row = source.row(output);
  if constexpr (!kBrief) {
    if (static_cast<int>(blockIdx.x) < prefetching) source.prefetch(row, 0, n, lane);
    wait_for_stream();
    let_next_start();
  }
  const Acc sum =
      n >= Source::kChunk + Source::kSlack ? source.chunk(row, 0, n, lane) : source.ragged_chunk(row, 0, n, lane);
  if (lane == 0) results.store<Out>(where.of(output), sum);
}

/// At most blockDim.x / 32 chunks: one block an output, no slots. n > 0. kBatched: output i is that of block (i %
/// gridDim.x, i / gridDim.x), and blocks have up to kThreads threads; otherwise there is one output and one block of
/// kThreads, which saves 0.15 us of finding out.
template <int kThreads, bool kBatched, typename Source, typename Where, typename Out>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    sum_block(const __grid_constant__ Source source, int64_t outputs, int64_t n, const __grid_constant__ Where where,
              int prefetching, const Results results) {
  using Acc = typename Source::Acc;
  constexpr int kWarps = kThreads / kWarpSize;
  const unsigned lane = threadIdx.x % kWarpSize;
  const unsigned warp = threadIdx.x / kWarpSize;
  const int64_t output = kBatched ? int64_t{blockIdx.y} * gridDim.x + blockIdx.x : 0;
  if (kBatched && output >= outputs) return;
  const auto row = source.row(output);

  const int64_t first = warp * Source::kChunk;
  if (kBatched && output < prefetching) source.prefetch(row, first, n, lane);
  wait_for_stream();
  let_next_start();
  Acc sum = sum_chunk(source, row, first, n, lane);
  if constexpr (kWarps > 1) {
    __shared__ Acc s[kWarps];
    if (lane == 0) s[warp] = sum;
    __syncthreads();
    if (warp != 0) return;
    sum = fold_few<kWarps>(s, kBatched ? blockDim.x / kWarpSize : kWarps, lane);
  }
  if (threadIdx.x == 0) results.store<Out>(kBatched ? where.of(output) : 0, sum);
}

/// Few chunks, one a warp: gridDim.x blocks an output, two to kMostSmallBlocks, and gridDim.y outputs, one if not
/// kBatched. Slots as for sum_grid.
///
/// What sum_grid has for tiles, groups of tiles and more blocks is not in this code, in which a launch so short finds
/// its way sooner: in a row, 2^15 float32 1.40 us, by sum_grid 1.56; 2^18 1.67 and 1.84, off by one 1.72 and 2.03; 2^20
/// 2.68 and 2.76; (4, 80000) over dimension 1 2.46 and 2.74 (H200).
template <int kThreads, bool kBatched, typename Source, typename Where, typename Out>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    sum_small_grid(const __grid_constant__ Source source, int64_t n, void* slot_memory,
                   const __grid_constant__ Where where, int prefetching, LetNext let_next, const Results results) {
  using Acc = typename Source::Acc;
  constexpr int kWarps = kThreads / kWarpSize;
  constexpr int kMostBlocks = kMostSmallBlocks<kThreads, kBatched>;
  static_assert(kMostBlocks <= kThreads);  // or its collector needs more room in s
  __shared__ Acc s[kWarps];
  const unsigned lane = threadIdx.x % kWarpSize;
  const unsigned warp = threadIdx.x / kWarpSize;
  const int output = kBatched ? static_cast<int>(blockIdx.y) : 0;
  const auto row = source.row(output);

  const int64_t first = (int64_t{blockIdx.x} * kWarps + warp) * Source::kChunk;
  const unsigned first_slot = output * gridDim.x;
  if (static_cast<int>(first_slot + blockIdx.x) < prefetching) source.prefetch(row, first, n, lane);
  wait_for_stream();
  if (let_next == LetNext::at_start) let_next_start();
  Acc sum = sum_chunk(source, row, first, n, lane);
  if (lane == 0) s[warp] = sum;
  __syncthreads();
  if (let_next == LetNext::when_loaded) let_next_start();

  const bool collects = blockIdx.x == gridDim.x - 1;
  // Warps that pass by the code of the first one make it slower: 3 x 2^16 float32, off by one, 1.87 us instead of 1.69.
  if (warp != 0 && (kMostBlocks <= kWarpSize || !collects)) return;
  const Slots<Acc> slots(slot_memory, kMaxBlocks, first_slot);
  if (warp == 0) {
    sum = fold_few<kWarps>(s, kWarps, lane);
    if (lane == 0) slots.publish(blockIdx.x, sum);
  }
  if (!collects) return;
  sum = collect<kWarps, kMostBlocks>(slots, gridDim.x, s, lane, warp);
  if (threadIdx.x == 0) results.store<Out>(kBatched ? where.of(output) : 0, sum);
}

/// Any number of chunks: gridDim.x blocks an output, of `tiles` chunks a warp, and gridDim.y * gridDim.z outputs at
/// least; if not kBatched, one output and more than one block, of which the last one may have no elements and then only
/// collects. tiles is a power of two up to kMaxTiles. Where an output has more than one block, there are up to
/// kMaxBlocks in all, and slots, which are empty before and after.
template <int kThreads, bool kBatched, typename Source, typename Where, typename Out>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    sum_grid(const __grid_constant__ Source source, int64_t outputs, int64_t n, int tiles, void* slot_memory,
             const __grid_constant__ Where where, int prefetching, LetNext let_next, const Results results) {
  using Acc = typename Source::Acc;
  constexpr int kWarps = kThreads / kWarpSize;
  constexpr int kGroups = kMaxBlocks / kWarpSize;
  __shared__ Acc s[kTilesAtOnce * kWarps > kGroups ? kTilesAtOnce * kWarps : kGroups];
  // Of tiles [32 g, 32 g + 32), where there are more than 32. In registers, which a shifted run of float64 has none
  // left of, they spilled.
  __shared__ Acc group_sums[kMaxTiles / kTilesAtOnce];
  const unsigned lane = threadIdx.x % kWarpSize;
  const unsigned warp = threadIdx.x / kWarpSize;
  const int64_t output = kBatched ? int64_t{blockIdx.z} * gridDim.y + blockIdx.y : 0;
  if (kBatched && output >= outputs) return;
  const auto row = source.row(output);

  int64_t first = (int64_t{blockIdx.x} * tiles * kWarps + warp) * Source::kChunk;
  if (output * gridDim.x + blockIdx.x < prefetching) source.prefetch(row, first, n, lane);
  wait_for_stream();
  if (let_next == LetNext::at_start) let_next_start();
  Acc sum = identity<Acc>();
  for (int group = 0; group * kTilesAtOnce < tiles; ++group) {
    if (group > 0) __syncthreads();  // s is free again
    const int end = min(tiles - group * kTilesAtOnce, kTilesAtOnce);
    int t = 0;
    for (; t < end && n - first >= Source::kChunk + Source::kSlack; ++t, first += kWarps * Source::kChunk) {
      const Acc chunk = source.chunk(row, first, n, lane);
      if (lane == 0) s[t * kWarps + warp] = chunk;
    }
    for (; t < end; ++t, first += kWarps * Source::kChunk) {  // in a loop of its own, or its registers cost the first
      const Acc chunk = first < n ? source.ragged_chunk(row, first, n, lane) : identity<Acc>();
      if (lane == 0) s[t * kWarps + warp] = chunk;
    }
    __syncthreads();
    sum = fold_shared<kTilesAtOnce * kWarps>(s, end * kWarps, lane, warp);
    if (threadIdx.x == 0) group_sums[group] = sum;
  }
  if (tiles > kTilesAtOnce && warp == 0) {
    __syncwarp();  // thread 0 wrote them
    sum = fold_lanes(static_cast<int>(lane) * kTilesAtOnce < tiles ? group_sums[lane] : identity<Acc>());
  }
  if (!kBatched && let_next == LetNext::when_loaded) let_next_start();

  if (!kBatched || gridDim.x > 1) {
    const Slots<Acc> slots(slot_memory, kMaxBlocks, static_cast<unsigned>(output) * gridDim.x);
    if (threadIdx.x == 0) slots.publish(blockIdx.x, sum);
    if (blockIdx.x != gridDim.x - 1) return;
    sum = collect<kWarps, kMaxBlocks>(slots, gridDim.x, s, lane, warp);
  }
  if (threadIdx.x == 0) results.store<Out>(kBatched ? where.of(output) : 0, sum);
}

}  // namespace reduce_ops::sum
