// Sums down 2 to 32 columns that fill memory without a gap, such as a batch of points: column sums of rows so short
// that a thread a column would read a few bytes at a time.
//
// A warp reads neighbouring words of 16 bytes, so that every byte is loaded once. Where a row is a power of two of such
// words, as many lanes share it, each with some of its columns; otherwise a lane reads an item: as many words as hold
// whole rows (3 for three float32 columns: 4 rows). A lane folds the rows of each of its kItems items in registers; the
// items of a warp, which follow each other, fold across its lanes by exchange. That makes a chunk one row of sums,
// which goes to shared memory without a barrier; a block does so with `batches` chunks a warp, next to those of its
// other warps, and folds what it has (as in rows.cuh). Segments as in segments.cuh. Matrices come in the order of
// memory, and sums go to their places.

#pragma once

#include "device/columns.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/segments.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// How many rows of kColumns elements lanes and warps take.
template <int kColumns, typename In>
struct Narrow {
  static constexpr NarrowItem kItem = narrow_item(kColumns, sizeof(In));
  static constexpr int kLanes = kItem.lanes;                // that share a row
  static constexpr int kOwn = kColumns / kLanes;            // columns of a lane
  static constexpr int kRows = kItem.rows;                  // of an item
  static constexpr int kItems = kItem.items;                // in flight
  static constexpr int kStep = kWarpSize / kLanes * kRows;  // rows from a lane's item to its next one
  static constexpr int64_t kChunk = int64_t{kStep} * kItems;
  static constexpr int kWidth = narrow_width(kColumns);

  /// The first row of a lane in a chunk, and its first column.
  static __device__ int row(unsigned lane) { return lane / kLanes * kRows; }
  static __device__ int first_column(unsigned lane) { return lane % kLanes * kOwn; }
  /// Of the columns of a lane, whose sums several lanes then have, the one that it stores; kOwn or more: none.
  static __device__ int stored(unsigned lane) { return lane / kLanes; }
};

/// A chunk of rows of bytes, as loaded: their sum for the column that the lane stores.
template <int kColumns, typename In, typename Acc, int kItems>
__device__ Acc fold_bytes(const uint4 (&load)[kItems][1], unsigned lane) {
  using N = Narrow<kColumns, In>;
  constexpr int kWords = N::kOwn / 4;
  static_assert(N::kChunk <= ByteColumns<In>::kMaxRows);
  ByteColumns<In> columns[kWords];
  Acc mine = identity<Acc>();
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const uint32_t word[4] = {load[i][0].x, load[i][0].y, load[i][0].z, load[i][0].w};
      columns[w].add(word[w]);
    }
    columns[w].template fold_lanes<N::kLanes>();
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const Acc sum = widen<Acc>(columns[w].sum(c, static_cast<int>(N::kChunk)));
      mine = select(N::stored(lane) == w * 4 + c, sum, mine);
    }
  }
  return mine;
}

/// A chunk of rows, of which `rows` are left from the lane's first item on, which may be less than 0: the node above
/// them of the column that the lane stores. kWhole: no row is missing.
template <bool kWhole, int kColumns, typename In, typename Acc>
__device__ Acc fold_items(const In* first, int rows, unsigned lane) {
  using N = Narrow<kColumns, In>;
  constexpr int kLoads = N::kItem.loads;
  constexpr int kElements = N::kRows * N::kOwn;
  using Part = Partial<In, Acc>;
  In element[N::kItems][kElements] = {};  // as in fold_rows_left
  if constexpr (kWhole) {
    const uint4* word = reinterpret_cast<const uint4*>(first);
    uint4 load[N::kItems][kLoads];
#pragma unroll
    for (int i = 0; i < N::kItems; ++i) {
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        // Where a lane takes more than one load, a sector is read by several, and should stay in L1.
        const uint4* p = word + i * kWarpSize * kLoads + k;
        load[i][k] = kLoads == 1 ? load_once(p) : __ldg(p);
      }
    }
    if constexpr (std::is_integral_v<Acc> && sizeof(In) == 1 && N::kRows == 1 && kLoads == 1) {
      return fold_bytes<kColumns, In, Acc>(load, lane);
    }
    memcpy(element, load, sizeof element);
  } else {
#pragma unroll
    for (int i = 0; i < N::kItems; ++i) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int r = i * N::kStep + e / N::kOwn;
        if (r < rows) element[i][e] = first[r * kColumns + e % N::kOwn];
      }
    }
  }
  Acc mine = identity<Acc>();
#pragma unroll
  for (int column = 0; column < N::kOwn; ++column) {
    Part item[N::kItems];
#pragma unroll
    for (int i = 0; i < N::kItems; ++i) {
      Part x[N::kRows];
#pragma unroll
      for (int r = 0; r < N::kRows; ++r) {
        x[r] = convert<Part>(element[i][r * N::kOwn + column]);
        if (!kWhole) x[r] = select(i * N::kStep + r < rows, x[r], identity<Part>());
      }
      item[i] = fold_array<N::kRows>(x);
    }
    const Part sum = fold_exchange<N::kItems, kWarpSize, N::kLanes>(item, lane);
    mine = select(N::stored(lane) == column, widen<Acc>(sum), mine);
  }
  return mine;
}

inline constexpr int kWarpsAtOnce = kNarrowWarps / 2;

/// The sums of up to kWarpsAtOnce warps, kColumns apart.
template <int kColumns, typename Acc>
__device__ Acc fold_warps(const Acc* sums, int warps) {
  Acc x[kWarpsAtOnce];
#pragma unroll
  for (int w = 0; w < kWarpsAtOnce; ++w) {
    x[w] = identity<Acc>();
    if (w < warps) x[w] = sums[w * kColumns];
  }
  return fold_array<kWarpsAtOnce>(x);
}

/// Not inlined: this is for the last chunk only.
template <int kColumns, typename In, typename Acc>
__device__ __noinline__ Acc fold_items_left(const In* first, int rows, unsigned lane) {
  return fold_items<false, kColumns, In, Acc>(first, rows, lane);
}

/// gridDim.x segments, of c.batches chunks for each warp; gridDim.y matrices of c.n rows, one after the other, each
/// starting at a multiple of 16 bytes. blockDim: kWidth times what makes a power of two of warps, up to kNarrowWarps.
template <int kColumns, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(kNarrowWarps* kWarpSize, narrow_blocks(kColumns, sizeof(In)))
    sum_narrow_columns(const __grid_constant__ Columns c) {
  using N = Narrow<kColumns, In>;
  constexpr int kTiles = narrow_tiles(kColumns, sizeof(Acc));
  static_assert(kTiles * kNarrowWarps * kColumns * sizeof(Acc) <= 32 << 10);
  extern __shared__ uint4 shared[];
  auto* s = reinterpret_cast<Acc*>(shared);  // rows of kColumns sums, one for each chunk
  const unsigned thread = threadIdx.y * N::kWidth + threadIdx.x;
  const unsigned lane = thread % kWarpSize;
  const unsigned warp = thread / kWarpSize;
  const int warps = static_cast<int>(blockDim.x * blockDim.y) / kWarpSize;
  const int stored = N::first_column(lane) + N::stored(lane);
  const bool stores = N::stored(lane) < N::kOwn;
  const auto* const data = static_cast<const In*>(c.data);
  const In* matrix = data + blockIdx.y * c.n * kColumns + N::first_column(lane);

  Sums<1, Acc> group_levels[kLog2<kMaxNarrowBatches / kTiles> + 1];
  Counter<Sums<1, Acc>> groups(group_levels, 1);                                 // of column `thread`
  int64_t first = (int64_t{blockIdx.x} * c.batches * warps + warp) * N::kChunk;  // the warp's next row
  if (narrow_columns_prefetch(kColumns, sizeof(In)) && lane == 0 &&
      static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x) < c.prefetching) {
    const In* chunk = data + (blockIdx.y * c.n + first) * kColumns;
    prefetch(chunk, chunk + min(int64_t{N::kChunk}, c.n - first) * kColumns);
  }
  wait_for_stream();
  int group = 0;
  for (; group * kTiles < c.batches; ++group) {
    const int tiles = min(c.batches - group * kTiles, kTiles);
    for (int t = 0; t < tiles; ++t, first += warps * N::kChunk) {
      const int64_t row = first + N::row(lane);
      Acc sum = identity<Acc>();
      if (first + N::kChunk <= c.n) {
        sum = fold_items<true, kColumns, In, Acc>(matrix + row * kColumns, 0, lane);
      } else if (first < c.n) {
        sum = fold_items_left<kColumns, In, Acc>(matrix + row * kColumns, static_cast<int>(c.n - row), lane);
      }
      if (stores) s[(t * warps + warp) * kColumns + stored] = sum;
    }
    if (c.let_next == LetNext::when_loaded && (group + 1) * kTiles >= c.batches) let_next_start();
    __syncthreads();
    for (int i = thread; i < tiles * kColumns; i += warps * kWarpSize) {  // each tile, each column
      Acc* sums = s + i / kColumns * warps * kColumns + i % kColumns;
      Acc sum = fold_warps<kColumns>(sums, warps);
      if (warps > kWarpsAtOnce) sum = sum + fold_warps<kColumns>(sums + kWarpsAtOnce * kColumns, warps - kWarpsAtOnce);
      sums[0] = sum;
    }
    __syncthreads();
    if (thread < kColumns) {
      Acc x[kTiles];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        x[t] = identity<Acc>();
        if (t < tiles) x[t] = s[t * warps * kColumns + thread];
      }
      groups.push({fold_array<kTiles>(x)}, group);
    }
    __syncthreads();  // s is free again
  }
  Sums<1, Acc> sum = groups.total(thread < kColumns ? group : 0);
  const int column = threadIdx.x;
  const bool owner = threadIdx.y == 0 && column < kColumns;  // thread == column
  if (gridDim.x > 1) {
    const unsigned sums = gridDim.x * kColumns;
    const Slots<Acc> slots(c.slots, gridDim.y * sums, blockIdx.y * sums);
    auto* counters = reinterpret_cast<Sums<1, Acc>*>(shared);
    if (!fold_segments<1>(sum, column, kColumns, blockIdx.x, gridDim.x, slots, counters)) return;
  }
  if (owner) c.results.store<Out>(c.order.place(int64_t{blockIdx.y} * kColumns + column), sum.x[0]);
}

}  // namespace reduce_ops::sum
