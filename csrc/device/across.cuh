// Sums whose order runs across memory: neighbours in the order lie far apart, and elements that are neighbours in
// memory come after each other only some steps later, such as those of a transposed matrix.
//
// The elements of an output are lines: the elements of one line follow each other in the order, and neighbouring lines
// are neighbours in memory. Neighbouring lanes take neighbouring lines, so that they load neighbours, and fold windows,
// aligned powers of two of leaves, to one node each. The nodes are then summed as rows.
//
// - Long lines (sum_lines): every lane walks down a line of its own and folds what it meets, in registers alone. In
//   every line windows begin at another place, as its first leaf is any; fold_in_phase folds them all the same, without
//   a branch. A lane finishes the windows that begin in its line with the first elements of the next one.
//
// - Short lines (tiles.cuh): a block takes a tile of them in shared memory. Where they lie side by side in words of 16
//   bytes, their parts are folded to nodes on the way (word_tiles.cuh).
//
// - What these would read in pieces of sectors: a block copies a box of memory, in runs (boxes.cuh).
//
// - Elements that are a few apart, or little data: lanes go along the order after all (rows.cuh), and read each sector
//   again for every part of the order that it has, but from caches.
//
// - Lines of a multiple of a power of two of elements: where they fill memory, as the channels of images, the nodes are
//   sums of columns (row_across_memory in plan.cpp; columns.cuh, narrow_columns.cuh).
//
// What limits it: what a warp loads along long lines begins anywhere in a sector, and a fifth or more of the elements
// are loaded twice, so that 1.6 times the bytes of float32 and 1.9 times those of float16 come from L2, at 70 to 86 %
// of its rate: 2.8 to 3 TB/s of float32 and 2 of float16 on an H200. Short lines take some 20 instructions an element.

#pragma once

#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/strides.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// Folds the nodes x, of 2^kLevel leaves each, which follow each other, to the last node of kCount times as many leaves
/// that ends in them. phase: the number of the first leaf that ever came. before: the last node of every level that
/// came before these.
///
/// The left one of a pair has an even number. So, where bit kLevel of the phase is set, it is the nodes in odd places
/// of x that are left ones, and a node in an even place goes with the one before it instead of the one behind it: half
/// a choice and half an addition an element, and half as many nodes for the next level.
template <int kLevel, int kCount, typename Acc, int kLevels>
__device__ Acc fold_in_phase(const Acc (&x)[kCount], Acc (&before)[kLevels], unsigned phase) {
  if constexpr (kCount == 1) {
    return x[0];
  } else {
    const bool odd = phase >> kLevel & 1;
    Acc pair[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      pair[i] = x[2 * i] + select(odd, i == 0 ? before[kLevel] : x[2 * i - 1], x[2 * i + 1]);
    }
    before[kLevel] = x[kCount - 1];
    return fold_in_phase<kLevel + 1>(pair, before, phase);
  }
}

/// By a thread for each line of each output and each segment of at_once elements: the windows that begin there. Lines
/// are taken in the order of memory, `all` of them, whichever output they belong to; `places` are those that they have
/// output by output. kStraight: the innermost dimension is as long as the loads of a lane. If it is not, as many as are
/// not make up `turn`, and where the elements of a turn and of those behind it lie is a table in shared memory: for up
/// to 31 in a turn, lanes in different places of it meet in no bank.
template <bool kStraight, typename In, typename Acc>
__global__ void __launch_bounds__(kLineThreads)
    sum_lines(const __grid_constant__ Across a, Divisor all, const __grid_constant__ Strides lines,
              const __grid_constant__ Places places, Divisor turn, int turn_dims) {
  wait_for_stream();
  constexpr int kLoads = line_loads(sizeof(In));
  constexpr int kLevels = kLog2<kLoads>;
  __shared__ unsigned offset_in_turns[2 * kLoads];
  if (!kStraight) {
    if (const unsigned i = threadIdx.x; i < 2 * kLoads) {
      const unsigned turns = turn.divide(i);
      const auto to_next = static_cast<unsigned>(a.reduced.far.stride[turn_dims]);
      const auto in_turn =
          static_cast<unsigned>(a.reduced.offset_of_small(i - turns * static_cast<unsigned>(turn.value)));
      offset_in_turns[i] = turns * to_next + in_turn;
    }
    __syncthreads();
  }
  const unsigned thread = blockIdx.x * kLineThreads + threadIdx.x;
  const unsigned segment = all.divide(thread);
  const unsigned begin = segment * a.at_once;  // in the line
  if (begin >= a.length) return;
  const unsigned index = thread - segment * static_cast<unsigned>(all.value);
  const In* const at = static_cast<const In*>(a.data) + lines.offset_of_small(index);
  const auto place = static_cast<unsigned>(places.of(index));
  const unsigned output = place / a.lines;
  const unsigned line = place % a.lines;
  const unsigned first = line * a.length + begin;  // leaf
  const unsigned end = line * a.length + min(begin + a.at_once, a.length);
  const unsigned first_window = first / a.window;
  const unsigned past_window = (end + a.window - 1) / a.window;
  if ((first + a.window - 1) / a.window == past_window) return;
  Acc* const nodes = static_cast<Acc*>(a.nodes) + output * a.windows;

  const In* const data = at - a.reduced.offset_of_small(line * a.length);
  const unsigned turns = turn.divide(first);
  auto in_turn = static_cast<int>(first - turns * static_cast<unsigned>(turn.value));
  const int64_t stride = static_cast<int>(a.reduced.far.stride[kStraight ? 0 : turn_dims]);
  const auto size = static_cast<int>(turn.value);
  // The next leaf is at p, in a straight line, which turns in to_turn leaves; else in the turn there, behind `in_turn`
  // others, and in to_next leaves the dimension of the turns ends.
  const In* p = opaque(data + a.reduced.offset_of_small(kStraight ? first : first - in_turn));
  int to_turn = size - in_turn;
  const Divisor& next_size = a.reduced.far.size[turn_dims];
  const auto next_leaves = static_cast<int>(size * next_size.value);
  int to_next = static_cast<int>((next_size.divide(turns) + 1) * next_leaves - first);

  Acc before[kLevels];
  Acc left[kLineLevels];    // above those levels: of a pair that is not there yet, the first that came,
  Acc passed[kLineLevels];  // and the one before it
#pragma unroll
  for (Acc& x : before) x = identity<Acc>();
#pragma unroll
  for (Acc& x : passed) x = identity<Acc>();

  const unsigned steps = a.window / kLoads;  // of a window
  for (unsigned step = 0; step < (past_window - first_window) * steps; ++step) {
    const unsigned leaf = first + step * kLoads;
    In element[kLoads];
    if (kStraight && to_turn >= kLoads && leaf < a.n) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) element[u] = p[u * stride];
      p += kLoads * stride;
      to_turn -= kLoads;
    } else if (kStraight) {
      const In* const next = opaque(data + a.reduced.offset_of_small(leaf + to_turn) - to_turn * stride);
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        element[u] = missing<In>();
        if (leaf + u < a.n) element[u] = (u < to_turn ? p : next)[u * stride];
      }
      p = next + kLoads * stride;
      to_turn += (to_turn < kLoads ? size : 0) - kLoads;  // not so only beyond the last leaf
    } else {
      const unsigned* const offset = offset_in_turns + in_turn;
      const bool ends = to_next < kLoads;
      const In* const next = ends ? opaque(data + a.reduced.offset_of_small(leaf + to_next) - offset[to_next]) : p;
      // Where each load may be missing, ptxas adds the first ones up before it loads the last.
      if (leaf + kLoads <= a.n) {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) element[u] = (u < to_next ? p : next)[offset[u]];
      } else {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          element[u] = missing<In>();
          if (leaf + u < a.n) element[u] = (u < to_next ? p : next)[offset[u]];
        }
      }
      const auto passed_turns = static_cast<int>(turn.divide(in_turn + kLoads));
      p = next + passed_turns * stride;
      in_turn += kLoads - passed_turns * size;
      to_next += (ends ? next_leaves : 0) - kLoads;
    }
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) x[u] = leaf_or_identity<Acc>(element[u], leaf + u < a.n);
    Acc node = fold_in_phase<0>(x, before, first);
    unsigned level = 0;
#pragma unroll
    for (int i = 0; i < kLineLevels; ++i) {
      if (level < i || 1u << i == steps) break;  // there is no node of this level yet, or no such level
      if (step >> i & 1) {
        const Acc sum = left[i] + select(static_cast<bool>(first >> (kLevels + i) & 1), passed[i], node);
        passed[i] = node;
        node = sum;
        ++level;
      } else {
        left[i] = node;
      }
    }
    const unsigned window = first_window + step / steps;
    if (1u << level == steps && window * a.window >= first && window < past_window) nodes[window] = node;
  }
}

}  // namespace reduce_ops::sum
