// Columns that more than one thread sums: the parts of a block, and the segments of several blocks.
//
// A block is blockDim.x columns (of kVector each) wide and has blockDim.y parts, of which each has a node of the tree:
// parts fold in shared memory. Where columns are so few that one block for each would leave the GPU idle, their rows
// are cut into segments of a power of two of rows, one a block: each block publishes its nodes, and that of the last
// segment collects and folds them (slots.cuh). It has the highest index of those of its columns, as the collector must.
// A ticket that tells which block comes last, with an acquire and a release, took 1 us longer.

#pragma once

#include "device/fold.cuh"
#include "device/slots.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// The counter of this thread in s, whose first row fold_parts uses too.
template <typename Node>
__device__ Counter<Node> thread_counter(Node* s) {
  return {s + threadIdx.y * blockDim.x + threadIdx.x, static_cast<int>(blockDim.x * blockDim.y)};
}

/// sum: a node of this thread's columns, in the order of threadIdx.y. Threads with threadIdx.y == 0 get the node above
/// those of their columns. s: a place for each thread of the block; only its own is in use.
///
/// Eight nodes at a time, since what takes time is the barrier between writing and reading them, 0.16 us: (4096, 4096)
/// over dimension 0 takes 17.4 us, with two at a time 17.8; (1024, 64) 2.8 and 3.2 (H200).
template <typename Node>
__device__ void fold_parts(Node& sum, Node* s) {
  constexpr int kFan = 8;
  const int part = threadIdx.y;
  Node* column = s + threadIdx.x;
  int pitch = blockDim.x;  // a node is written where its thread alone has read before
  for (int parts = blockDim.y; parts > 1; parts = (parts + kFan - 1) / kFan, pitch *= kFan) {
    if (part < parts) column[part * pitch] = sum;
    __syncthreads();
    const int first = part * kFan;
    if (first >= parts) continue;
    Node node[kFan];
#pragma unroll
    for (int i = 0; i < kFan; ++i) node[i] = first + i < parts ? column[(first + i) * pitch] : Node::none();
    sum = fold_array<kFan>(node);
  }
}

/// sum: of this block's segment, in the threads with threadIdx.y == 0, for the kVector columns from `column` on of
/// `width`. Returns true in the block of the last segment, where the same threads then have the sum of all.
/// slots: of `segments` rows of `width`. s: as that of thread_counter.
template <int kVector, typename Acc>
__device__ bool fold_segments(Sums<kVector, Acc>& sum, unsigned column, unsigned width, int segment, int segments,
                              const Slots<Acc>& slots, Sums<kVector, Acc>* s) {
  const bool active = column < width;
  if (active && threadIdx.y == 0) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) slots.publish(segment * width + column + v, sum.x[v]);
  }
  if (segment != segments - 1) return false;
  __syncthreads();  // s is free again
  constexpr int kAtOnce = segments_at_once(kVector, sizeof(Acc));
  int a_part = 1;
  while (a_part * static_cast<int>(blockDim.y) < segments) a_part *= 2;
  const int first = threadIdx.y * a_part;
  const int end = min(first + a_part, segments);
  auto counter = thread_counter(s);
  int count = 0;
  for (; active && first + count * kAtOnce < end; ++count) {
    Sums<kVector, Acc> x[kAtOnce];
    slots.take((first + count * kAtOnce) * width + column, width, end * width, x);
    counter.push(fold_array<kAtOnce>(x), count);
  }
  sum = counter.total(count);
  fold_parts(sum, s);
  return true;
}

}  // namespace reduce_ops::sum
