// The door between PyTorch and the kernels of the exact sums: pointers, counts, strides and a stream.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exact/state.h"
#include "sum/strides.h"
#include "types.h"

namespace reduce_ops::exact {

/// Where results go. type: int64 for fresh states, or float64, float32, float16, bfloat16.
struct Result {
  void* data;
  Type type;
  Rounding rounding;  // odd: float32 only
};

/// What is summed: for each of the `outputs` indices of the kept dimensions, n elements, in any order.
struct Problem {
  int64_t outputs;
  int64_t n;
  sum::Strides kept;     // the smallest stride innermost
  sum::Strides places;   // from an index of those to that of the output
  sum::Strides reduced;  // the smallest stride innermost
};

/// How: which kernel and its parameters. Nothing of it shows in the result.
enum class Family {
  run,      // exact_rows.cuh, a block or more an output, each one run of memory
  rows,     // exact_rows.cuh, a warp an output, each one run of memory
  columns,  // exact_columns.cuh, outputs side by side, of any strides
};
struct Plan {
  Family family;
  int warps;         // a block
  int loads = 0;     // run: of 16 bytes, that a lane has in flight
  int width = 0;     // columns: outputs side by side in a block, up to 32
  int segments = 1;  // blocks an output or, of columns, a width of outputs; 0: more than one launch covers
  int blocks = 0;    // rows: in all
};

/// What a plan has to know of a GPU.
struct Gpu {
  int multiprocessors;
  int shared_memory;  // bytes that a block may have
};

/// Plans a sum with outputs > 0 and n > 0.
Plan make_plan(const Problem& problem, int element_size, const Gpu& gpu);

/// Bytes of the bins of a warp (bins.cuh), and of the totals of bins for each lane of a block of columns.
constexpr int bins_bytes(int element_size) { return element_size == 8 ? 17408 : element_size == 4 ? 4096 : 8192; }
constexpr int totals_bytes(int element_size) { return element_size == 8 ? 17408 : element_size == 4 ? 4096 : 16384; }

/// Elements that one block adds up at most: no total of a bin then reaches 2^(39 + 24) units (bins.cuh).
constexpr int64_t kMaxElementsABlock = int64_t{1} << 24;

/// Warps of a block of exact_run and exact_rows, at most, and such blocks that share a multiprocessor: as many as there
/// is shared memory for (bins.cuh).
constexpr int run_warps(int element_size) { return element_size == 4 ? 16 : 12; }
constexpr int run_blocks(int element_size) { return element_size == 8 ? 1 : 2; }

constexpr int kRowLoads = 4;          // of exact_rows
constexpr int kColumnThreads = 1024;  // of exact_columns, at most
constexpr int kColumnLoads = 8;
constexpr int kSlotsAtOnce = 9;  // that a lane polls

struct Launch {
  Type in;  // float8_e4m3fn, float8_e5m2, float16, bfloat16, float32 or float64
  const void* data;
  Problem problem;
  Plan plan;
  void* slots;  // sum::kSlotBytes, all zero before and after; unused for one segment
  Result result;
};

/// Launches the plan on `stream` of the current device and returns what the launch said.
cudaError_t launch(const Launch& launch, cudaStream_t stream);

/// Rounds `count` states of 16 or 73 words each.
cudaError_t launch_round(const int64_t* states, int words, int64_t count, const Result& result, cudaStream_t stream);

}  // namespace reduce_ops::exact
