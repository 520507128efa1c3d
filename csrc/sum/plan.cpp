#include "sum/plan.h"

#include <algorithm>

namespace reduce_ops::sum {
namespace {

constexpr int kWarpSize = 32;
constexpr int kMaxTiles = 1024;

struct Shape {
  int threads;
  int loads;
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Tiles a block, for many blocks of `tile` loads each. Times below: H200, 512 threads x 8 loads, float32.
///
/// One full wave of blocks is best where there is one: 62.0 us at 2^26 with 256 blocks of 16 tiles on 132
/// multiprocessors of two blocks, 62.8 with 512 of 8. But a wave and a little more takes as long as two, so a wave is
/// only chosen when it is nearly full, and otherwise blocks are small enough for the last wave not to matter.
int choose_tiles(int64_t loads, int64_t tile, int multiprocessors) {
  const int wave = 2 * multiprocessors;
  int tiles = 1;
  while (ceil_div(loads, tile * tiles) > kMaxBlocks) tiles *= 2;
  for (int wide = tiles; wide <= 32; wide *= 2) {
    const int64_t blocks = ceil_div(loads, tile * wide);
    if (blocks <= wave && 10 * blocks >= 9 * wave) return wide;
  }
  return tiles;
}

}  // namespace

Plan make_plan(int64_t n, int element_size, int accumulate_size, Layout layout, bool full_choice, int multiprocessors) {
  const int64_t loads = layout == Layout::strided ? n : ceil_div(n, 16 / element_size);  // of a lane
  const auto fits_block = [loads](int threads, int u) { return loads <= int64_t{threads} * u; };
  if (!full_choice || layout == Layout::rows || layout == Layout::strided) {
    if (fits_block(1024, 4)) return {1024, 4, 1, 1};
  } else {
    // H200, float32: the smallest block that holds the input wins up to 2^15 elements (2.32 us; 2.43 with 16 blocks).
    for (const auto [threads, u] : {Shape{32, 1}, {128, 1}, {256, 4}, {1024, 4}, {1024, 8}}) {
      if (layout == Layout::shifted && u != 4) continue;
      if (fits_block(threads, u)) return {threads, u, 1, 1};
    }
    // Up to 2^19 float32 elements, many small blocks: 2.85 us at 2^18, 3.0 with blocks of (512, 8).
    if (loads <= int64_t{1} << 17) return {256, 4, static_cast<int>(ceil_div(loads, 1024)), 1};
  }
  const bool huge = full_choice && layout == Layout::aligned && loads > (int64_t{1} << 26);
  const Shape plan{huge ? 1024 : 512, grid_loads(layout, accumulate_size)};
  const int64_t tile = int64_t{plan.threads} * plan.loads;
  const int tiles = choose_tiles(loads, tile, multiprocessors);
  if (tiles > kMaxTiles) return {plan.threads, plan.loads, 0, tiles};
  return {plan.threads, plan.loads, static_cast<int>(ceil_div(loads, tile * tiles)), tiles};
}

}  // namespace reduce_ops::sum
