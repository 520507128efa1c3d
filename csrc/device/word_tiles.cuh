// Sums whose order runs across memory, along lines of an even length that lie side by side in words of 16 bytes
// (across.cuh), such as the channels of images in channels_last.
//
// Where a power of two divides the length of lines, it also divides the number of leaves ahead of each. So from its
// first element on every line is a row of nodes of so many leaves: kRows of them. A thread loads kRows words below each
// other, folds each column of them, which is a part of one line, to a node in registers, and stores the nodes in shared
// memory as the order has them. There a tile of lines is folded like any other (tiles.cuh).
//
// Why it is faster than to walk along lines: a lane loads 16 bytes at once instead of one element, and each once
// instead of a fifth of them twice; no line is folded in another phase than its neighbours. Of 2 bytes an element takes
// 3 instructions, and (256, 512, 28, 28) in channels_last 55 us instead of 97 (H200).
//
// Where a tile is all of an output, such as a small image, its windows are folded on, to the sum: there is no second
// launch.
//
// What limits it: nodes in shared memory, a half of the elements where lines are twice an odd number long. Of odd lines
// all elements would be.

#pragma once

#include "device/across.cuh"
#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/strides.cuh"
#include "device/tiles.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// Of kRows words below each other, the sum of each column.
template <typename In, int kRows, int kColumns, typename Acc>
__device__ void fold_columns(const uint4 (&word)[kRows], Acc (&sum)[kColumns]) {
  In element[kRows][kColumns];
  memcpy(element, word, sizeof element);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    Acc x[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) x[k] = convert<Acc>(element[k][c]);
    sum[c] = fold_array<kRows>(x);
  }
}

/// From the nodes of a tile, of kLeaves leaves each and `every` of them, those of its windows or, if there are results,
/// where the tile is an output, its sum. By all threads of a block, when all nodes are stored.
template <int kLeaves, typename Out, typename Acc>
__device__ void fold_nodes(const Across& a, Acc* tile, unsigned every, unsigned first_line, int64_t place,
                           const Results& results) {
  const bool is_output = results.sums != nullptr;
  const unsigned window = is_output ? kMaxTileWindow : a.window / kLeaves;  // in nodes
  const unsigned past = (every + window - 1) & ~(window - 1);
  for (unsigned i = every + threadIdx.x; i < past; i += blockDim.x) tile[i] = identity<Acc>();
  __syncthreads();

  // Neighbours read kPart nodes apart, every other one from the same bank on. So not all begin with their first one:
  // the k-th that a thread reads is the one with number k ^ swap, which leaves every sum of two as it is.
  const unsigned swap = threadIdx.x / 2 % kPart;
  const auto read = [&](unsigned first, Acc(&x)[kPart]) {
#pragma unroll
    for (int k = 0; k < kPart; ++k) x[k] = tile[(first + swap) ^ k];
  };
  if (!is_output) {
    fold_tile(every, window, static_cast<Acc*>(a.nodes) + place * a.windows + first_window(a, first_line), read);
    return;
  }
  Acc* const windows = tile + past;  // up to kWarpSize
  fold_tile(every, window, windows, read);
  __syncthreads();
  Acc sum = threadIdx.x < past / window ? windows[threadIdx.x] : identity<Acc>();
  for (int mask = 1; mask < kWarpSize; mask *= 2) sum += shuffle_xor(sum, mask);
  if (threadIdx.x == 0) results.store<Out>(place, sum);
}

/// What a thread of a block takes of a tile of so many lines: a word of neighbouring ones, which others share. Warps
/// take up to a cache line side by side.
template <int kColumns>
struct SharedWord {
  unsigned beside;   // threads side by side; those that share a word are so many apart
  unsigned below;    // rows of these
  unsigned sharing;  // threads
  unsigned line;     // the first one

  __device__ explicit SharedWord(unsigned lines) {
    const unsigned words = lines / kColumns;
    beside = min(words, static_cast<unsigned>(kLineBytes / kLoadBytes));
    below = threadIdx.x / beside;
    sharing = blockDim.x / words;
    line = (threadIdx.x % beside + below / sharing * beside) * kColumns;
  }

  /// The number of this thread among those that share.
  __device__ unsigned share() const { return below % sharing; }
};

/// The windows of at_once lines, a power of two, or results if these are an output. Outputs are taken in the order of
/// memory; `places` are those in the result. Four blocks a multiprocessor leave 64 registers, so that what does not
/// change in the loop is spilled, for parts of 2 and 4 rows: (256, 1024, 14, 14) bfloat16 27 us, with the 74 registers
/// of three blocks 30 (H200).
template <int kRows, typename In, typename Acc, typename Out>
__global__ void __launch_bounds__(kTileThreads, 4)
    sum_word_tiles(const __grid_constant__ Across a, const __grid_constant__ Strides kept,
                   const __grid_constant__ Strides places, Divisor tiles, Results results) {
  wait_for_stream();
  constexpr int kColumns = kPerLoad<In>;
  constexpr int kParts = kWordLoads / kRows;  // that a thread loads at once
  extern __shared__ uint4 shared[];
  Acc* const tile = reinterpret_cast<Acc*>(shared);
  const unsigned output = tiles.divide(blockIdx.x);
  const unsigned first_line = (blockIdx.x - output * static_cast<unsigned>(tiles.value)) * a.at_once;
  const unsigned lines = min(a.lines - first_line, a.at_once);
  const unsigned parts = a.length / kRows;  // of a line

  // Threads that share a word take parts below each other in turns, whose nodes are in few banks only where parts are
  // many to the power of two.
  const SharedWord<kColumns> mine(a.at_once);
  const unsigned line = mine.line;
  const unsigned step = mine.sharing;
  if (line < lines) {
    const unsigned leaf = (first_line + line) * a.length;
    const In* const column =
        opaque(static_cast<const In*>(a.data) + kept.offset(output) + a.reduced.offset_of_small(leaf));
    const int64_t stride = static_cast<int>(a.reduced.far.stride[0]);
    for (unsigned first = mine.share(); first < parts; first += kParts * step) {
      uint4 word[kParts][kRows];
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        const unsigned part = first + i * step;
        const In* const p = column + part * kRows * stride;
#pragma unroll
        for (int k = 0; k < kRows; ++k) {
          if (part < parts) word[i][k] = load_once(reinterpret_cast<const uint4*>(p + k * stride));
        }
      }
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        const unsigned part = first + i * step;
        if (part >= parts) break;
        Acc sum[kColumns];
        fold_columns<In>(word[i], sum);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) tile[(line + c) * parts + part] = sum[c];
      }
    }
  }
  fold_nodes<kRows, Out>(a, tile, lines * parts, first_line, places.offset(output), results);
}

}  // namespace reduce_ops::sum
