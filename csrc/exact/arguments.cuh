// What kernels of exact sums are given, and the numbers that they share with plans. Plain C++.

#pragma once

#include "device/strides.cuh"
#include "exact/state.h"
#include "types.h"

namespace reduce_ops::exact {

/// Where results go. type: int64 for fresh states, or float64, float32, float16, bfloat16.
struct Result {
  void* data;
  Type type;
  Finish finish;  // rounding to odd: float32 only; only exact_round divides
};

/// What is summed: for each of the `outputs` indices of the kept dimensions, n elements, in any order.
struct Problem {
  int64_t outputs;
  int64_t n;
  sum::Strides kept;     // the smallest stride innermost
  sum::Strides places;   // from an index of those to that of the output
  sum::Strides reduced;  // the smallest stride innermost
};

/// What is added up: the squares of elements of so many bytes or, with bins of their own, the elements or their
/// magnitudes.
struct Terms {
  int element_size;
  bool squares;
};

/// Of three kinds of elements, float32, narrower ones and float64, and of squares of two kinds.
constexpr int by_kind(Terms t, int narrow, int float32, int float64, int square, int square_of_float64) {
  if (t.squares) return t.element_size == 8 ? square_of_float64 : square;
  return t.element_size == 8 ? float64 : t.element_size == 4 ? float32 : narrow;
}

/// Bytes of the bins of a warp (bins.cuh), and of the totals of bins for each lane of a block of columns.
constexpr int bins_bytes(Terms t) { return by_kind(t, 8192, 4096, 17408, 8704, 34304); }
constexpr int totals_bytes(Terms t) { return by_kind(t, 16384, 4096, 17408, 8704, 34304); }

/// Elements that one block adds up at most, so that the total of a bin fits int64 (bins.cuh).
constexpr int64_t max_elements_a_block(Terms t) { return int64_t{1} << by_kind(t, 30, 24, 30, 30, 30); }

/// Warps of a block of exact_run and exact_rows, at most, and such blocks that share a multiprocessor of an H200, as
/// far as its shared memory and registers go. (2^28 float32, two blocks of 16: 241.6 us, three of 16 or six of 8: 275
/// to 290; 2^27 float64, a block of 12: 334 us, three of 4: 372.)
constexpr int run_warps(Terms t) { return by_kind(t, 12, 16, 12, 12, 6); }
constexpr int run_blocks(Terms t) { return by_kind(t, 2, 2, 1, 2, 1); }

/// Warps of a block of exact_columns, at most: where several blocks share a multiprocessor, and where one has it to
/// itself. (H200, float32, 1024 x 2^18 over dimension 0, us: 8 warps 425, 32 warps 739; 2^22 x 8: 32 warps 51, 8 115.)
constexpr int column_warps(Terms t) { return by_kind(t, 6, 8, 4, 6, 2); }
constexpr int all_column_warps(Terms t) { return by_kind(t, 24, 32, 10, 24, 5); }

inline constexpr int kRoundThreads = 128;  // a block of exact_round
inline constexpr int kRowLoads = 4;        // of exact_rows, as of exact_run where n is large
inline constexpr int kColumnLoads = 8;     // single elements that a lane has in flight
inline constexpr int kSlotsAtOnce =
    9;  // that a lane polls: 16 warps have the segments of 288 blocks of float32 in flight
inline constexpr int kStaticBytes = 1024;  // of shared memory that a block has beside its bins, and more than it needs

}  // namespace reduce_ops::exact
