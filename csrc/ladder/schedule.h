// The schedule of every rung: how a pass cuts its input into blocks, and which thread adds what to what in every
// round of a block. The CPU twin runs it, and `python -m reduce_ops explain` counts and draws it, so that
// neither can drift from the arithmetic. Plain C++: no CUDA, no PyTorch.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ladder/limits.h"

namespace reduce_ops::ladder {

constexpr int kMaxBlockSize = 1024;
constexpr int kManyBlocks = 1024;                     // v6, v7, v8 spread any input over at most this many blocks
constexpr int64_t kMaxGrid = (int64_t{1} << 31) - 1;  // CUDA's limit on gridDim.x

/// Marks, in ladder.def, a rung whose threads load as many elements as kManyBlocks blocks leave them.
constexpr int MANY = 0;

/// One line of ladder.def.
struct Rung {
  int number;
  int elements;  // per thread, or MANY
  std::string title;
  std::string summary;
  std::vector<int64_t> block_sizes;  // what `block_size` may be; only kBlockSize where the rung does not take it
};

/// All rungs; rungs()[N] is vN.
const std::vector<Rung>& rungs();

/// How one pass covers n elements. Element j of thread t of block k is a[(k * elements + j) * threads + t].
/// Int is int64_t, or c10::SymInt where only shapes are known.
template <typename Int>
struct BasicGrid {
  int threads;   // a block
  Int elements;  // a thread
  Int blocks;
};
using Grid = BasicGrid<int64_t>;

template <typename Int>
BasicGrid<Int> make_grid(const Rung& rung, int block_size, const Int& n) {
  const auto max = [](const Int& a, const Int& b) {
    if constexpr (std::is_integral_v<Int>) {
      return std::max(a, b);
    } else {
      return a.max(b);  // stays symbolic
    }
  };
  const auto ceil_div = [](const Int& a, const Int& b) { return (a + b - 1) / b; };
  const Int elements =
      rung.elements == MANY ? max(Int(1), ceil_div(n, Int(int64_t{kManyBlocks} * block_size))) : Int(rung.elements);
  return {block_size, elements, ceil_div(n, elements * block_size)};
}

/// Where a thread sums its elements, and where the sum is when the rounds begin.
enum class Load {
  keep,        // in a register, where it stays
  store,       // in a register, then one store into slot t of shared memory
  accumulate,  // in slot t of shared memory: the identity is stored there, then every element added into it
};

/// What one round does with a block's values: value t starts as the sum of the elements of thread t.
enum class Step {
  shared,   // values live in shared memory: value[slot] += value[slot + distance]
  fetch,    // as above, but the sum is not stored: it stays in the worker's register
  shuffle,  // values live in registers: as above within a warp; a lane that would look past it takes its own
  collect,  // lane 0 of each warp hands its value to warp 0: value[w] = value[w * kWarpSize], identity beyond
};

/// What threads wait for between the writes of a round and what comes next: nothing, their warp, or the whole block.
/// (A collect is a store, this barrier, and a load.) Where the block waits, all its warps walk through the round;
/// elsewhere only those that have a worker.
enum class Barrier { none, warp, block };

/// One round. Worker i = 0 .. workers-1 is thread i * thread_step and adds into slot i * slot_step. All workers
/// read before any writes.
struct Round {
  Step step;
  int workers;
  int thread_step;
  int slot_step;
  int distance;
  Barrier barrier;
};

/// What a block does: it loads, waits (unless the sums stay in registers), and runs the rounds in order; afterwards
/// value 0 is the block sum, and thread 0 writes it.
struct Schedule {
  Load load;
  std::vector<Round> rounds;
};

/// The schedule of rung vN with that many threads a block.
Schedule make_schedule(int version, int block_size);

}  // namespace reduce_ops::ladder
