// What the planner of plan.cpp chooses from. Each family has a file of its own, which says when a plan of it is legal,
// and what its numbers should be; a comment beside a number says what was measured. costs.cpp compares families where
// what they read from memory decides.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "plan/plan.h"

namespace reduce_ops::sum {

inline int64_t ceil_power(int64_t x) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x))); }

/// Those that there are.
inline std::vector<Plan> present(std::initializer_list<std::optional<Plan>> plans) {
  std::vector<Plan> result;
  for (const auto& plan : plans) {
    if (plan) result.push_back(*plan);
  }
  return result;
}

/// Bytes of the input.
inline double bytes_of(const Problem& p) {
  return static_cast<double>(p.n) * static_cast<double>(p.outputs) * p.element_size;
}

/// The same in waves of 1024 threads x 8 loads a multiprocessor.
inline double waves_of(const Problem& p, const Gpu& gpu) { return bytes_of(p) / (gpu.multiprocessors * 0x1p17); }

/// So many make much data: what a launch begins and ends with is little of it.
inline constexpr double kManyWaves = 8;

/// Whether not all of the input is in L2 when it is read again. The share of L2 is that of 33 MiB in an H200's 60, with
/// which the rules were fitted.
inline bool exceeds_l2(const Problem& p, const Gpu& gpu) {
  constexpr double kShare = 0.55;
  return bytes_of(p) >= kShare * static_cast<double>(gpu.l2_bytes);
}

/// The share of `places` that so many equal blocks keep busy, if each takes one and as long as any other.
inline double occupancy(int64_t blocks, int64_t places) {
  return static_cast<double>(blocks) / static_cast<double>(ceil_div(blocks, places) * places);
}

/// Blocks of so many threads that a GPU holds at once where each lane keeps up to 8 loads of 16 bytes in flight.
inline int64_t wave_of(int threads, const Gpu& gpu) { return int64_t{1024 / threads} * gpu.multiprocessors; }

/// Whether columns may have so many segments: no more than `most`, or than there are slots for.
inline bool fit(const Problem& p, int64_t segments, int64_t most) {
  return segments == 1 || segments <= std::min(most, max_slots(p.accumulate_size) / p.outputs);
}

/// The least number from `least` on that is what `to` is modulo 16.
inline int64_t congruent(int64_t least, int64_t to) { return least + ((to - least) % 16 + 16) % 16; }

// ---- rows.cpp

/// Family::rows, or none for more elements than a launch covers.
std::optional<Plan> plan_rows(const Problem& p, const Gpu& gpu);

/// The same in half and in twice as many blocks an output, where there are several.
std::vector<Plan> other_rows(const Problem& p, const Plan& rows);

/// Family::tiny_rows, small_rows or staged_rows, or none if none of these is a gain.
std::optional<Plan> plan_short_rows(const Problem& p, const Gpu& gpu);

/// Of those all that take the problem.
std::vector<Plan> every_short_rows(const Problem& p, const Gpu& gpu);

// ---- columns.cpp

/// Whether threads can load `vector` neighbouring columns at once.
bool fits_vector(const Problem& p, int vector);

/// Whether rows begin where a line of L2 does, or all as far behind that.
bool are_lines(const Problem& p);

/// Blocks of a plan of columns.
int64_t column_blocks(const Problem& p, const Plan& plan);

/// Family::columns or few_rows, or none for more elements than a launch covers. vector: columns a thread.
std::optional<Plan> plan_columns(const Problem& p, int vector, const Gpu& gpu);

/// All that plan_columns chooses from.
std::vector<Plan> every_columns(const Problem& p, int vector, const Gpu& gpu);

// ---- narrow_columns.cpp

/// Whether sum_narrow_columns is for matrices of so many rows and columns that lie one after the other.
bool are_narrow(const Problem& p, int64_t columns, int64_t rows, int64_t matrices);

/// Family::narrow_columns, or none if the outputs are not a few neighbours in rows without a gap, in one matrix or in
/// several that follow each other, or if they have more rows than a launch covers.
std::optional<Plan> plan_narrow_columns(const Problem& p, const Gpu& gpu);

// ---- across.cpp

/// Of each output: lines whose elements follow each other in the order, from dimension `dim` of `reduced` on.
struct Lines {
  int dim;
  int64_t length;
  int64_t count;
  bool beside;   // lines of other outputs lie between them
  double bytes;  // of neighbouring ones, side by side
};

/// Nothing if the order does not run across memory, or outputs are short.
std::optional<Lines> lines_across(const Problem& p);

/// Whether there are kernels for such an order other than those along lines.
inline bool have_tiles(const Problem& p) { return p.element_size > 1; }

/// Whether lines are of words that begin at multiples of 16 bytes, and of a length that Family::word_tiles is a gain
/// for.
bool are_words(const Problem& p);

/// Threads of sum_lines that a GPU holds at once.
int64_t wave_of_lines(const Problem& p, const Gpu& gpu);

/// Family::lines, word_tiles, staged_tiles or tiles, or none if lines are short and there is no room for their nodes.
/// else_rows: whether there is a plan of rows, too.
std::optional<Plan> plan_across(const Problem& p, const Lines& lines, bool else_rows, const Gpu& gpu);

/// All that plan_across chooses from.
std::vector<Plan> every_across(const Problem& p, const Lines& lines, const Gpu& gpu);

// ---- boxes.cpp

/// What a byte from L2 costs, in instructions of a lane (H200).
inline constexpr double kCostOfByte = 7;

struct Boxed {
  Plan plan;
  double cost;  // of an element, in instructions of a lane
};

/// Family::boxes, or none if indices are not nested in memory, or there is no room for a box or for the nodes.
std::optional<Boxed> plan_boxes(const Problem& p, const Gpu& gpu);

// ---- costs.cpp

/// Family::boxes instead of a plan that leaves much of each sector unused, or whose blocks wait longer than they work.
std::optional<Plan> plan_boxes_instead(const Problem& p, const Plan& plan, const std::optional<Lines>& lines,
                                       const Gpu& gpu);

/// Whether rows, whose lanes take elements one by one in the order, beat a plan that takes neighbouring lines together.
bool beat_lines(const Problem& p, const Plan& rows, const Plan& other, const Gpu& gpu);

// ---- start.cpp

/// Plan::prefetching: the blocks that start first or, where that is no gain, none.
int prefetching(const Problem& p, const Plan& plan, const Gpu& gpu);

/// Plan::let_next.
LetNext let_next(const Problem& p, const Plan& plan, const Gpu& gpu);

/// Sets both.
void set_start(const Problem& p, Plan& plan, const Gpu& gpu);

}  // namespace reduce_ops::sum
