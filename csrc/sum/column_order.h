// The order in which threads take columns.
//
// Neighbouring threads take columns that are neighbours in memory. Where these are far apart in the result, as in sums
// of a transposed tensor, every lane of a warp stores to a sector of its own, of which its sum is a small part. So such
// columns may be taken by chunks of the innermost dimension in memory: a chunk, then the next one in the order of the
// result, and so on, until a chunk at a time all of that dimension is taken. A warp then shares sectors at both ends.
//
// A thread that takes several neighbours takes them in one dimension. Where its size is no multiple of them, the last
// ones begin earlier, as the last chunks do, and some columns are taken twice, by threads that store the same sum.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "device/arguments.cuh"
#include "plan/plan.h"
#include "sum/strides.h"

namespace reduce_ops::sum {

/// In the order of memory, or by chunks of which the innermost dimension has one at least, and which take one dimension
/// more.
inline ColumnOrder column_order(const Problem& p, const Plan& plan) {
  ColumnOrder order{p.outputs, p.columns, p.places, Divisor::of(p.outputs), p.outputs, 0};
  const int64_t chunk = plan.chunk > 0 ? plan.chunk : plan.anywhere ? plan.vector : 0;
  if (chunk == 0) return order;
  const int64_t size = p.columns.size[0].value;
  const int64_t chunks = ceil_div(size, chunk);
  order.count = p.outputs / size * chunks * chunk;
  order.turn = Divisor::of(plan.chunk > 0 ? order.count : chunks * chunk);
  order.last = order.turn.value / chunks * (chunks - 1);
  order.overlap = chunks * chunk - size;

  const int dims = p.columns.dims;
  int next[kMaxDims];
  for (int d = 0; d < dims; ++d) next[d] = d;
  if (plan.chunk > 0) {
    std::sort(next + 1, next + dims, [&](int a, int b) { return p.places.stride[a] < p.places.stride[b]; });
  }
  Strides places = p.places;
  if (places.dims == 1) {  // columns are in the order of the result
    places.stride[0] = 1;
    for (int d = 1; d < dims; ++d) places.stride[d] = places.stride[d - 1] * p.columns.size[d - 1].value;
  }
  const auto add = [](Strides& s, int64_t size, int64_t stride) {
    s.size[s.dims] = Divisor::of(size);
    s.stride[s.dims++] = stride;
  };
  for (const auto& [from, to] : {std::pair{&p.columns, &order.columns}, {&std::as_const(places), &order.places}}) {
    to->dims = 0;
    to->small = order.count < int64_t{1} << 31;
    add(*to, plan.chunk > 0 ? chunk : chunks * chunk, from->stride[0]);
    for (int i = 1; i < dims; ++i) add(*to, p.columns.size[next[i]].value, from->stride[next[i]]);
    if (plan.chunk > 0) add(*to, chunks, chunk * from->stride[0]);
  }
  return order;
}

}  // namespace reduce_ops::sum
