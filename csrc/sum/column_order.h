// The order in which threads take columns.
//
// Neighbouring threads take columns that are neighbours in memory. Where these are far apart in the result, as in sums
// of a transposed tensor, every lane of a warp stores to a sector of its own, of which its sum is a small part. So such
// columns may be taken by chunks of the innermost dimension in memory: a chunk, then the next one in the order of the
// result, and so on, until a chunk at a time all of that dimension is taken. A warp then shares sectors at both ends.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "sum/plan.h"
#include "sum/strides.h"

namespace reduce_ops::sum {

/// Columns count in the order in which they are taken.
struct ColumnOrder {
  int64_t count;    // those that two chunks share are taken twice
  Strides columns;  // where they begin
  Strides places;   // where their sums belong
  int64_t last;     // columns from here on are of the last chunks,
  int64_t overlap;  // which begin so many columns earlier, to end with the innermost dimension

#ifdef __CUDACC__
  __device__ int64_t offset(int64_t column) const { return columns.offset(column) - back(column, columns); }
  __device__ int64_t place(int64_t column) const { return places.offset(column) - back(column, places); }

 private:
  __device__ int64_t back(int64_t column, const Strides& s) const { return column < last ? 0 : overlap * s.stride[0]; }
#endif
};

/// In the order of memory or, if chunk > 0, by chunks: of which the innermost dimension has one at least, and which
/// take one dimension more.
inline ColumnOrder column_order(const Problem& p, int64_t chunk) {
  ColumnOrder order{p.outputs, p.columns, p.places, p.outputs, 0};
  if (chunk == 0) return order;
  const int dims = p.columns.dims;
  int by_place[kMaxDims];
  for (int d = 0; d < dims; ++d) by_place[d] = d;
  std::sort(by_place + 1, by_place + dims, [&](int a, int b) { return p.places.stride[a] < p.places.stride[b]; });
  const auto add = [](Strides& s, int64_t size, int64_t stride) {
    s.size[s.dims] = Divisor::of(size);
    s.stride[s.dims++] = stride;
  };
  const int64_t size = p.columns.size[0].value;
  const int64_t chunks = (size + chunk - 1) / chunk;
  order.count = p.outputs / size * chunks * chunk;
  order.overlap = chunks * chunk - size;
  order.last = order.count / chunks * (chunks - 1);
  for (const auto& [from, to] : {std::pair{&p.columns, &order.columns}, {&p.places, &order.places}}) {
    to->dims = 0;
    to->small = order.count < int64_t{1} << 31;
    add(*to, chunk, from->stride[0]);
    for (int i = 1; i < dims; ++i) add(*to, p.columns.size[by_place[i]].value, from->stride[by_place[i]]);
    add(*to, chunks, chunk * from->stride[0]);
  }
  return order;
}

}  // namespace reduce_ops::sum
