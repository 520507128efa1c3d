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
// - Short lines (sum_tiles): as many lines as a window has leaves are as many windows as a line has leaves, whatever
//   that is. So a tile of so many lines, or some times as many, is whole windows. It is put into shared memory, and
//   from there threads read along the lines.
//
// What limits it: a load brings one element a lane, and a fifth or more of them are loaded twice, from a cache; 2.8 to
// 3 TB/s of float32 and 2 of float16 on an H200 along long lines, 1 to 2.3 along short ones.

#pragma once

#include <cstdint>

#include "sum/fold.cuh"
#include "sum/plan.h"
#include "sum/strides.h"

namespace reduce_ops::sum {

/// Of each output, `lines` lines of `length` elements, n < 2^31 in all, and as far as that apart.
template <typename In, typename Acc>
struct Across {
  const In* data;
  Acc* nodes;       // of each output, one for each of its windows
  int64_t windows;  // of an output
  unsigned n;
  unsigned lines;
  unsigned length;
  unsigned window;   // leaves, a power of two
  unsigned at_once;  // sum_lines: elements of a line that a thread takes, whole windows; sum_tiles: lines of a tile
  Strides reduced;
};

/// p, whatever it was made of: nvcc adds that up again for each load, in 6 instructions instead of 1.
template <typename T>
__device__ const T* opaque(const T* p) {
  size_t address = __cvta_generic_to_global(p);
  asm("" : "+l"(address));
  return static_cast<const T*>(__cvta_global_to_generic(address));
}

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
/// output by output. kStraight: the innermost dimension is as long as the loads of a lane, or else it and the next one
/// are.
template <bool kStraight, typename In, typename Acc>
__global__ void __launch_bounds__(kLineThreads)
    sum_lines(const __grid_constant__ Across<In, Acc> a, Divisor all, const __grid_constant__ Strides lines,
              const __grid_constant__ Places places) {
  constexpr int kLoads = kLineLoads<sizeof(In)>;
  constexpr int kLevels = kLog2<kLoads>;
  const unsigned thread = blockIdx.x * kLineThreads + threadIdx.x;
  const unsigned segment = all.divide(thread);
  const unsigned begin = segment * a.at_once;  // in the line
  if (begin >= a.length) return;
  const unsigned index = thread - segment * static_cast<unsigned>(all.value);
  const In* const at = a.data + lines.offset_of_small(index);
  const auto place = static_cast<unsigned>(places.of(index));
  const unsigned output = place / a.lines;
  const unsigned line = place % a.lines;
  const unsigned first = line * a.length + begin;  // leaf
  const unsigned end = line * a.length + min(begin + a.at_once, a.length);
  const unsigned first_window = first / a.window;
  const unsigned past_window = (end + a.window - 1) / a.window;
  if ((first + a.window - 1) / a.window == past_window) return;
  Acc* const nodes = a.nodes + output * a.windows;

  // The next leaf is at p. In to_turn leaves the innermost dimension turns, in to_next the one around it.
  const In* const data = at - a.reduced.offset_of_small(line * a.length);
  const int64_t stride = static_cast<int>(a.reduced.stride[0]);
  const auto turn = static_cast<int>(a.reduced.size[0].value);
  const auto two_turns = static_cast<int>(turn * a.reduced.size[1].value);
  const int64_t jump = a.reduced.stride[1] - turn * stride;  // from the end of a turn to the next one
  const unsigned turns = a.reduced.size[0].divide(first);
  const In* p = opaque(data + a.reduced.offset_of_small(first));
  int to_turn = static_cast<int>((turns + 1) * turn - first);
  int to_next = static_cast<int>((a.reduced.size[1].divide(turns) + 1) * two_turns - first);

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
        element[u] = convert<In>(identity<Acc>());
        if (leaf + u < a.n) element[u] = (u < to_turn ? p : next)[u * stride];
      }
      p = next + kLoads * stride;
      to_turn += (to_turn < kLoads ? turn : 0) - kLoads;  // not so only beyond the last leaf
    } else {
      const bool ends = to_next < kLoads;
      const In* const next = ends ? opaque(data + a.reduced.offset_of_small(leaf + to_next)) : p;
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        if (u == to_next) p = next;
        element[u] = convert<In>(identity<Acc>());
        if (leaf + u < a.n) element[u] = *p;
        p += stride;
        if (--to_turn == 0) {
          p += jump;
          to_turn = turn;
        }
      }
      to_next += (ends ? two_turns : 0) - kLoads;
    }
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) x[u] = convert<Acc>(element[u]);
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

/// The windows of at_once lines. Outputs are taken in the order of memory; `places` are those in the result. Where
/// there are few lines, a warp loads more than one row of them. kDown: the loads of a lane go down a line, whose
/// elements are one stride apart, instead of along a row. Leaf x of a tile lies at x + (x >> gap) in shared memory.
template <bool kDown, typename In, typename Acc>
__global__ void __launch_bounds__(kTileThreads)
    sum_tiles(const __grid_constant__ Across<In, Acc> a, const __grid_constant__ Strides kept,
              const __grid_constant__ Strides places, int gap) {
  constexpr unsigned kLoads = sizeof(In) <= 4 ? 16 : 8;
  constexpr unsigned kPart = 16;  // leaves that a thread folds at once
  static_assert(kMinWindow % kPart == 0 && kMaxTileWindow <= kPart * kWarpSize);
  extern __shared__ uint4 shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const unsigned blocks = (a.lines + a.at_once - 1) / a.at_once;  // of an output
  const int64_t output = blockIdx.x / blocks;
  const unsigned first_line = blockIdx.x % blocks * a.at_once;
  const unsigned lines = min(a.lines - first_line, a.at_once);
  const unsigned lane = threadIdx.x % kWarpSize;
  const unsigned warp = threadIdx.x / kWarpSize;

  const unsigned width = lines > 16 ? 32 : lines > 8 ? 16 : lines > 4 ? 8 : 4;  // lines of a load
  const unsigned rows = kWarpSize / width;                                      // of a load
  const unsigned lines_a_turn = kDown ? width : width * kLoads;                 // of the loads of a lane
  const unsigned rows_a_turn = kDown ? rows * kLoads : rows;
  const unsigned down = (a.length + rows_a_turn - 1) / rows_a_turn;  // turns
  const unsigned turns = (lines + lines_a_turn - 1) / lines_a_turn * down;
  const In* const data = a.data + kept.offset(output);
  const bool straight = a.reduced.size[0].value == a.length;
  for (unsigned i = warp; i < turns; i += blockDim.x / kWarpSize) {
    const unsigned line = i / down * lines_a_turn + lane % width;
    const unsigned row = i % down * rows_a_turn + lane / width;
    if (line >= lines || row >= a.length) continue;
    const unsigned loads = kDown ? (a.length - row + rows - 1) / rows : (lines - line + width - 1) / width;
    const unsigned leaf = line * a.length + row;
    const unsigned step = kDown ? rows : width * a.length;  // from load to load
    const unsigned first = first_line * a.length + leaf;
    const auto turn = static_cast<unsigned>(a.reduced.size[1].value);  // lines one stride apart, if a line is straight
    const unsigned line_in_turn = (first_line + line) % turn;
    const bool even = kDown || (straight && line_in_turn + (loads - 1) * width < turn);
    In element[kLoads];
    if (even) {
      const In* const at = opaque(data + a.reduced.offset_of_small(first));
      const int64_t stride = static_cast<int>(kDown ? rows * a.reduced.stride[0] : width * a.reduced.stride[1]);
#pragma unroll
      for (unsigned u = 0; u < kLoads; ++u) {
        if (u < loads) element[u] = at[u * stride];
      }
    } else if (straight && width <= turn && a.reduced.dims == 3) {
      // From load to load, one turn of neighbouring lines ends at most: (110728, 119, 3) bfloat16 held (110728, 3, 119)
      // takes 73 us, with two divisions for every element 137 (H200).
      const In* at = opaque(data + a.reduced.offset_of_small(first));
      const int64_t stride = width * a.reduced.stride[1];
      const int64_t jump = a.reduced.stride[2] - turn * a.reduced.stride[1];  // from the end of a turn to the next one
      unsigned to_turn = turn - line_in_turn;
#pragma unroll
      for (unsigned u = 0; u < kLoads; ++u) {
        if (u < loads) element[u] = *at;
        at += stride;
        if (to_turn <= width) {
          at += jump;
          to_turn += turn;
        }
        to_turn -= width;
      }
    } else {
#pragma unroll
      for (unsigned u = 0; u < kLoads; ++u) {
        if (u < loads) element[u] = data[a.reduced.offset_of_small(first + u * step)];
      }
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; ++u) {
      const unsigned x = leaf + u * step;
      if (u < loads) tile[x + (x >> gap)] = element[u];
    }
  }
  const unsigned leaves = lines * a.length;
  const unsigned windows = (leaves + a.window - 1) / a.window;
  for (unsigned i = leaves + threadIdx.x; i < windows * a.window; i += blockDim.x) {
    tile[i + (i >> gap)] = convert<In>(identity<Acc>());
  }
  __syncthreads();

  const unsigned parts = a.window / kPart;  // up to kWarpSize
  const unsigned first_window = first_line * a.length / a.window;
  Acc* const nodes = a.nodes + places.offset(output) * a.windows + first_window;
  const unsigned every = windows * parts;
  for (unsigned i = warp * kWarpSize; i < every; i += blockDim.x) {
    const unsigned part = min(i + lane, every - 1);
    Acc x[kPart];
    const In* const leaf = tile + part * kPart + (part * kPart >> gap);
#pragma unroll
    for (int k = 0; k < kPart; ++k) x[k] = convert<Acc>(leaf[k]);
    Acc node = fold_array<kPart>(x);
    for (unsigned mask = 1; mask < parts; mask *= 2) node += shuffle_xor(node, mask);
    if (lane % parts == 0 && i + lane < every) nodes[part / parts] = node;
  }
}

}  // namespace reduce_ops::sum
