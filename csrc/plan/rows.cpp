// Plans of rows.cuh and short_rows.cuh.

#include <algorithm>

#include "plan/families.h"

namespace reduce_ops::sum {
namespace {

struct Shape {
  int threads;
  int loads;
};

/// Layout::split, where that is faster than elements one by one: in three dimensions and more (700 random layouts of 16
/// bits 1.23 times as fast in the geometric mean, 1040 of 32 and 64 bits 1.11), in two, but of complex128,
/// only long runs of small elements (int8 1.4, 16 bits 1.05, but 64 bits 0.9) (H100).
bool are_split_runs(const Problem& p) {
  const int64_t length = p.reduced.size[0].value;
  if (p.element_size >= 16 || p.reduced.stride[0] != 1) return false;
  if (length * p.element_size < kSectorBytes || !Near<5>::holds(p.reduced)) return false;
  if (is_wide(p) || !Near<2>::holds(p.reduced)) return true;
  return p.element_size <= 2 && length >= 128 && p.n >= 2048;
}

Layout layout_of(const Problem& p) {
  const int group = 16 / p.element_size;
  const bool aligned = p.misalignment == 0 && strides_divide(p.kept, 0, group);
  if (is_run(p.reduced) && has_one_pitch(p)) {
    if (aligned) return Layout::aligned;
    if (p.element_size <= kLargestShifted) return Layout::shifted;
  }
  const bool pitched = Near<2>::holds(p.reduced);
  if (pitched && is_rows(p.reduced, group) && aligned) return Layout::runs;
  if (are_split_runs(p)) return Layout::split;
  return pitched && !is_wide(p) ? Layout::pitched : Layout::strided;
}

/// Of an output, by lanes that load 16 bytes or, where they must, an element.
int64_t loads_of(const Problem& p, Layout layout) {
  return is_single(layout) ? p.n : ceil_div(p.n, 16 / p.element_size);
}

/// Tiles a block, for many blocks of such a shape. Times: H200, 512 threads x 8 loads, float32, two blocks a
/// multiprocessor, 132 of these.
///
/// A wave of blocks and a little more takes as long as two, so waves should be nearly full. From 100 MB on one full
/// wave is best where there is one (62.0 us at 2^26 with 256 blocks of 16 tiles, 62.8 with 512 of 8), below it two
/// (11.75 us at 2^23 with 512 blocks of 1 tile, 11.97 with 256 of 2), and otherwise some thousand small blocks. So too
/// for several aligned outputs: (32, 2^20) over dimension 1 takes 32.45 us in 2048 blocks of 1 tile, 32.9 in 256 of 8.
int choose_tiles(const Problem& p, Layout layout, int64_t loads, Shape shape, const Gpu& gpu) {
  const int64_t tile = int64_t{shape.threads} * shape.loads;
  const int64_t wave = wave_of(shape.threads, gpu);
  const auto blocks = [&](int64_t tiles) { return p.outputs * ceil_div(loads, tile * tiles); };
  const auto full_waves = [&](int64_t tiles) { return occupancy(blocks(tiles), wave) >= 0.9; };
  int tiles = 1;
  while (blocks(tiles) > kMaxBlocks && tile * tiles < loads && tiles <= kMaxTiles) tiles *= 2;
  if (p.outputs > 1 && layout == Layout::aligned) return tiles;
  if (p.outputs * loads >= int64_t{3} << 21) {
    for (int wide = tiles; wide <= 32; wide *= 2) {
      if (blocks(wide) <= wave && full_waves(wide)) return wide;
    }
  }
  for (const int wide : {4, 2}) {
    if (wide > tiles && blocks(wide) > wave && full_waves(wide)) return wide;
  }
  return tiles;
}

/// Whether rows begin at multiples of 16 bytes and are as many words long.
bool are_whole_words(const Problem& p) {
  const int64_t group = 16 / p.element_size;
  return p.n % group == 0 && p.rows.stride[0] % group == 0 && p.misalignment == 0;
}

/// Whether a family of short rows takes the problem.
bool takes(Family family, const Problem& p) {
  if (is_wide(p) || !is_run(p.reduced) || !has_one_pitch(p) || p.n < 2) return false;
  const int64_t pitch = p.rows.stride[0];
  switch (family) {
    case Family::tiny_rows:
      return p.kept.dims == 1 && p.n <= kMaxTinyRow && pitch == p.n && p.misalignment == 0 && p.result_aligned;
    case Family::small_rows:
      return are_whole_words(p) && p.n <= kWarpSize * (16 / p.element_size);
    default:  // What lies between rows is staged too, so little must.
      return pitch >= p.n && pitch <= p.n + p.n / 4 && pitch * p.element_size <= kTileBytes / 2 && p.n <= kMaxShortRow;
  }
}

/// Whether lanes should take rows so short whole, if they can.
///
/// Rows of 7 floats would take as many loads a lane: (2^22, 7) 36.5 us, staged 34.3; of much data rows of 5 are so,
/// too: (2^21, 5) float64 26.2 and 24.8, but (2^17, 5) 2.85 and 2.96. Those of 32 bytes and more are better off with a
/// lane for each 16 bytes, if they are much data: (2^22, 8) float32 34.9 and 32.2, but (2^17, 8) 2.07 and 2.17. Of
/// bytes a lane sums too many where they are not a word's: (2^22, 3) int8 33.6 us, staged 19.8; of 4 15.5 and 20.9
/// (H200).
bool is_tiny_a_gain(const Problem& p, const Gpu& gpu) {
  const int n = static_cast<int>(p.n);
  if (p.element_size == 1 && (n < 4 || n == 5)) return false;
  const int loads = whole_rows(n, p.element_size).loads;
  if (loads >= 7) return false;
  if (!exceeds_l2(p, gpu)) return true;
  if (loads == 5 && p.element_size >= 4) return false;
  return n * p.element_size < 32 || !takes(Family::small_rows, p);
}

/// Whether rows that could be staged are better off with a warp each.
///
/// A warp folds 256 staged elements at once, and up to 32 more in one step. Beyond these it does all of its work twice:
/// (2^16, 300) float16 18.6 us, by warps 16.7. But tiles of few rows are soon done: (288, 303) 1.79 and 1.98. Of some
/// thousand rows there are more warps than staged tiles keep busy: (4096, 150) float16 3.00 and 2.50, (4096, 257) 3.00
/// and 2.59, but (2^16, 150) 12.8 and 16.8 (H200).
bool are_for_warps(const Problem& p) {
  constexpr int64_t kMost = kWarpSize * 8 + kWarpSize;
  return p.n > kMost ? p.outputs >= 2048 : p.n >= 128 && p.outputs >= 3000 && p.outputs <= 16384;
}

std::optional<Family> short_family(const Problem& p, const Gpu& gpu) {
  // Where neighbours in memory are none in the result, stores are what takes time, and columns are better at those: of
  // (2000, 5000, 3) float64 with its first dimensions exchanged 210 us, staged 277 (H200).
  if (p.kept.dims > 1 && p.n <= kMaxTinyRow) return std::nullopt;
  if (takes(Family::tiny_rows, p) && is_tiny_a_gain(p, gpu)) return Family::tiny_rows;
  if (takes(Family::small_rows, p)) return Family::small_rows;
  if (!takes(Family::staged_rows, p) || are_whole_words(p) || are_for_warps(p)) return std::nullopt;
  return Family::staged_rows;
}

Plan plan_short(Family family, const Problem& p, const Gpu& gpu) {
  Plan plan{.family = family, .threads = 256, .tiles = 1, .segments = 1};
  if (family == Family::tiny_rows) {
    plan.width = static_cast<int>(p.n);
  } else if (family == Family::small_rows) {
    plan.width = static_cast<int>(ceil_power(p.n * p.element_size / 16));
  } else {
    plan.threads = kStagedThreads;
    plan.width = static_cast<int>(std::min<int64_t>(ceil_power(ceil_div(p.n, 8)), kWarpSize));
    // As many rows as there is room for, but where that leaves places for blocks free only as many as it takes to fill
    // them, in steps of what a block sums at once: (2315, 146) bfloat16 2.1 us with 4 rows a block, 5.1 with 41 (H200).
    const int64_t room = (kTileBytes - kLineBytes) / (p.rows.stride[0] * p.element_size);
    const int64_t at_once = kStagedThreads / plan.width;
    const int64_t share = ceil_div(p.outputs, int64_t{2048 / kStagedThreads} * gpu.multiprocessors);
    plan.tiles = static_cast<int>(std::min(room, ceil_div(share, at_once) * at_once));
  }
  return plan;
}

}  // namespace

std::optional<Plan> plan_rows(const Problem& p, const Gpu& gpu) {
  const Layout layout = layout_of(p);
  const int64_t loads = loads_of(p, layout);
  const auto plan = [&](Shape shape, int64_t tiles, int64_t segments) {
    return Plan{.family = Family::rows,
                .layout = layout,
                .threads = shape.threads,
                .loads = shape.loads,
                .tiles = static_cast<int>(tiles),
                .segments = static_cast<int>(segments)};
  };
  const auto a_warp_each = [&](int u) {
    Plan warps = plan({kWarpThreads, u}, 1, 1);
    warps.width = kWarpSize;
    return warps;
  };
  const bool every_shape = layout == Layout::aligned || layout == Layout::shifted;
  const bool many = p.outputs >= 2 * gpu.multiprocessors - 2 * gpu.multiprocessors / 16;  // a block each fills the GPU
  const bool by_warps = many && p.outputs <= kMaxGridX * (kWarpThreads / kWarpSize);      // a grid has no more blocks
  const Shape grid{grid_threads(layout), grid_loads(layout, p.accumulate_size)};
  if (p.outputs > 1 && every_shape) {
    const auto has_kernels = [&](int u) { return p.kept.dims == 1 || can_permute(u); };
    for (const int u : {2, 4, 8}) {
      if (by_warps && loads <= kWarpSize * u && has_kernels(u)) return a_warp_each(u);
    }
    // As many warps as there are chunks: (4528, 12096) takes 49 us in blocks of 12 x 8 loads, 63 in blocks of 16
    // (H200).
    for (const int u : {2, 4, grid.loads}) {
      const int64_t warps = ceil_div(loads, kWarpSize * u);
      if (!has_kernels(u) || warps > (many || u > 2 ? 16 : 8)) continue;
      return plan({static_cast<int>(warps) * kWarpSize, u}, 1, 1);
    }
  }
  if ((layout == Layout::runs || layout == Layout::pitched) && by_warps) {
    // (24059, 334)[:, ::2] of bfloat16 takes 17.4 us by a warp each, 32.4 by a block of 128 threads (H200).
    const int most = layout == Layout::runs ? 4 : grid.loads;
    for (const int u : {most / 2, most}) {
      if (loads <= kWarpSize * u) return a_warp_each(u);
    }
  }
  if (layout == Layout::pitched && many && loads > 512) {
    // All of an output at once, by as many warps as that takes, if a block can: (32, 2048, 7, 7) takes 5.8 us, with 256
    // threads for each channel 7.3; (128, 512, 7, 7) 5.3, in two turns 6.0 (H200).
    for (const int u : {grid.loads, most_block_loads(p.accumulate_size)}) {
      const int64_t threads = ceil_div(loads, kWarpSize * u) * kWarpSize;
      if (threads <= grid.threads) return plan({static_cast<int>(threads), u}, 1, 1);
    }
  }
  if (!every_shape && loads <= 512) return plan({128, 4}, 1, 1);
  if (!every_shape && many && loads <= 2048) {
    // (64, 512, 8, 8) over dimensions 0, 2 and 3 takes 4.1 us in blocks of 256 threads, 5.6 with 512 x 8 loads for
    // each.
    return plan({static_cast<int>(ceil_div(loads, kWarpSize * 4)) * kWarpSize, 4}, 1, 1);
  }
  if (p.outputs > 1 && many) {
    const int64_t tiles = ceil_power(ceil_div(loads, grid.threads * grid.loads));
    if (tiles <= kMaxTiles) return plan(grid, tiles, 1);
  }
  const int small_loads = small_grid_loads(layout, p.element_size, p.accumulate_size, p.ordered, p.outputs == 1);
  if (every_shape && p.outputs > 1) {
    // (200, 20000) takes 6.7 us in five blocks of (128, 8) for each output, 8.6 in two of (512, 8) (H200).
    constexpr int kThreads = 128;
    const int64_t blocks = ceil_div(loads, kThreads * small_loads);
    const bool are_few = blocks <= most_small_blocks(kThreads, /*one_output=*/false);
    if (p.outputs * loads <= int64_t{1} << 20 && are_few) return plan({kThreads, small_loads}, 1, blocks);
  } else if (every_shape) {
    // The smallest block that holds the input wins up to 2^14 float32 elements behind an add_: 2.69 us, 4 blocks of
    // (128, 8) 2.79, though in a row 1.56 and 1.32. Where it has more to do, a full one loses either way, and so is
    // three quarters full at most: of float8, to convert, 2^16 3.09 and 2.85, 1.94 and 1.39; of a shifted run of floats
    // of other than 4 bytes, to hand on, 2^13 float64 3.01 and 2.92, 1.86 and 1.53 (H200).
    const bool hands_on_more = layout == Layout::shifted && p.ordered && p.element_size != 4;
    const bool has_more_to_do = are_float8(p.element_size, p.ordered) || hands_on_more;
    const int64_t most_of_a_block = has_more_to_do ? 3072 : 4096;
    for (const auto [threads, u] :
         {Shape{32, 1}, {32, 2}, {128, 1}, {256, 1}, {256, 2}, {256, 4}, {512, 4}, {1024, 4}}) {
      if (loads <= std::min(int64_t{threads} * u, most_of_a_block)) return plan({threads, u}, 1, 1);
    }
    // Beyond, small blocks, of which the last one then collects with one load a lane. H200, in a row and behind an
    // add_: 20,000 float32 1.40 and 2.80 us in 5 blocks of (128, 8), 1.43 and 2.88 in 10 of (64, 8), 1.47 and 2.91 in 3
    // of (256, 8); 2^15 1.37 and 2.86, 1.40 and 2.88, 1.45 and 2.94, float64 of as many bytes 1.53 and 2.95, 1.59 and
    // 3.09, 1.57 and 3.04; 2^17 1.54 and 3.15 in 32 of (128, 8), 1.56 and 3.25 in 16 of (256, 8). Up to 32, as one warp
    // collects them: 2^18 from memory 2.18 in 64 of (128, 8), 2.10 in 32 of (256, 8).
    for (const int threads : {128, 256}) {
      const int64_t blocks = ceil_div(loads, threads * small_loads);
      if (blocks <= most_small_blocks(threads, /*one_output=*/true)) return plan({threads, small_loads}, 1, blocks);
    }
  } else if (!every_shape && loads <= 4096) {
    return plan({1024, 4}, 1, 1);
  }
  // Of few channels small blocks, so that their last wave is short: (64, 3, 224, 224) 11.7 us in 2352 of (256, 4), 12.2
  // in 588 of (512, 8) (H200).
  const Shape shape = layout == Layout::runs && p.outputs > 1 ? Shape{256, 4} : grid;
  int tiles = choose_tiles(p, layout, loads, shape, gpu);
  if (tiles > kMaxTiles) return std::nullopt;
  const auto blocks = [&] { return ceil_div(loads, int64_t{shape.threads} * shape.loads * tiles); };
  // Of many blocks the last one has nothing to add up: it takes what others publish while these still load. 2^29
  // float32 467.5 us instead of 468.7, 2^28 float64 467.9 and 471.2 (H200).
  if (p.outputs > 1 || blocks() < kMaxBlocks / 4) return plan(shape, tiles, blocks());
  if (blocks() == kMaxBlocks && tiles < kMaxTiles) tiles *= 2;
  return plan(shape, tiles, std::min<int64_t>(blocks() + 1, kMaxBlocks));
}

std::vector<Plan> other_rows(const Problem& p, const Plan& rows) {
  std::vector<Plan> others;
  if (rows.segments == 1 || rows.width > 0) return others;
  const int64_t loads = loads_of(p, rows.layout);
  for (const int tiles : {rows.tiles / 2, rows.tiles * 2}) {
    if (tiles < 1 || tiles > kMaxTiles) continue;
    Plan other = rows;
    other.tiles = tiles;
    const int64_t segments = ceil_div(loads, int64_t{rows.threads} * rows.loads * tiles);
    if (segments == 1 || segments * p.outputs > kMaxBlocks) continue;
    other.segments = static_cast<int>(segments);
    others.push_back(other);
  }
  return others;
}

std::optional<Plan> plan_short_rows(const Problem& p, const Gpu& gpu) {
  const auto family = short_family(p, gpu);
  if (!family) return std::nullopt;
  return plan_short(*family, p, gpu);
}

std::vector<Plan> every_short_rows(const Problem& p, const Gpu& gpu) {
  std::vector<Plan> plans;
  for (const Family family : {Family::tiny_rows, Family::small_rows, Family::staged_rows}) {
    if (takes(family, p)) plans.push_back(plan_short(family, p, gpu));
  }
  return plans;
}

}  // namespace reduce_ops::sum
