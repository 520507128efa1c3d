// Sums down 2 to 8 columns that fill memory without a gap, such as a batch of points: column sums of rows so short that
// a thread a column would read a few bytes at a time.
//
// A lane reads an item: as many loads of 16 bytes as hold whole rows (3 for three float32 columns: 4 rows). It folds
// the rows of each of its kItems items in registers; the items of a warp, which follow each other, fold across its
// lanes by exchange; then a counter, warps, and segments as in columns.cuh. Every byte is loaded once, by neighbouring
// lanes.

#pragma once

#include <cstdint>
#include <cstring>

#include "sum/columns.cuh"
#include "sum/fold.cuh"
#include "sum/plan.h"
#include "sum/segments.cuh"

namespace reduce_ops::sum {

/// How many rows of kColumns elements lanes and warps take.
template <int kColumns, typename In>
struct Item {
  static constexpr NarrowItem kItem = kNarrowItem<kColumns, sizeof(In)>;
  static constexpr int kLoads = kItem.loads;
  static constexpr int kRows = kItem.rows;
  static constexpr int kItems = kItem.items;
  static constexpr int64_t kChunk = int64_t{kWarpSize} * kItems * kRows;  // rows of a warp at once
};

/// The node above the rows of an item, for each column.
template <int kColumns, typename In, typename Acc>
__device__ void fold_item(const In* element, int rows, Acc (&sum)[kColumns]) {
  constexpr int kRows = Item<kColumns, In>::kRows;
#pragma unroll
  for (int column = 0; column < kColumns; ++column) {
    using Part = Partial<In, Acc>;
    Part x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] = identity<Part>();
      if (r < rows) x[r] = convert<Part>(element[r * kColumns + column]);
    }
    sum[column] = widen<Acc>(fold_array<kRows>(x));
  }
}

/// A chunk of rows that all exist, from a lane's first item on: the node above them, of column `lane`.
template <int kColumns, typename In, typename Acc>
__device__ Acc fold_items(const In* first, unsigned lane) {
  using I = Item<kColumns, In>;
  const uint4* word = reinterpret_cast<const uint4*>(first);
  uint4 load[I::kItems][I::kLoads];
#pragma unroll
  for (int i = 0; i < I::kItems; ++i) {
#pragma unroll
    for (int k = 0; k < I::kLoads; ++k) {
      // Where a lane takes more than one load, a sector is read by several, and should stay in L1.
      const uint4* p = word + i * kWarpSize * I::kLoads + k;
      load[i][k] = I::kLoads == 1 ? load_once(p) : __ldg(p);
    }
  }
  Acc x[kColumns][I::kItems];
#pragma unroll
  for (int i = 0; i < I::kItems; ++i) {
    In element[I::kRows * kColumns];
    memcpy(element, load[i], sizeof element);
    Acc sum[kColumns];
    fold_item<kColumns>(element, I::kRows, sum);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) x[column][i] = sum[column];
  }
  Acc mine = identity<Acc>();
#pragma unroll
  for (int column = 0; column < kColumns; ++column) {
    const Acc sum = fold_exchange(x[column], lane);
    mine = select(static_cast<int>(lane) == column, sum, mine);
  }
  return mine;
}

/// The same where only `rows` rows are left from the lane's first item on, which may be less than 0. Item by item: this
/// is for the last chunk only.
template <int kColumns, typename In, typename Acc>
__device__ __noinline__ Acc fold_items_left(const In* first, int rows, unsigned lane) {
  using I = Item<kColumns, In>;
  Counter<kLog2<I::kItems> + 1, 1, Acc> counter;
  for (int i = 0; i < I::kItems; ++i) {
    Acc sum[kColumns];
    fold_item<kColumns>(first + i * kWarpSize * I::kRows * kColumns, rows - i * kWarpSize * I::kRows, sum);
    Acc mine[1] = {identity<Acc>()};
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const Acc all = fold_lanes(sum[column]);
      mine[0] = select(static_cast<int>(lane) == column, all, mine[0]);
    }
    counter.push(mine, i);
  }
  Acc total[1];
  counter.total(I::kItems, total);
  return total[0];
}

/// gridDim.x segments of kNarrowWarps warps, of c.batches chunks each; gridDim.y matrices of c.n rows, one after the
/// other, each starting at a multiple of 16 bytes. blockDim.x is kMaxNarrow, blockDim.y 32.
template <int kColumns, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(256, 2) sum_narrow_columns(const __grid_constant__ Columns<In, Acc, Out> c) {
  using I = Item<kColumns, In>;
  __shared__ Acc s[kMaxNarrow * kWarpSize];
  const unsigned thread = threadIdx.y * kMaxNarrow + threadIdx.x;
  const unsigned lane = thread % kWarpSize;
  const unsigned warp = thread / kWarpSize;
  const In* matrix = c.data + blockIdx.y * c.n * kColumns;

  int64_t first = (int64_t{blockIdx.x} * kNarrowWarps + warp) * c.batches * I::kChunk;  // the warp's next row
  Counter<kLog2<kMaxNarrowBatches> + 1, 1, Acc> counter;                                // of column `lane`
  int count = 0;
  for (; count < c.batches && first < c.n; ++count, first += I::kChunk) {
    const int64_t row = first + lane * I::kRows;
    Acc mine[1];
    if (first + I::kChunk <= c.n) {
      mine[0] = fold_items<kColumns, In, Acc>(matrix + row * kColumns, lane);
    } else {
      mine[0] = fold_items_left<kColumns, In, Acc>(matrix + row * kColumns, static_cast<int>(c.n - row), lane);
    }
    counter.push(mine, count);
  }
  Acc total[1];
  counter.total(count, total);
  if (lane < kColumns) s[warp * kMaxNarrow + lane] = total[0];
  __syncthreads();
  Acc sum[1] = {identity<Acc>()};
  const int column = threadIdx.x;
  const bool owner = threadIdx.y == 0 && column < kColumns;
  if (owner) {
    Acc x[kNarrowWarps];
#pragma unroll
    for (int w = 0; w < kNarrowWarps; ++w) x[w] = s[w * kMaxNarrow + column];
    sum[0] = fold_array<kNarrowWarps>(x);
  }
  if (gridDim.x > 1) {
    Acc* partial = c.partial + int64_t{blockIdx.y} * gridDim.x * kColumns;
    if (!fold_segments(sum, column, kColumns, blockIdx.x, gridDim.x, partial, c.tickets + blockIdx.y, s)) return;
  }
  if (owner) c.result[int64_t{blockIdx.y} * kColumns + column] = convert<Out>(sum[0]);
}

}  // namespace reduce_ops::sum
