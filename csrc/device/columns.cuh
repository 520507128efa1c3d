// Sums down columns: neighbouring threads have neighbours in memory, each thread adds rows of its own columns. For
// every layout whose innermost kept dimension runs along memory and, one column a thread, for whatever nothing else
// fits.
//
// A thread takes one column or, where that fits, 16 bytes of neighbours: in one load where all rows begin at multiples
// of 16 bytes, else in several (load_anywhere), which much data is worth. It loads kRows rows at once, folds them in
// registers, and adds such batches up as a binary counter counts; the parts of a block and the blocks of a column fold
// as segments.cuh says. A thread's batches are an aligned power of two of rows, as are a part and a segment.
//
// What limits it: registers. 16 rows of 16 bytes in flight beat 8, and 8 beat 4, by 1 to 2 % each on an H200; but where
// there are no more than 8 rows in all, a kernel of few registers is twice as fast, and up to 64 rows of little data
// take 0.5 us less without shared memory and barriers (sum_few_rows: (32, 768) 1.60 us instead of 2.13).

#pragma once

#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/pack.cuh"
#include "device/ptx.cuh"
#include "device/segments.cuh"
#include "device/strides.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// kRows rows of kVector elements as a tree, for each column.
template <typename Acc, int kVector, int kRows, typename In>
__device__ Sums<kVector, Acc> fold_packs(const Pack<kVector, In> (&pack)[kRows]) {
  Sums<kVector, Acc> sum;
  if constexpr (std::is_integral_v<Acc> && sizeof(In) == 1 && kVector == 4) {
    static_assert(kRows <= ByteColumns<In>::kMaxRows);
    ByteColumns<In> columns;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      uint32_t word;
      memcpy(&word, &pack[r], sizeof word);
      columns.add(word);
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum.x[v] = widen<Acc>(columns.sum(v, kRows));
  } else {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      using Part = Partial<In, Acc>;
      Part x[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[r] = convert<Part>(pack[r].element[v]);
      sum.x[v] = widen<Acc>(fold_array<kRows>(x));
    }
  }
  return sum;
}

/// The same where rows from `count` on are missing, and 0 in `pack`.
template <typename Acc, int kVector, int kRows, typename In>
__device__ Sums<kVector, Acc> fold_packs_left(const Pack<kVector, In> (&pack)[kRows], int count) {
  if constexpr (std::is_integral_v<Acc>) {
    return fold_packs<Acc>(pack);
  } else {
    Sums<kVector, Acc> sum;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      Acc x[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[r] = select(r < count, convert<Acc>(pack[r].element[v]), identity<Acc>());
      sum.x[v] = fold_array<kRows>(x);
    }
    return sum;
  }
}

/// A row of neighbouring columns, of which those of other lanes share sectors if there is one, or they begin anywhere,
/// so that L1 has them: (2^20, 33) took 45.5 us past it, 41.7 through it; (4096, 4095) 20.1 and 20.4 (H200).
template <int kVector, bool kAnywhere, typename In>
__device__ Pack<kVector, In> load_row(const In* p) {
  if constexpr (kAnywhere) {
    return Pack<kVector, In>::load_anywhere(p);
  } else {
    return Pack<kVector, In>::template load</*kOnce=*/(kVector > 1)>(p);
  }
}

/// The sums of rows first, ..., first + kRows - 1 of the columns that begin at p. kOneStride: `rows` has one dimension.
template <int kVector, int kRows, bool kOneStride, bool kAnywhere, typename Acc, typename In>
__device__ Sums<kVector, Acc> fold_rows(const In* p, const AnyStrides& rows, int64_t first) {
  Pack<kVector, In> pack[kRows];
  const int64_t stride = rows.far.stride[0];
  const auto load_from = [&](const In* p) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) pack[r] = load_row<kVector, kAnywhere>(p + r * stride);
  };
  if constexpr (kOneStride) {
    load_from(p + first * stride);
  } else if (rows.near) {
    const auto row = static_cast<uint32_t>(first);
    const auto load_each = [&](const auto& near) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) pack[r] = load_row<kVector, kAnywhere>(p + near.offset(row + r));
    };
    if (rows.in_more.straight(row, kRows)) {
      load_from(p + rows.in_more.offset(row));
    } else if (rows.few) {
      load_each(rows.in_few);
    } else {
      load_each(rows.in_more);
    }
  } else if (Strides::Cursor row(rows.far, first); row.straight(kRows)) {
    load_from(p + row.offset());
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r, row.next(1)) pack[r] = load_row<kVector, kAnywhere>(p + row.offset());
  }
  return fold_packs<Acc>(pack);
}

/// The same of rows of which those from `count` on are missing.
template <int kVector, int kRows, bool kOneStride, bool kAnywhere, typename Acc, typename In>
__device__ Sums<kVector, Acc> fold_rows_left(const In* p, const AnyStrides& rows, int64_t first, int count) {
  using Load = Pack<kVector, In>;
  Load pack[kRows] = {};  // or nvcc fills those that are missing with what the registers held before, and keeps that
  const auto load = [&](const auto& offset) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < count) pack[r] = load_row<kVector, kAnywhere>(p + offset(first + r));
    }
  };
  if constexpr (kOneStride) {
    load([&](int64_t row) { return row * rows.far.stride[0]; });
  } else if (rows.near) {
    load([&](int64_t row) { return rows.in_more.offset(static_cast<uint32_t>(row)); });
  } else {
    load([&](int64_t row) { return rows.far.offset(row); });
  }
  return fold_packs_left<Acc>(pack, count);
}

/// Stores the sums of neighbouring columns, `stride` elements of the result apart.
template <typename Out, int kVector, typename Acc>
__device__ void store_apart(Out* result, int64_t stride, const Sums<kVector, Acc>& sum) {
#pragma unroll
  for (int v = 0; v < kVector; ++v) result[v * stride] = convert<Out>(sum.x[v]);
}

/// gridDim.x * blockDim.x * kVector columns, gridDim.y segments, blockDim.y parts. The bound is a multiprocessor's
/// threads even where no block has so many: with columns of one byte, fold_parts would take 89 registers instead of 80,
/// and (16, 2048, 4096) over dimension 1 44 us instead of 39, as two blocks of 256 threads would have room instead of
/// three (H200).
template <int kVector, int kRows, bool kOneStride, bool kAnywhere, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(kVector == 1 || (kOneStride && kVector * sizeof(In) < 16) ? kSingleWaveThreads
                                                                                            : kWaveThreads)
    sum_columns(const __grid_constant__ Columns c) {
  extern __shared__ uint4 shared[];
  auto* s = reinterpret_cast<Sums<kVector, Acc>*>(shared);  // the levels of a counter for each thread
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kVector;
  const bool active = column < c.order.count;

  const int64_t first = (int64_t{blockIdx.y} * blockDim.y + threadIdx.y) * c.batches * kRows;
  if (kOneStride && columns_prefetch(kVector, sizeof(In)) && active &&
      static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x) < c.prefetching) {
    const In* p = static_cast<const In*>(c.data) + c.order.offset(column) + first * c.reduced.far.stride[0];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r < c.n) prefetch(p + r * c.reduced.far.stride[0]);
    }
  }
  wait_for_stream();
  if (c.let_next == LetNext::at_start) let_next_start();
  auto counter = thread_counter(s);
  int count = 0;
  if (active) {
    const In* p = static_cast<const In*>(c.data) + c.order.offset(column);
    for (; count < c.batches && first + (count + 1) * kRows <= c.n; ++count) {
      counter.push(fold_rows<kVector, kRows, kOneStride, kAnywhere, Acc>(p, c.reduced, first + count * kRows), count);
    }
    const int64_t row = first + count * kRows;
    if (count < c.batches && row < c.n) {
      const int left = static_cast<int>(c.n - row);
      counter.push(fold_rows_left<kVector, kRows, kOneStride, kAnywhere, Acc>(p, c.reduced, row, left), count);
      ++count;
    }
  }
  if (c.let_next == LetNext::when_loaded) let_next_start();
  Sums<kVector, Acc> sum = counter.total(count);
  fold_parts(sum, s);
  if (gridDim.y > 1) {
    const auto columns = static_cast<unsigned>(c.order.count);
    const Slots<Acc> slots(c.slots, gridDim.y * columns, 0);
    if (!fold_segments(sum, static_cast<unsigned>(column), columns, blockIdx.y, gridDim.y, slots, s)) return;
  }
  if (active && threadIdx.y == 0) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum.x[v] = c.results.finish(sum.x[v]);
    c.results.visit<Acc, Out>(
        [&](auto* result) { store_apart(result + c.order.place(column), c.order.places.stride[0], sum); });
  }
}

/// Columns of up to kParts * kRows elements, kVector a thread, of which it takes kRows rows; the parts of a column are
/// lanes of one warp. kSideBySide: all columns lie side by side, which saves 0.07 us of finding out where one lies.
/// (More than one column a thread and part is not faster, since nvcc then adds the first rows up before it loads the
/// last: (32, 768) 2.2 us instead of 1.6 on an H200.) Stores in the order of memory are marked as the first to leave
/// L2, as nothing reads them soon: 3 to 5 % on an H200, where they are an eighth to a half of the loads.
template <int kVector, int kRows, int kParts, bool kSideBySide, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(256) sum_few_rows(const __grid_constant__ FewRows r) {
  wait_for_stream();
  let_next_start();
  static_assert(kVector == 1 || kParts == 1);
  constexpr int kWidth = kWarpSize / kParts;
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t column = (thread / kWarpSize * kWidth + thread % kWidth) * kVector;
  const int part = static_cast<int>(threadIdx.x % kWarpSize) / kWidth;
  const bool active = column < r.order.count;
  if (kParts == 1 && !active) return;  // other parts need their lanes for the shuffles
  const int count = active ? r.n - part * kRows : 0;
  const In* p = static_cast<const In*>(r.data) + ((kSideBySide ? column : r.order.offset(column)) + part * r.part);
  using Load = Pack<kVector, In>;
  Load pack[kRows] = {};
  if (kVector > 1 && !kSideBySide && r.anywhere) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (k < count) pack[k] = Load::load_anywhere(p + r.offset[k]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      // Five to eight rows past L1: 33.1 us for (8, 2^22), through it 35.4 (H200). With two or three it makes no
      // difference, but where they and the result lie does, up to 11 %. Single columns share sectors.
      if (k < count) pack[k] = Load::template load</*kOnce=*/(kVector > 1 && kRows == kFewRows)>(p + r.offset[k]);
    }
  }
  auto sum = fold_packs_left<Acc>(pack, count);
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
#pragma unroll
    for (int mask = kWidth; mask < kWarpSize; mask *= 2) sum.x[v] += shuffle_xor(sum.x[v], mask);
  }
  if (!active || part > 0) return;
#pragma unroll
  for (int v = 0; v < kVector; ++v) sum.x[v] = r.results.finish(sum.x[v]);
  r.results.visit<Acc, Out>([&](auto* result) {
    if (kSideBySide || r.order.places.dims == 1) {
      store_streaming<kVector>(result + column, sum.x);
    } else {
      store_apart(result + r.order.place(column), r.order.places.stride[0], sum);
    }
  });
}

}  // namespace reduce_ops::sum
