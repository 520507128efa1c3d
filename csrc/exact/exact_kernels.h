// The door between PyTorch and the kernels of the exact sums: pointers, counts, strides and a stream.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "exact/arguments.cuh"
#include "gpu.h"
#include "jit/kernel.h"

namespace reduce_ops::exact {

/// How: which kernel and its parameters. Nothing of it shows in the result.
enum class Family {
  run,      // exact_rows.cuh, a block or more an output, each one run of memory
  rows,     // exact_rows.cuh, a warp an output, each one run of memory
  columns,  // exact_columns.cuh, outputs side by side, of any strides
};
struct Plan {
  Family family;
  int warps = 0;     // a block
  int loads = 0;     // run: of 16 bytes, that a lane has in flight
  int width = 0;     // columns: outputs side by side in a block, up to 32
  int segments = 1;  // blocks an output or, of columns, a width of outputs; 0: more than one launch covers
  int blocks = 0;    // rows: in all
};

/// Plans a sum with outputs > 0 and n > 0.
Plan make_plan(const Problem& problem, Terms terms, const Gpu& gpu);

struct Launch {
  Terms terms() const { return {size_of(in), term == Term::square}; }

  Type in;  // float8_e4m3fn, float8_e5m2, float16, bfloat16, float32 or float64
  Term term;
  const void* data;
  Problem problem;
  Plan plan;
  Gpu gpu;
  void* slots;  // sum::kSlotBytes, all zero before and after; unused for one segment
  Result result;
};

/// Launches the plan on `stream` of the current device and returns what the launch said.
cudaError_t launch(const Launch& launch, cudaStream_t stream);

/// Rounds `count` states of so many words each.
cudaError_t launch_round(const int64_t* states, int words, int64_t count, const Result& result, cudaStream_t stream);

/// The names of all kernels of exact sums, which are few. Those of norms are compiled when they are first needed.
std::vector<jit::Name> kernel_names();

}  // namespace reduce_ops::exact
