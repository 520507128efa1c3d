// Sums whose order runs across memory: neighbours in the order lie far apart, and elements that are neighbours in
// memory come after each other only some steps later, such as those of a transposed matrix.
//
// The elements of an output are lines: the elements of one line follow each other in the order, and neighbouring lines
// are neighbours in memory. Lanes go along the lines, so that they load neighbours, and put what they load into shared
// memory; from there threads read along a line and fold a window, an aligned power of two of leaves, to one node. The
// nodes, whose bytes are under a hundredth of the input's, are then summed as rows.
//
// - Long lines (sum_windows): in every line windows begin at another place, as its first leaf is any. So each line has
//   a window of its own, and a ring of twice as many rows as a window holds one whole window of each.
//
// - Short lines (sum_tiles): as many lines as a window has leaves are as many windows as a line has leaves, whatever
//   that is. So a tile of so many lines, or some times as many, is whole windows.
//
// What limits it: instructions, some 8 for an element of a lane in windows and 20 in tiles; 1 to 3 TB/s of float32 on
// an H200.

#pragma once

#include <cstdint>

#include "sum/fold.cuh"
#include "sum/plan.h"
#include "sum/strides.h"

namespace reduce_ops::sum {

/// Of each output, `lines` lines of `length` elements: fewer than 2^31 elements, and as far as that apart. Outputs are
/// taken in the order of memory; `places` are those in the result.
template <typename In, typename Acc>
struct Across {
  const In* data;
  Acc* nodes;       // of each output, one for each of its windows
  int64_t windows;  // of an output
  unsigned lines;
  unsigned length;
  unsigned blocks;    // that sum an output, or outputs that lie side by side
  unsigned at_once;   // sum_windows: windows of a line that a block takes; sum_tiles: lines that it takes
  unsigned together;  // sum_windows: outputs that lie side by side in every line
  Strides kept;
  Strides places;
  Strides along;    // from the first element of a line to the others
  Strides to_line;  // from the first line to the others
};

/// p, whatever it was made of: nvcc adds that up again for each load, in 6 instructions instead of 1.
template <typename T>
__device__ const T* opaque(const T* p) {
  size_t address = __cvta_generic_to_global(p);
  asm("" : "+l"(address));
  return static_cast<const T*>(__cvta_global_to_generic(address));
}

/// By kWidth x kWindowParts threads: the windows from (block / blocks side by side) * at_once on of kWidth strands, of
/// which a line has one for each of the outputs that lie side by side.
template <int kWidth, typename In, typename Acc>
__global__ void __launch_bounds__(kWidth* kWindowParts, kWindowThreads<sizeof(In)> / (kWidth * kWindowParts))
    sum_windows(const __grid_constant__ Across<In, Acc> a) {
  constexpr unsigned kWindow = kWindowLeaves<sizeof(In), sizeof(Acc)>;
  constexpr unsigned kThreads = kWidth * kWindowParts;
  constexpr unsigned kPart = kWindow / kWindowParts;  // rows that a thread loads, and leaves that it folds, at once
  // Two windows of every strand, and the first rows again, for threads that read beyond the last.
  __shared__ In ring[2 * kWindow + kPart][kWidth];
  __shared__ int place[kWindow];  // of the rows that are loaded next, from the first of a line
  __shared__ Acc sums[kWindowParts][kWidth];

  const unsigned strands = a.lines * a.together;
  const unsigned side_by_side = (strands + kWidth - 1) / kWidth;
  const unsigned block = blockIdx.x % a.blocks;
  const unsigned first = block / side_by_side * a.at_once * kWindow;  // row, of a line whose first leaf begins a window
  const unsigned strand = block % side_by_side * kWidth + threadIdx.x;
  const bool exists = strand < strands;
  const unsigned line = min(strand, strands - 1) / a.together;
  const int64_t output = int64_t{blockIdx.x / a.blocks} * a.together + min(strand, strands - 1) % a.together;
  const unsigned part = threadIdx.y;
  const In* const data = a.data + a.kept.offset(output);
  const In* const at = opaque(data + a.to_line.offset(line));

  // The rows that this line's windows have. Those beyond its own are of the next lines: one stride away each, up to the
  // last line of the innermost dimension, and after that, by one jump, up to that of the next turn.
  const unsigned start = -(line * a.length) % kWindow;
  const unsigned begin = start + first;
  const unsigned windows = begin < a.length ? min((a.length - begin + kWindow - 1) / kWindow, a.at_once) : 0;
  const unsigned end = min(begin + windows * kWindow, (a.lines - line) * a.length);
  const auto stride = static_cast<unsigned>(a.to_line.stride[0]);
  const auto turn = static_cast<unsigned>(a.to_line.size[0].value);  // lines
  const unsigned to_turn = turn - line % turn;
  const unsigned turned_at = to_turn * a.length;
  const unsigned near = min(end, (to_turn + turn) * a.length);
  const auto jump = turned_at < end ? static_cast<unsigned>(a.to_line.offset(line + to_turn) - a.to_line.offset(line)) -
                                          to_turn * stride
                                    : 0;

  // within: all of these rows are wanted, of every strand, and none is of the next line.
  const auto find = [&](unsigned row, bool within) {
    for (unsigned i = part * kWidth + threadIdx.x; i < kWindow; i += kThreads) {
      const unsigned lines = within ? 0 : (row + i) / a.length;
      const auto offset = static_cast<unsigned>(a.along.offset(row + i - lines * a.length));
      place[i] = static_cast<int>(offset + lines * stride);
    }
  };
  In element[kPart];
  const auto load = [&](unsigned row, bool within) {
    if (within) {
#pragma unroll
      for (unsigned u = 0; u < kPart; ++u) element[u] = at[place[u * kWindowParts + part]];
      return;
    }
#pragma unroll
    for (unsigned u = 0; u < kPart; ++u) {
      const unsigned i = u * kWindowParts + part;
      element[u] = convert<In>(identity<Acc>());
      if (row + i < begin || row + i >= near) continue;
      element[u] = at[place[i] + static_cast<int>(row + i < turned_at ? 0 : jump)];
    }
  };
  const auto keep = [&](unsigned row) {
    In(*const rows)[kWidth] = ring + row % (2 * kWindow);
#pragma unroll
    for (unsigned u = 0; u < kPart; ++u) rows[u * kWindowParts + part][threadIdx.x] = element[u];
    if (row + kWindow > near && near < end) {
#pragma unroll 1  // only where a window takes several turns
      for (unsigned i = part; i < kWindow; i += kWindowParts) {
        if (row + i < max(near, begin) || row + i >= end) continue;
        const unsigned lines = (row + i) / a.length;
        rows[i][threadIdx.x] = data[a.to_line.offset(line + lines) + a.along.offset(row + i - lines * a.length)];
      }
    }
    if (rows != ring) return;
#pragma unroll
    for (unsigned i = 0; i < kPart; i += kWindowParts) {
      rows[2 * kWindow + i + part][threadIdx.x] = rows[i + part][threadIdx.x];
    }
  };
  // Threads of a warp that have the same strand read their leaves in another order, but the same pairs of the same
  // pairs of these: at every step they are in different banks.
  const unsigned swapped = part % (kWarpSize / kWidth);
  const auto fold = [&](unsigned row) {
    const In(*const leaf)[kWidth] = ring + (start + row + part * kPart) % (2 * kWindow);
    Acc x[kPart];
#pragma unroll
    for (unsigned i = 0; i < kPart; ++i) x[i] = convert<Acc>(leaf[i ^ swapped][threadIdx.x]);
    sums[part][threadIdx.x] = fold_array<kPart>(x);
  };

  // Step s loads the rows that window s of every line begins in, and while they come folds window s - 2.
  for (unsigned s = 0; s < a.at_once + 2; ++s) {
    const unsigned row = first + s * kWindow;
    const bool folds = s >= 2;
    if (folds && row - 2 * kWindow >= a.length) return;
    const bool within = s > 0 && s < a.at_once && row + kWindow <= a.length;
    find(row, within);
    __syncthreads();
    load(row, within);
    if (folds) fold(row - 2 * kWindow);
    __syncthreads();
    keep(row);
    if (!folds || part != s % kWindowParts || s - 2 >= windows || !exists) continue;
    Acc node[kWindowParts];
#pragma unroll
    for (int i = 0; i < kWindowParts; ++i) node[i] = sums[i][threadIdx.x];
    const unsigned window = (line * a.length + start + row) / kWindow - 2;
    a.nodes[a.places.offset(output) * a.windows + window] = fold_array<kWindowParts>(node);
  }
}

/// Where leaf x of a tile lies in shared memory: neither lanes that write every length-th one nor those that read every
/// sixteenth all meet in one bank.
__device__ inline unsigned place_in_tile(unsigned x) { return x + x / 32; }

/// The windows of at_once lines. Where there are few, a warp loads more than one row of them. kStraight: the elements
/// of a line are one stride apart.
template <bool kStraight, typename In, typename Acc>
__global__ void __launch_bounds__(kTileThreads) sum_tiles(const __grid_constant__ Across<In, Acc> a) {
  constexpr unsigned kWindow = kWindowLeaves<sizeof(In), sizeof(Acc)>;
  constexpr unsigned kLoads = sizeof(In) <= 4 ? 16 : 8;
  constexpr unsigned kPart = 16;  // leaves that a thread folds at once
  constexpr unsigned kParts = kWindow / kPart;
  static_assert(kParts <= kWarpSize);
  extern __shared__ uint4 shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const int64_t output = blockIdx.x / a.blocks;
  const unsigned first_line = blockIdx.x % a.blocks * a.at_once;
  const unsigned lines = min(a.lines - first_line, a.at_once);
  const unsigned lane = threadIdx.x % kWarpSize;

  const unsigned width = lines > 16 ? 32 : lines > 8 ? 16 : lines > 4 ? 8 : 4;  // lines of a load
  const unsigned rows = kWarpSize / width;                                      // of a load
  const unsigned down = (a.length + rows - 1) / rows;                           // loads, one below the other
  const unsigned loads = (lines + width - 1) / width * down;                    // of warps
  const unsigned first_row = lane / width;
  const In* const data = a.data + a.kept.offset(output);
  const auto line_at = [&](unsigned line) {
    return opaque(data + a.to_line.offset(first_line + min(line, lines - 1)));
  };
  for (unsigned i = threadIdx.x / kWarpSize * kLoads; i < loads; i += blockDim.x / kWarpSize * kLoads) {
    unsigned left = down - i % down;  // to the last row
    unsigned row = i % down * rows + first_row;
    unsigned line = i / down * width + lane % width;
    const In* at = line_at(line);
    unsigned leaf[kLoads];
    In element[kLoads];
#pragma unroll
    for (unsigned u = 0; u < kLoads; ++u) {
      const bool exists = line < lines && row < a.length;
      leaf[u] = exists ? line * a.length + row : ~0u;
      const auto offset = kStraight ? row * static_cast<unsigned>(a.along.stride[0]) : a.along.offset(row);
      if (exists) element[u] = at[static_cast<int>(offset)];
      row += rows;
      if (--left == 0) {
        left = down;
        row = first_row;
        line += width;
        at = line_at(line);
      }
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; ++u) {
      if (leaf[u] != ~0u) tile[place_in_tile(leaf[u])] = element[u];
    }
  }
  const unsigned leaves = lines * a.length;
  const unsigned windows = (leaves + kWindow - 1) / kWindow;
  for (unsigned i = leaves + threadIdx.x; i < windows * kWindow; i += blockDim.x) {
    tile[place_in_tile(i)] = convert<In>(identity<Acc>());
  }
  __syncthreads();

  Acc* const nodes = a.nodes + a.places.offset(output) * a.windows + first_line / kWindow * a.length;
  for (unsigned i = threadIdx.x; i / kParts - lane / kParts < windows; i += blockDim.x) {
    const unsigned window = i / kParts;
    Acc x[kPart];
    const In* const leaf = tile + place_in_tile(min(window, windows - 1) * kWindow + i % kParts * kPart);
#pragma unroll
    for (int k = 0; k < kPart; ++k) x[k] = convert<Acc>(leaf[k]);
    Acc node = fold_array<kPart>(x);
#pragma unroll
    for (unsigned mask = 1; mask < kParts; mask *= 2) node += shuffle_xor(node, mask);
    if (i % kParts == 0 && window < windows) nodes[window] = node;
  }
}

}  // namespace reduce_ops::sum
