// The plan of a full sum on a GPU: which kernel, how many threads, how much work a block. Nothing of it shows in the
// result. Plain C++, without device state: what it chooses can be tested without a GPU.

#pragma once

#include <cstdint>

namespace reduce_ops::sum {

/// How the elements lie.
enum class Layout {
  aligned,  // one run that starts at a multiple of 16 bytes
  shifted,  // one run that starts elsewhere
  rows,     // runs of a multiple of 16 bytes that all start at a multiple of 16 bytes
  strided,  // anything else
};

/// A launch of kernels.cuh: sum_block if blocks is 1, sum_grid otherwise.
struct Plan {
  int threads;
  int loads;   // a lane has in flight, of 16 bytes (strided: of one element)
  int blocks;  // up to kMaxBlocks
  int tiles;   // a block
};

/// Blocks of one launch that can publish (slots.cuh).
constexpr int kMaxBlocks = 4096;

/// Loads that a lane has in flight where there are many blocks: 8, or 4 where the values of 8 loads would not fit the
/// registers (H200, 1 GiB: float64 264 us with 8, 239 with 4; complex128 361 and 243).
constexpr int grid_loads(Layout layout, int accumulate_size) {
  const bool lean = layout == Layout::aligned || layout == Layout::strided;
  return lean && accumulate_size <= 4 ? 8 : 4;
}

/// Plans the sum of n > 0 elements of `element_size` bytes that are added in a type of `accumulate_size` bytes.
/// full_choice: the kernel exists in every shape, not only 1024 threads x 4 loads for one block and 512 x grid_loads
/// for many. multiprocessors: of the GPU. blocks is 0 if n is more than any plan covers: 2^34 strided elements, 2^39
/// bytes in one run.
Plan make_plan(int64_t n, int element_size, int accumulate_size, Layout layout, bool full_choice, int multiprocessors);

}  // namespace reduce_ops::sum
