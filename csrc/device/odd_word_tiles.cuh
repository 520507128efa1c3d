// Sums whose order runs across memory, along lines of an odd length that lie side by side in words of 16 bytes
// (across.cuh), such as the channels of images of 7 x 7 pixels in channels_last.
//
// Such lines begin anywhere in the tree. But the lines of a word, kColumns of them, begin together with a node of
// kColumns leaves and end with one. A thread loads words below each other, as in word_tiles.cuh, and folds each of
// their columns from where it begins: which leaf of a node an element is depends on its column, its row and the length
// modulo kColumns alone, and so is known when compiled. What a column has at its ends, parts of a node that began in
// the column before it and of one that goes on in the next column, stays in registers as subtrees, and is put together
// in the end.
//
// Where words are fewer than threads, some threads share each, a multiple of kColumns rows for each of them: what one
// has begun the next one ends.
//
// Why it is faster than to stage lines or to walk along them: again a lane loads 16 bytes at once, each once, and only
// nodes of kColumns elements go through shared memory, however odd the length. (256, 2048, 7, 7) bfloat16 takes 22 us
// instead of 36 (H200).
//
// What limits it: registers, which are enough for three blocks of 256 threads a multiprocessor, and a little data,
// which is divided among threads of few rows. Elements of 4 bytes have nodes of 4: of 9 layouts 4 were faster, by 1.1
// to 1.2.

#pragma once

#include "device/across.cuh"
#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/strides.cuh"
#include "device/tuning.cuh"
#include "device/word_tiles.cuh"

namespace reduce_ops::sum {

/// Of the columns of words below each other, what is not a node yet. kRest: of a line, beyond a multiple of kColumns.
template <int kRest, int kColumns, typename Acc>
class PartsOfNodes {
 public:
  /// Takes the element of a column in a row, of which the number modulo kColumns counts. first: of the first kColumns
  /// rows. Returns whether it ends a node, which is then in x.
  __device__ bool add(int column, int row, bool first, Acc& x) {
    const int phase = phase_of(column);
    const int leaf = (phase + row) % kColumns;
    const bool began_before = first && phase + row < kColumns;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      const int of_left = leaf >> (level + 1) << (level + 1);
      if ((leaf >> level & 1) == 0) {
        left_[level][column] = x;
        return false;
      }
      if (began_before && of_left < phase) {
        right_[level][column] = x;
        return false;
      }
      x = left_[level][column] + x;
    }
    return true;
  }

  /// Stores what is begun where the next thread, or the first one for the next columns, finds it: `stride` apart.
  /// at_end: of the lines.
  __device__ void hand_on(Acc* begun, unsigned stride, bool at_end) const {
    for_begun([&](int column, int level) {
      *begun = at_end ? left_[level][column - 1] : left_[level][column];
      begun += stride;
    });
  }

  /// The nodes that end with the first rows of this thread, but that of the first column, which begins with it.
  template <typename Store>
  __device__ void end(const Acc* begun, unsigned stride, const Store& store) const {
    Acc node = identity<Acc>();
    for_begun([&](int column, int level) {
      const int phase = phase_of(column);
      const bool least = (phase & ((1 << level) - 1)) == 0;
      node = *begun + (least ? right_[level][column] : node);
      begun += stride;
#pragma unroll
      for (int next = level + 1; next < kLevels && (phase >> next & 1) == 0; ++next) node = node + right_[next][column];
      if (phase >> (level + 1) == 0) store(column, node);
    });
  }

 private:
  static constexpr int kLevels = kLog2<kColumns>;

  /// The leaf of a node that a column begins with.
  static __device__ constexpr int phase_of(int column) { return kRest * column % kColumns; }

  /// Every level of which a node is begun where a column begins, the smallest one first.
  template <typename Do>
  static __device__ void for_begun(const Do& what) {
#pragma unroll
    for (int column = 1; column < kColumns; ++column) {
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {
        if (phase_of(column) >> level & 1) what(column, level);
      }
    }
  }

  Acc left_[kLevels][kColumns];   // of 2^level leaves, the first one of a pair
  Acc right_[kLevels][kColumns];  // the second one of a pair that began before the first row
};

/// The windows of at_once lines, a power of two, or results if these are an output. Outputs are taken in the order of
/// memory; `places` are those in the result. kRest: of the length, modulo the elements of a word. room: for nodes.
template <int kRest, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(kTileThreads, 3)
    sum_odd_word_tiles(const __grid_constant__ Across a, const __grid_constant__ Strides kept,
                       const __grid_constant__ Strides places, Divisor tiles, Results results, unsigned room) {
  wait_for_stream();
  constexpr int kColumns = kPerLoad<In>;
  extern __shared__ uint4 shared[];
  Acc* const tile = reinterpret_cast<Acc*>(shared);
  Acc* const begun = tile + room + threadIdx.x;
  const unsigned output = tiles.divide(blockIdx.x);
  const unsigned first_line = (blockIdx.x - output * static_cast<unsigned>(tiles.value)) * a.at_once;
  const unsigned lines = min(a.lines - first_line, a.at_once);

  const SharedWord<kColumns> mine(a.at_once);
  const unsigned line = mine.line;
  const unsigned sharing = mine.sharing;
  const unsigned share = mine.share();
  const unsigned nodes_of_line = a.length / kColumns;                 // whole ones
  const unsigned first = share * nodes_of_line / sharing * kColumns;  // row
  const unsigned past = share + 1 == sharing ? a.length : (share + 1) * nodes_of_line / sharing * kColumns;
  Acc* const nodes = tile + line / kColumns * a.length;
  PartsOfNodes<kRest, kColumns, Acc> parts;
  if (line < lines) {
    const unsigned leaf = (first_line + line) * a.length;
    const In* const column =
        opaque(static_cast<const In*>(a.data) + kept.offset(output) + a.reduced.offset_of_small(leaf));
    const int64_t stride = static_cast<int>(a.reduced.far.stride[0]);
    const auto take = [&](unsigned row, unsigned rows, bool are_first) {
      uint4 word[kWordLoads];
      const In* const p = column + row * stride;
#pragma unroll
      for (unsigned k = 0; k < kWordLoads; ++k) {
        if (k < rows) word[k] = load_once(reinterpret_cast<const uint4*>(p + k * stride));
      }
      In element[kWordLoads][kColumns];
      memcpy(element, word, sizeof element);
#pragma unroll
      for (unsigned k = 0; k < kWordLoads; ++k) {
        if (k >= rows) break;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          Acc x = convert<Acc>(element[k][c]);
          if (parts.add(c, k, are_first && k < kColumns, x)) nodes[(c * a.length + row + k) / kColumns] = x;
        }
      }
    };
    take(first, past - first, true);
    unsigned row = first + kWordLoads;
    for (; row + kWordLoads <= past; row += kWordLoads) take(row, kWordLoads, false);
    if (row < past) take(row, past - row, false);
    parts.hand_on(begun, blockDim.x, share + 1 == sharing);
  }
  __syncthreads();
  if (line < lines) {
    const int before = share == 0 ? static_cast<int>(sharing - 1) : -1;
    parts.end(begun + before * static_cast<int>(mine.beside), blockDim.x,
              [&](int column, Acc node) { nodes[(column * a.length + first) / kColumns] = node; });
  }
  fold_nodes<kColumns, Out>(a, tile, lines / kColumns * a.length, first_line, places.offset(output), results);
}

}  // namespace reduce_ops::sum
