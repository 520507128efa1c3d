// Columns that more than one thread sums: the parts of a block, and the segments of several blocks.
//
// A block is blockDim.x columns (of kVector each) wide and has blockDim.y parts, of which each has a node of the tree:
// parts fold in shared memory. Where columns are so few that one block for each would leave the GPU idle, their rows
// are cut into segments of a power of two of rows, one a block: each block leaves its nodes in `partial`, and the one
// that comes last, as a ticket tells, folds them. (Publish and collect, slots.cuh, would need a slot for each column of
// each block.)
//
// Why the last block sees the others' nodes: a block's stores to `partial` come before its barrier, that comes before
// the ticket's atomic, which releases them at the scope of the GPU; the last block's own atomic reads from that chain
// and acquires, and its barrier orders the loads of all its threads behind it. The ticket wraps to 0 as the last one is
// taken, so it is ready for the next launch on the stream.

#pragma once

#include <cstdint>

#include "sum/fold.cuh"
#include "sum/plan.h"

namespace reduce_ops::sum {

/// sum: a node of this thread's columns, in the order of threadIdx.y. Threads with threadIdx.y == 0 get the node above
/// those of their columns. s: of blockDim.x * blockDim.y * kVector, not in use.
template <int kVector, typename Acc>
__device__ void fold_parts(Acc (&sum)[kVector], Acc* s) {
  const int part = threadIdx.y;
  Acc* mine = s + (part * blockDim.x + threadIdx.x) * kVector;
  for (int half = 1; half < static_cast<int>(blockDim.y); half *= 2) {
    if (part % (2 * half) == half) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) mine[v] = sum[v];
    }
    __syncthreads();
    if (part % (2 * half) == 0) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] += mine[half * blockDim.x * kVector + v];
    }
  }
}

/// True in all threads of the block that comes last of `count`.
__device__ inline bool is_last(unsigned* ticket, unsigned count) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(ticket), "r"(count - 1)
                 : "memory");
    last = before == count - 1;
  }
  __syncthreads();
  return last;
}

/// sum: of this block's segment, in the threads with threadIdx.y == 0, for the columns from `column` on of `width`.
/// Returns true in the block that comes last, where the same threads then have the sum of all segments.
/// partial: `segments` rows of `width` nodes.
template <int kVector, typename Acc>
__device__ bool fold_segments(Acc (&sum)[kVector], int64_t column, int64_t width, int segment, int segments,
                              Acc* partial, unsigned* ticket, Acc* s) {
  const bool active = column < width;
  if (active && threadIdx.y == 0) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) partial[segment * width + column + v] = sum[v];
  }
  if (!is_last(ticket, segments)) return false;
  constexpr int kBatch = 8;  // loads in flight
  int a_part = 1;
  while (a_part * static_cast<int>(blockDim.y) < segments) a_part *= 2;
  const int first = threadIdx.y * a_part;
  const int end = min(first + a_part, segments);
  Counter<kLog2<kMaxSegmentsAPart / kBatch> + 1, kVector, Acc> counter;
  int count = 0;
  for (; active && first + count * kBatch < end; ++count) {
    Acc node[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      Acc x[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int64_t row = first + count * kBatch + i;
        x[i] = identity<Acc>();
        if (row < end) x[i] = partial[row * width + column + v];
      }
      node[v] = fold_array<kBatch>(x);
    }
    counter.push(node, count);
  }
  counter.total(count, sum);
  fold_parts(sum, s);
  return true;
}

}  // namespace reduce_ops::sum
