// Sums down columns: neighbouring threads have neighbouring outputs, each thread adds rows of its own columns. For
// every layout whose innermost kept dimension runs along memory and, one column a thread, for whatever nothing else
// fits.
//
// A thread loads kRows rows at once, folds them in registers, and adds such batches up as a binary counter counts; the
// parts of a block and the blocks of a column fold as segments.cuh says. A thread's batches are an aligned power of two
// of rows, as are a part and a segment.
//
// What limits it: registers. 16 rows of 16 bytes in flight beat 8, and 8 beat 4, by 1 to 2 % each on an H200; but where
// there are no more than 8 rows in all, a kernel of few registers is twice as fast (sum_few_rows).

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sum/fold.cuh"
#include "sum/plan.h"
#include "sum/segments.cuh"
#include "sum/strides.h"

namespace reduce_ops::sum {

/// kVector neighbouring elements.
template <int kVector, typename In>
struct alignas(kVector * sizeof(In)) Pack {
  In element[kVector];

  /// kCached: by way of L1, where it stays for a while.
  template <bool kCached>
  static __device__ Pack load(const In* p) {
    Pack pack;
    if constexpr (kCached || sizeof(Pack) < 4) {
      pack = *reinterpret_cast<const Pack*>(p);
    } else {
      using Word =
          std::conditional_t<sizeof(Pack) == 16, uint4, std::conditional_t<sizeof(Pack) == 8, uint2, uint32_t>>;
      static_assert(sizeof(Pack) == sizeof(Word));
      const Word word = load_once(reinterpret_cast<const Word*>(p));
      memcpy(&pack, &word, sizeof pack);
    }
    return pack;
  }
};

/// sum: of rows first, first + 1, ..., first + kRows - 1, of which those from n on count as the identity, of the
/// columns that begin at p. kOneStride: `rows` has one dimension.
template <int kVector, int kRows, bool kOneStride, bool kCached, typename In, typename Acc>
__device__ void fold_rows(const In* p, const Strides& rows, int64_t first, int64_t n, Acc (&sum)[kVector]) {
  using Load = Pack<kVector, In>;
  Load pack[kRows];
  const int count = static_cast<int>(min(n - first, int64_t{kRows}));
  if constexpr (kOneStride) {
    const int64_t stride = rows.stride[0];
    p += first * stride;
    if (count == kRows) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) pack[r] = Load::template load<kCached>(p + r * stride);
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r < count) pack[r] = Load::template load<kCached>(p + r * stride);
      }
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < count) pack[r] = Load::template load<kCached>(p + rows.offset(first + r));
    }
  }
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    using Part = Partial<In, Acc>;
    Part x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = select(r < count, convert<Part>(pack[r].element[v]), identity<Part>());
    sum[v] = widen<Acc>(fold_array<kRows>(x));
  }
}

/// What a launch of columns works on.
template <typename In, typename Acc, typename Out>
struct Columns {
  const In* data;
  int64_t outputs;
  int64_t n;
  Strides columns;
  Strides places;
  Strides reduced;
  int batches;        // of a thread, a power of two
  Acc* partial;       // gridDim.y rows of `outputs`, where gridDim.y > 1
  unsigned* tickets;  // gridDim.x, all 0 before and after
  Out* result;
};

/// gridDim.x * blockDim.x * kVector columns, gridDim.y segments, blockDim.y parts.
template <int kVector, int kRows, bool kOneStride, bool kCached, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(256, kVector == 1 ? 3 : 2)
    sum_columns(const __grid_constant__ Columns<In, Acc, Out> c) {
  extern __shared__ uint4 shared[];
  auto* s = reinterpret_cast<Acc*>(shared);
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kVector;
  const bool active = column < c.outputs;

  const int64_t first = (int64_t{blockIdx.y} * blockDim.y + threadIdx.y) * c.batches * kRows;
  Counter<kLog2<kMaxBatches<kVector>> + 1, kVector, Acc> counter;
  int count = 0;
  if (active) {
    const In* p = c.data + c.columns.offset(column);
    for (; count < c.batches && first + count * kRows < c.n; ++count) {
      Acc x[kVector];
      fold_rows<kVector, kRows, kOneStride, kCached>(p, c.reduced, first + count * kRows, c.n, x);
      counter.push(x, count);
    }
  }
  Acc sum[kVector];
  counter.total(count, sum);
  fold_parts(sum, s);
  if (gridDim.y > 1) {
    const bool last =
        fold_segments(sum, column, c.outputs, blockIdx.y, gridDim.y, c.partial, c.tickets + blockIdx.x, s);
    if (!last) return;
  }
  if (active && threadIdx.y == 0) {
    Out* result = c.result + c.places.offset(column);
#pragma unroll
    for (int v = 0; v < kVector; ++v) result[v * c.places.stride[0]] = convert<Out>(sum[v]);
  }
}

/// Columns of up to kRows elements, side by side in rows one stride apart, kVector a thread. Stores are marked as
/// the first to leave L2, as nothing reads them soon: 3 to 5 % on an H200, where they are an eighth to a half of the
/// loads.
template <int kVector, int kRows, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(256) sum_few_rows(const __grid_constant__ Columns<In, Acc, Out> c) {
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kVector;
  if (column >= c.outputs) return;
  Acc sum[kVector];
  fold_rows<kVector, kRows, true, false>(c.data + column, c.reduced, 0, c.n, sum);
  store_streaming<kVector>(c.result + column, sum);
}

}  // namespace reduce_ops::sum
