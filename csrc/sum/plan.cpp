#include "sum/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "sum/visits.h"

namespace reduce_ops::sum {
namespace {

struct Shape {
  int threads;
  int loads;
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t ceil_power(int64_t x) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x))); }

/// Bytes of the input.
double bytes_of(const Problem& p) { return static_cast<double>(p.n) * static_cast<double>(p.outputs) * p.element_size; }

/// The same in waves of 1024 threads x 8 loads a multiprocessor.
double waves_of(const Problem& p, int multiprocessors) { return bytes_of(p) / (multiprocessors * 0x1p17); }

/// So many make much data: what a launch begins and ends with is little of it.
constexpr double kManyWaves = 8;

/// From so many on not all is in L2 when it is read again.
constexpr double kMoreThanL2 = 2;

/// The share of `places` that so many equal blocks keep busy, if each takes one and as long as any other.
double occupancy(int64_t blocks, int64_t places) {
  return static_cast<double>(blocks) / static_cast<double>(ceil_div(blocks, places) * places);
}

/// Blocks of so many threads that a GPU holds at once where each lane keeps up to 8 loads of 16 bytes in flight.
int64_t wave_of(int threads, int multiprocessors) { return int64_t{1024 / threads} * multiprocessors; }

// ---- rows

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

/// Tiles a block, for many blocks of such a shape. Times: H200, 512 threads x 8 loads, float32, two blocks a
/// multiprocessor, 132 of these.
///
/// A wave of blocks and a little more takes as long as two, so waves should be nearly full. From 100 MB on one full
/// wave is best where there is one (62.0 us at 2^26 with 256 blocks of 16 tiles, 62.8 with 512 of 8), below it two
/// (11.75 us at 2^23 with 512 blocks of 1 tile, 11.97 with 256 of 2), and otherwise some thousand small blocks. So too
/// for several aligned outputs: (32, 2^20) over dimension 1 takes 32.45 us in 2048 blocks of 1 tile, 32.9 in 256 of 8.
int choose_tiles(const Problem& p, Layout layout, int64_t loads, Shape shape, int multiprocessors) {
  const int64_t tile = int64_t{shape.threads} * shape.loads;
  const int64_t wave = wave_of(shape.threads, multiprocessors);
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

Plan plan_rows(const Problem& p, int multiprocessors) {
  const Layout layout = layout_of(p);
  const int64_t loads = is_single(layout) ? p.n : ceil_div(p.n, 16 / p.element_size);  // of a lane, an output
  const auto plan = [&](Shape shape, int64_t tiles, int64_t segments) {
    const bool covered = tiles <= kMaxTiles;
    return Plan{.family = Family::rows,
                .layout = layout,
                .threads = shape.threads,
                .loads = shape.loads,
                .tiles = static_cast<int>(tiles),
                .segments = covered ? static_cast<int>(segments) : 0};
  };
  const auto a_warp_each = [&](int u) {
    Plan warps = plan({kWarpThreads, u}, 1, 1);
    warps.width = kWarpSize;
    return warps;
  };
  const bool every_shape = layout == Layout::aligned || layout == Layout::shifted;
  const bool many = p.outputs >= 2 * multiprocessors - 2 * multiprocessors / 16;      // a block each fills the GPU
  const bool by_warps = many && p.outputs <= kMaxGridX * (kWarpThreads / kWarpSize);  // a grid has no more blocks
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
  int tiles = choose_tiles(p, layout, loads, shape, multiprocessors);
  const auto blocks = [&] { return ceil_div(loads, int64_t{shape.threads} * shape.loads * tiles); };
  // Of many blocks the last one has nothing to add up: it takes what others publish while these still load. 2^29
  // float32 467.5 us instead of 468.7, 2^28 float64 467.9 and 471.2 (H200).
  if (p.outputs > 1 || blocks() < kMaxBlocks / 4) return plan(shape, tiles, blocks());
  if (blocks() == kMaxBlocks && tiles < kMaxTiles) tiles *= 2;
  return plan(shape, tiles, std::min<int64_t>(blocks() + 1, kMaxBlocks));
}

// ---- short rows

/// Family::rows if none of the others fits.
Family short_family(const Problem& p) {
  if (is_wide(p) || !is_run(p.reduced) || !has_one_pitch(p) || p.n < 2) return Family::rows;
  // Where neighbours in memory are none in the result, stores are what takes time, and columns are better at those: of
  // (2000, 5000, 3) float64 with its first dimensions exchanged 210 us, staged 277 (H200).
  if (p.kept.dims > 1 && p.n <= kMaxTinyRow) return Family::rows;
  const int64_t pitch = p.rows.stride[0];
  const int64_t group = 16 / p.element_size;
  // Rows of 7 would take 7 loads a lane: 36.5 us for (2^22, 7), staged 34.3 (H200).
  const bool tiny = p.n <= kMaxTinyRow && whole_rows(static_cast<int>(p.n), p.element_size).loads < 7;
  if (tiny && pitch == p.n && p.misalignment == 0 && p.result_aligned) return Family::tiny_rows;
  const bool whole = p.n % group == 0 && pitch % group == 0 && p.misalignment == 0;
  if (whole && p.n <= kWarpSize * group) return Family::small_rows;
  // What lies between rows is staged too, so little must.
  const bool dense = pitch >= p.n && pitch <= p.n + p.n / 4 && pitch * p.element_size <= kTileBytes / 2;
  return dense && !whole && p.n <= kMaxShortRow ? Family::staged_rows : Family::rows;
}

Plan plan_short_rows(const Problem& p, Family family, int multiprocessors) {
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
    const int64_t share = ceil_div(p.outputs, int64_t{2048 / kStagedThreads} * multiprocessors);
    plan.tiles = static_cast<int>(std::min(room, ceil_div(share, at_once) * at_once));
  }
  return plan;
}

// ---- columns

/// Whether columns may have so many segments: no more than `most`, or than there are slots for.
bool fit(const Problem& p, int64_t segments, int64_t most) {
  return segments == 1 || segments <= std::min(most, max_slots(p.accumulate_size) / p.outputs);
}

constexpr int kChunk = 16;  // columns

/// Whether lanes that take neighbours in memory store apart, and column_order.h has room for a dimension more.
bool can_take_chunks(const Problem& p) { return p.places.dims > 1 && p.places.dims < kMaxDims; }

/// The dimension of `columns` in which neighbours are closest in the result.
int nearest_in_result(const Problem& p) {
  const Strides& places = p.places;
  return static_cast<int>(std::min_element(places.stride, places.stride + places.dims) - places.stride);
}

/// Plan::chunk, where columns are one segment.
///
/// Of few rows the stores are what takes time, and lanes that store each to a sector of its own: sums of (8000, 3000,
/// 2) float32 over dimension 2, held reversed, take 410 us in the order of memory, 77 in chunks; (95631, 90, 2) 203,
/// and 67, 71, 128 and 129 in chunks of 8, 16, 32 and 64. Of many rows short loads cost more, (1000, 1000, 100) 91 and
/// 170 us, unless so many columns come between neighbours of the result that their sector leaves L2 before it is whole
/// (H200).
int chunk_of(const Problem& p) {
  if (!can_take_chunks(p) || p.columns.size[0].value < 2 * kChunk) return 0;
  const int next = nearest_in_result(p);
  if (next == 0) return 0;  // neighbours in memory are neighbours in the result
  return p.n <= kFewRows || count(p.columns, 0, next) > 1 << 15 ? kChunk : 0;
}

/// The same of few rows, where a thread may take neighbours that begin anywhere: of (2, 303031, 33) float16 over
/// dimension 0, held reversed, sums take 57 us, and where a thread takes one column 153; of (2, 322581, 31) 38 and 200,
/// or 114 in chunks of single columns. So shorter runs are worth a chunk, too: of two bytes all, others where few
/// columns are taken twice, which is the dearer the more rows they have ((8, 73529, 17) float32 21 us, by chunks 33).
/// And so are runs that are as long as what a thread takes, if they are runs of the result, too: of (1484, 1093, 2, 8)
/// bfloat16 over dimension 2, held (2, 1093, 1484, 8), 89 us, in the order of memory 230 (H100).
int chunk_of_few_rows(const Problem& p, int vector) {
  const int chunk = chunk_of(p);
  if (chunk > 0 || !can_take_chunks(p) || p.columns.stride[0] != 1 || p.n > kFewRows) return chunk;
  const int64_t run = p.columns.size[0].value;
  if (nearest_in_result(p) == 0) return run == vector && run * p.element_size == 16 ? vector : 0;
  if (vector > 1) return 0;
  if (p.element_size == 2) return run >= kChunk ? kChunk : run >= kChunk / 2 ? kChunk / 2 : 0;
  return run >= 26 && p.n * p.element_size <= 32 ? kChunk : 0;
}

/// Family::few_rows, or none if that does not fit. vector: columns a thread could take.
std::optional<Plan> plan_few_rows(const Problem& p, int vector) {
  // One column a thread, in parts, wins for little data: (32, 16384) float32 takes 2.27 us, as columns 2.51; (8, 4096)
  // 1.57, four columns a thread 1.68, but (4, 4096) 1.55 and 1.54 (H200).
  const bool little = p.n * p.outputs <= int64_t{1} << 19;
  const bool permuted = p.places.dims > 1;
  const bool one_stride = p.reduced.dims == 1;
  if (is_wide(p) || (!one_stride && p.n > kFewRows)) return std::nullopt;
  Plan plan{.family = Family::few_rows,
            .vector = 1,
            .loads = kFewRows,
            .tiles = 1,
            .chunk = chunk_of_few_rows(p, vector),
            .segments = 1};
  if (plan.chunk > 0 && vector == 1 && p.columns.stride[0] == 1) {
    vector = column_vector(p.element_size);
    plan.anywhere = vector > 1;
  }
  const int64_t most = little && !permuted && one_stride ? kFewRows / 2 : kFewRows;
  if (p.n <= most && (vector == 1 || permuted || p.result_aligned)) {
    plan.threads = 256;
    plan.width = kWarpSize;
    plan.vector = vector;
    if (vector > 1 || permuted) plan.loads = static_cast<int>(std::max<int64_t>(2, ceil_power(p.n)));
    return plan;
  }
  const int64_t parts = ceil_power(ceil_div(p.n, kFewRows));
  const bool side_by_side = p.columns.stride[0] == 1 && !permuted;
  if (parts > kMaxFewRowsParts || !little || !side_by_side || !one_stride) return std::nullopt;
  plan.threads = 64;
  plan.width = static_cast<int>(kWarpSize / parts);
  return plan;
}

/// Whether threads can load `vector` neighbouring columns at once.
bool fits_vector(const Problem& p, int vector) {
  return p.columns.stride[0] == 1 && p.columns.size[0].value % vector == 0 && strides_divide(p.columns, 1, vector) &&
         strides_divide(p.reduced, 0, vector) && p.misalignment % (vector * p.element_size) == 0;
}

/// Threads side by side for so many columns, one a thread: 32, or fewer where that leaves a fifth fewer idle. Of up to
/// 64 columns 16 or 8, and no more than 16 for up to 32, since one block alone could not fold their segments soon; of
/// more equal pieces: (516223, 65) takes 38.4 us in three pieces of 22, 57.8 in nine of 8, which share sectors (H200).
int single_width(int64_t columns) {
  const auto idle_less = [&](int64_t narrower, int64_t width) {
    return 5 * ceil_div(columns, narrower) * narrower < 4 * ceil_div(columns, width) * width;
  };
  if (columns > 64) {
    const auto piece = static_cast<int>(ceil_div(columns, ceil_div(columns, 32)));
    return idle_less(piece, 32) ? piece : 32;
  }
  int width = columns <= 32 ? 16 : 32;
  for (const int narrower : {16, 8}) {
    if (idle_less(narrower, width)) width = narrower;
  }
  return width;
}

/// Whether rows begin where a line does, or all as far behind that.
bool are_lines(const Problem& p) { return std::abs(p.reduced.stride[0]) * p.element_size % kLineBytes == 0; }

/// How many columns lie side by side, whether or not their sums do: (57749, 2, 230) float64 over dimension 0, held
/// (57749, 230, 2), takes 66 us (H200), and took 264 (H100) in blocks for the two columns whose sums do. In chunks only
/// those of the innermost dimension are taken together. 3205 random layouts that have other plans for it are 1.20 times
/// as fast in the geometric mean, and none is under half of torch.sum's speed, as 13 were (H200).
int64_t side_by_side(const Problem& p) {
  if (p.columns.stride[0] != 1) return p.outputs;
  return (chunk_of(p) > 0 ? p.columns : p.rows).size[0].value;
}

/// Columns in groups of `vector` neighbours, one group a thread.
struct Groups {
  const Problem& p;
  int vector;
  int multiprocessors;
  int rows;               // a thread loads
  bool anywhere = false;  // Plan::anywhere: none has neighbours of two runs
  int64_t count = anywhere ? p.outputs / p.columns.size[0].value * ceil_div(p.columns.size[0].value, vector)
                           : ceil_div(p.outputs, vector);
  int64_t run = ceil_div(anywhere ? p.columns.size[0].value : side_by_side(p), vector);  // that lie side by side
  int64_t most_parts = ceil_power(ceil_div(p.n, rows));                                  // with rows
  int64_t most_tiles = most_tiles_of(256);

  /// As many as the counters of a block of so many threads have room for.
  int64_t most_tiles_of(int threads) const {
    return int64_t{1} << (std::min(kMaxCounterLevels, kCounterBytes / (threads * vector * p.accumulate_size)) - 1);
  }

  /// Of a block of so many threads.
  int64_t parts(int64_t threads, int64_t width) const {
    return std::min<int64_t>(std::bit_floor(static_cast<uint64_t>(threads / width)), most_parts);
  }

  Plan plan(int64_t width, int64_t parts, int64_t tiles, int64_t segments) const {
    return {.family = Family::columns,
            .threads = static_cast<int>(width * parts),
            .width = static_cast<int>(width),
            .vector = vector,
            .loads = rows,
            .tiles = static_cast<int>(tiles),
            .chunk = segments == 1 ? chunk_of(p) : 0,
            .anywhere = anywhere,
            .segments = static_cast<int>(segments)};
  }
};

/// Blocks of a plan of columns.
int64_t column_blocks(const Problem& p, const Plan& plan) {
  return ceil_div(ceil_div(p.outputs, plan.vector), plan.width) * plan.segments;
}

/// Rows that a thread loads unless it is known that more are better.
int column_rows(const Problem& p, int vector) {
  return p.reduced.dims > 1 ? strides_rows(vector, p.element_size) : kColumnRows;
}

/// One wave of blocks that take the registers of a multiprocessor each, or none where that is no gain.
///
/// More is in flight than where smaller blocks share a multiprocessor, fewer segments are to be folded, and the blocks
/// of the next sum find no room before these end but can have L2 load at once: (4096, 4096) over dimension 0 takes 16.1
/// us in 128 blocks of 8 x 64 threads, 17.3 in 128 of 8 x 32; (1000, 12288) 13.0 in 128 of 24 x 16, 15.7 in 384 of 8 x
/// 32; (16384, 4096) float16 34.8 in 128 of 16 x 32, 42.3 in 128 of 4 x 64 (H200).
///
/// The numbers are fitted to 8000 launches for 700 shapes of three dtypes. Of 900 other shapes nearly the same rules
/// took a third, 5 % faster in float16 and float32 and 8 % in float64 (geometric means), one in eight slower, by 14 %
/// at most (H200).
std::optional<Plan> plan_wave(const Groups& g) {
  const Problem& p = g.p;
  const bool single = g.vector == 1;
  if (p.reduced.dims > 1 || chunk_of(p) > 0) return std::nullopt;
  // Single columns if a block has whole rows, whose ends share sectors, in L1: (2^20, 33) takes 37.5 us in 128 blocks
  // of 33 x 16 threads, 40.7 in 384 of 16 x 16; but (4096, 4095) 20.0 in any (H200).
  const bool whole_rows = g.count <= 64 && g.run == g.count && p.columns.stride[0] == 1;
  const bool measured = p.element_size >= 2 && p.element_size <= 8;
  if (single ? !whole_rows || !measured : g.vector * p.element_size < 16) return std::nullopt;
  const int most_threads = single ? kSingleWaveThreads : kWaveThreads;
  const int64_t places = g.multiprocessors;

  // Little data, loaded at once: (2048, 1024) takes 4.6 us in 64 blocks of 4 x 128 threads, 5.2 in 256 in segments; but
  // (2000, 260), 17 blocks, 4.1 and 3.8, (1100, 2000), where half of the parts have no rows, 5.7 and 5.5 (H200).
  if (!single && g.most_parts >= 16 && g.most_parts <= 128) {
    const int64_t width = most_threads / g.most_parts;
    const int64_t blocks = ceil_div(g.count, width);
    const bool have_rows = 16 * p.n >= 9 * g.rows * g.most_parts;
    if (have_rows && 20 * blocks >= 9 * places && blocks <= places) return g.plan(width, g.most_parts, 1, 1);
  }

  // Of much data the plan that takes the fewest bytes: those of the input; of sectors that neighbouring blocks share,
  // if rows begin in the middle of a line; those for which too few are in flight; and what could be read while a last
  // block folds the others' sums. Other plans are better than one that takes many.
  if (waves_of(p, g.multiprocessors) < 2) return std::nullopt;
  const double bytes = bytes_of(p);
  const bool lines = !single && are_lines(p);
  const int64_t least_width = lines || g.run <= 64 ? 8 : 16;
  const int64_t most_tiles = g.most_tiles_of(most_threads);
  const int64_t most_segments_a_part = std::min<int64_t>(16, most_tiles - 1);  // whose counters have room too
  double least = (single ? 2 : lines ? 1.15 : 1.3) * bytes;
  std::optional<Plan> best;
  const auto consider = [&](int64_t side_by_side) {
    const int64_t width = lines ? ceil_div(side_by_side, 8) * 8 : side_by_side;
    const int64_t across = ceil_div(g.count, width);
    if (width < least_width || width > most_threads || across > places) return;
    const int64_t parts = g.parts(most_threads, width);
    const int64_t tiles = ceil_power(ceil_div(p.n, g.rows * parts * (places / across)));
    const int64_t rows = g.rows * parts * tiles;  // of a segment
    const int64_t segments = ceil_div(p.n, rows);
    if (tiles > most_tiles || !fit(p, segments, most_segments_a_part * parts)) return;
    // Places that stay free cost least where otherwise most sectors would be shared: (335545, 100) takes 37.5 us in 82
    // blocks of 16 x 32 threads, 46.7 in 164 of 7 x 32 (H200).
    const double least_busy = lines ? 0.85 : !single && 2 * width >= g.count ? 0.45 : 0.8;
    const double loads = static_cast<double>(p.n) * static_cast<double>(g.count);
    const double busy = loads / static_cast<double>(std::min(p.n, rows) * width * places);
    if (busy < least_busy || 12 * width * parts < 7 * most_threads) return;
    const double shared = (lines ? 0.3 : 2) / static_cast<double>(width);
    const double idle = 1 - static_cast<double>(width * parts) / most_threads;
    const int64_t slots = segments * width * g.vector * p.accumulate_size / 4;
    const double fold = segments > 1 ? 4e6 + 1600 * static_cast<double>(slots) : 0;
    const double cost = bytes * (1 + shared) * (1 + idle / 10) + fold;
    if (cost >= least) return;
    least = cost;
    best = g.plan(width, parts, tiles, segments);
  };
  if (single) {
    consider(g.count);
    return best;
  }
  for (int64_t width = 8; width <= 64; width += 8) consider(width);
  for (int64_t pieces = 1; pieces <= 6; ++pieces) consider(ceil_div(g.run, pieces));
  consider(ceil_div(g.count, places));
  return best;
}

/// Whether rows are near each other, and no more than a part of a narrow block loads in four turns.
bool are_near(const Groups& g) {
  const int64_t pitch = std::abs(g.p.reduced.stride[0]) * g.p.element_size;
  return g.p.element_size >= 4 && g.p.n > 512 && g.p.n <= 2048 && pitch <= 16 << 10 && g.run % 8 == 0;
}

/// Of many columns of not too many rows the fewest parts with which all multiprocessors have work, down to one, or none
/// where that is no gain. A thread then walks down its columns: no part waits for others, or has no rows, and what a
/// thread does once, most of 950 instructions for 8 rows, is for more of them. 46 rows in eight parts, of which six
/// have rows, have warps wait for barriers half of their time.
///
/// 13,654 layouts are 1.19 times as fast in the geometric mean, one in a hundred more than 10 % slower; 23 were under
/// half of torch.sum's speed, now none. In graphs 787 are 1.26 times as fast: (4, 46, 173952) int8 over dimension 1
/// takes 12.2 us instead of 18.6, (2, 3, 106, 24176) float64 over 0 and 2 33.7 instead of 51.3. But float32 of one
/// stride in one part is as fast as before (1.02), one in eight more than 5 % slower; and more rows want more parts
/// (H200).
std::optional<Plan> plan_few_parts(const Groups& g) {
  constexpr int kThreads = 128;
  const double blocks = static_cast<double>(g.count) / (kThreads * g.multiprocessors);  // of one part, for each of them
  const int64_t most_rows = blocks < 2 ? 256 : 512;
  if (blocks < 0.6 || g.p.n > most_rows) return std::nullopt;
  if (blocks >= 2 && g.p.element_size == 4 && g.p.reduced.dims == 1) return std::nullopt;
  const int64_t width = blocks < 1.4 ? kThreads / 4 : blocks < 2 ? kThreads / 2 : kThreads;
  const int64_t parts = g.parts(kThreads, width);
  return g.plan(width, parts, ceil_power(ceil_div(g.p.n, g.rows * parts)), 1);
}

/// Blocks that need no partner, or none if these would leave multiprocessors idle or too many threads without rows.
///
/// Where there are enough columns and no wave, nothing is faster: (4096, 4096) over dimension 0 took 17.4 us in 128
/// blocks of 8 x 32 threads, 18.0 in 256 of them in two segments; but (4097, 4096), while parts folded two at a time,
/// 21.5 and in five segments 19.0. A block takes as long as a load whether all of its threads have one or not: (64,
/// 300, 4096) over dimension 1 takes 115 us in blocks of 8 x 32 threads that load once, 19 of 32 parts having rows, and
/// 70 in blocks of 16 x 8, whose parts load up to four times. A wave and a little more takes as long as two, longer
/// where rows begin in the middle of a line, so that narrow blocks share lines: (6711, 5000) 45 us in 313 blocks of 4 x
/// 64, 35 in segments of 16 x 16, 20 x 8 or 32 x 8 (H200).
std::optional<Plan> plan_alone(const Groups& g) {
  if (g.vector == 1) return std::nullopt;
  if (const auto few = plan_few_parts(g)) return few;
  const int64_t n = g.p.n;
  // Columns of one byte want wide blocks and many: (8, 4096, 4096) over dimension 1 takes 38 us in blocks of 32 x 8
  // threads, 43 in 16 x 16; (4096, 8192) over dimension 0 13.9 in 256 blocks of 8 x 32, 17.8 in 128 of 16 x 16. Those
  // of float32 narrow ones where rows are near and a part loads no more than four times: (16, 2048, 4096) 117.4 us in 8
  // x 32, 118.4 in 16 x 16; but (8, 4096, 4096) 119.3 and 118.6, (2048, 65536) over dimension 0 123.5 and 120.4 (H200).
  const bool bytes = g.vector * g.p.element_size < 16;
  const bool short_run = g.run < 32;
  const int64_t first = short_run ? g.run : bytes ? 32 : are_near(g) ? 8 : 16;
  for (const int64_t width : {first, short_run ? g.run : 16, short_run ? g.run : 8, int64_t{4}}) {
    const int64_t parts = g.parts(256, width);
    if (width * parts < 128) break;
    const int64_t blocks = ceil_div(g.count, width);
    const int64_t tiles = ceil_power(ceil_div(n, g.rows * parts));
    const bool full = 4 * n >= 3 * tiles * g.rows * parts;
    const bool one_load = tiles == 1 && blocks * width * parts <= int64_t{512} * g.multiprocessors;  // of the GPU
    const int64_t places = int64_t{g.multiprocessors} * (bytes && !short_run && width >= 16 ? 2 : 1);
    const bool as_wide_as_lines = are_lines(g.p) || width * g.vector * g.p.element_size >= kLineBytes;
    const bool busy =
        blocks <= places ? 4 * blocks >= 3 * places : as_wide_as_lines && occupancy(blocks, places) >= 0.9;
    if ((full || one_load) && tiles <= g.most_tiles && busy) {
      return g.plan(width, parts, tiles, 1);
    }
  }
  // Nor is there a gain in partners for few columns whose rows a block loads at once: (1024, 64) 3.4 us, 3.5 in
  // segments, while parts folded two at a time; (512, 3072) 3.9 and 4.5, but (344, 4708) 6.8 and 5.3.
  const bool few = g.count <= int64_t{8} * g.multiprocessors;
  if (few && g.run >= 4 && n > 16 * g.rows && n <= 64 * g.rows) return g.plan(4, 64, 1, 1);
  return std::nullopt;
}

/// Many small blocks, in as many segments as it takes.
Plan plan_segments(const Groups& g) {
  const Problem& p = g.p;
  const bool single = g.vector == 1;
  // Wider blocks where there are enough columns: (8192, 1024) takes 11.4 us with blocks of 8 x 16, 11.7 with 16 x 8;
  // (16384, 3072) 49.1 and 48.3. Short runs in equal pieces, for a block of a whole run has few parts, which can fold
  // few segments: (6936, 240) bfloat16, 30 groups, 6.8 us in pieces of 8, 12.3 in one; (699051, 48), 12 groups, 38.9 in
  // pieces of 6, 57.8 in one. In a batch there are more blocks.
  const bool many = g.count >= 512;
  int64_t width = many ? 16 : 8;
  if (single) {
    width = single_width(p.outputs);
  } else if (g.run < 32 && g.run % 8 != 0) {
    width = g.run <= 16 && g.run < g.count ? g.run : ceil_div(g.run, ceil_div(g.run, 8));
  }
  // Half of the segments that the last block could load at once. Blocks of 256 threads where 128 would make more of
  // them: (8192, 1024) bfloat16 8.3 us in 16 segments, 9.2 in 32; (32768, 256) 9.9 and 11.6; or where they load all at
  // once, as many as the GPU holds: (171, 3072) 2.5 us without partners, 3.2 in two segments (H200).
  const auto at_once = [&](int64_t parts) { return parts * std::max(1, 32 / (g.vector * p.accumulate_size)); };
  const int64_t half = g.parts(128, width);
  const bool soon = ceil_div(p.n, g.rows * half) <= at_once(half);
  const bool one_load =
      p.n <= g.rows * g.parts(256, width) && ceil_div(g.count, width) <= int64_t{2} * g.multiprocessors;
  const bool small_blocks = many ? g.run >= 32 || soon : g.run > 16 && soon;
  const int64_t threads = !single && small_blocks && !one_load ? 128 : 256;
  const int64_t parts = g.parts(threads, width);
  if (width * parts < 128) width = std::min<int64_t>(128 / parts, ceil_div(g.count, kWarpSize) * kWarpSize);
  const int64_t blocks = ceil_div(g.count, width);
  const int64_t batches = ceil_div(p.n, g.rows * parts);  // of the whole column

  // Two full waves or, if that is too many, as much of one as there is; single columns, whose blocks keep less in
  // flight, two blocks a multiprocessor, or more where that is less than 64 bytes a thread. But no more segments than
  // the last block can fold soon (39 us instead of 28 for (401408, 64), with 392 instead of 98), or than there are
  // slots for.
  const int64_t wave = 512 / threads * g.multiprocessors;
  const int more = std::clamp(64 / (g.rows * p.element_size), 1, 3);
  int64_t tiles = 1;
  const auto segments = [&] { return ceil_div(batches, tiles); };
  const auto fewer_are_better = [&] {
    // What a last segment of a few rows takes does not count: (8195, 4095) 36.9 us in three segments, in two, of which
    // one has three rows, 50.6 (H200).
    if (single) return static_cast<double>(blocks * batches) / static_cast<double>(2 * tiles) >= 0.95 * wave * more;
    const int64_t now = blocks * segments(), then = blocks * ceil_div(batches, 2 * tiles);
    return then >= 2 * wave || occupancy(then, wave) >= occupancy(now, wave);
  };
  while (tiles < g.most_tiles && segments() > 1 && fewer_are_better()) tiles *= 2;
  const bool fill_gpu = blocks * at_once(parts) >= g.multiprocessors;
  const int64_t most = single ? 16 * parts : !many && fill_gpu ? at_once(parts) : 4 * parts;
  while (tiles < g.most_tiles && !fit(p, segments(), most)) tiles *= 2;
  const bool covered = fit(p, segments(), std::min<int64_t>(kMaxSegmentsAPart * parts, kMaxGridY));
  return g.plan(width, parts, tiles, covered ? segments() : 0);
}

/// Whether a plan of plan_alone is better than a wave: narrow blocks of near rows, whose parts all load as often, where
/// there is much data, for these can prefetch. (32, 1024, 4096) over dimension 1 takes 117.9 us in 8 x 32, 120.0 in a
/// wave, (16, 2048, 4096) 117.7 and 119.2, (64, 2048, 512) 59.8 and 60.3; but (4, 2048, 4096) 31.8 and 31.5, and (16,
/// 1500, 4096), whose last parts have no rows, 95.7 and 88.4 (H200).
bool is_better_than_wave(const Groups& g, const Plan& alone) {
  const int64_t rows = int64_t{alone.threads / alone.width} * alone.loads * alone.tiles;
  return !g.anywhere && are_near(g) && g.p.element_size == 4 && alone.width == 8 && rows == g.p.n &&
         waves_of(g.p, g.multiprocessors) >= kManyWaves;
}

Plan plan_groups(const Groups& g) {
  const auto alone = plan_alone(g);
  if (alone && is_better_than_wave(g, *alone)) return *alone;
  if (const auto wave = plan_wave(g)) return *wave;
  return alone ? *alone : plan_segments(g);
}

/// Many single columns side by side in blocks of 64 x 4 threads or 128 x 2, which share fewer sectors than narrow ones:
/// the wide ones unless that makes a short last wave. None if columns are few, as blocks of 32 would be less than five
/// a multiprocessor, if neighbours are not taken side by side, or where half of the parts have no rows. Of 28 shapes
/// with odd numbers of columns and 70 rows at least 8 % less time than in blocks of 32 x 8 for float32, 10 % for
/// float16 (geometric means), and 6 % more at most: (8, 2048, 4095) 65 us and 70, (7, 158, 31981) float16 27 and 39
/// (H200).
std::optional<Plan> plan_wide(const Groups& g) {
  constexpr int kThreads = 256;
  const bool many = g.p.columns.stride[0] == 1 && g.run >= 192 && g.count >= int64_t{5} * 32 * g.multiprocessors;
  if (!many || g.p.n < 70 || chunk_of(g.p) > 0 || waves_of(g.p, g.multiprocessors) < 0.5) return std::nullopt;
  const int64_t places = int64_t{3} * g.multiprocessors;  // of 66 registers a thread, 72 with what is rounded up
  const auto cost = [&](int64_t width) {
    const double shared = 2. * kSectorBytes / static_cast<double>(width * g.p.element_size);
    return (1 + shared) / occupancy(ceil_div(g.count, width), places);
  };
  const int64_t width = 2 * 128 <= g.run && cost(128) < cost(64) ? 128 : 64;
  const int64_t parts = g.parts(kThreads, width);
  const int64_t tiles = ceil_power(ceil_div(g.p.n, g.rows * parts));
  if (tiles > g.most_tiles || 9 * g.p.n < 5 * g.rows * parts * tiles) return std::nullopt;
  return g.plan(width, parts, tiles, 1);
}

/// Single columns with as many rows in flight as a thread has registers for, or none where that is no gain.
///
/// A multiprocessor then holds three blocks of 256 threads instead of four, and those that have one more than others
/// take longer: (94641, 909) takes 108 us in 348 blocks that load 32 rows at once, 86 with 16. But up to two for each,
/// or many, gain, in the geometric mean of 44 such shapes 6 % for float32 and 11 % for float16, and lost 3 % at most:
/// (2^20, 31) 32.9 and 34.8 us, float16 22.0 and 26.1, (5522884, 11) 69 and 91 (H200).
std::optional<Plan> plan_more_rows(const Problem& p, int vector, int multiprocessors) {
  const Groups g{p, vector, multiprocessors, most_column_rows(vector, p.element_size)};
  if (p.reduced.dims > 1 || g.rows == kColumnRows) return std::nullopt;
  if (const auto wide = plan_wide(g)) return wide;
  const Plan plan = plan_groups(g);
  const int64_t blocks = column_blocks(p, plan);
  const bool balanced = blocks <= int64_t{2} * multiprocessors || blocks >= int64_t{5} * multiprocessors;
  if (plan.segments == 0 || plan.tiles == 1 || !balanced) return std::nullopt;
  return plan;
}

/// Parts of a block of neighbours that begin anywhere with which these are still a gain. Blocks of more are narrow, and
/// share many sectors: of 1321 layouts with more parts sums take as long, one in five 10 % longer (H200).
int most_parts_anywhere(const Problem& p, const Plan& plan, bool many_blocks) {
  const bool one_stride = p.reduced.dims == 1;
  if (plan.segments > 1) return one_stride ? 16 : 32;
  if (plan.threads > 256) return p.element_size == 4 ? 8 : 32;
  const bool long_walks = plan.tiles >= 16 && many_blocks;
  return !one_stride || long_walks ? 16 : p.element_size == 4 ? 4 : 8;
}

/// Neighbours that begin anywhere, of columns that are no multiple of 16 bytes, or none where that is no gain: a thread
/// then has 16 bytes of each row in flight, where it takes one column 2.
///
/// 9339 random layouts are 1.145 times as fast in the geometric mean, those of two bytes in rows of several dimensions
/// 1.2 to 1.5 times, one in 26 more than 10 % slower; 117 were under half of torch.sum's speed, now 8; in graphs 1033
/// matrices and batches of them 1.14 times. Little data is slower (0.86), so are short runs in several segments (0.7),
/// and 4 and 8 bytes there (0.88 and 0.97); no gain are integers (1.01), and 8 bytes in rows of several dimensions
/// (H200).
std::optional<Plan> plan_anywhere(const Problem& p, int multiprocessors) {
  const bool one_stride = p.reduced.dims == 1;
  const int64_t run = p.columns.size[0].value;
  const double waves = waves_of(p, multiprocessors);
  if (!p.ordered || is_wide(p) || p.columns.stride[0] != 1) return std::nullopt;
  if (p.element_size > (one_stride ? 8 : 4) || p.outputs >= int64_t{1} << 30) return std::nullopt;
  if (run < 64 || waves < (one_stride ? 2 : 0.3)) return std::nullopt;
  const Groups g{p, column_vector(p.element_size), multiprocessors, anywhere_rows(p.element_size, p.reduced.dims),
                 /*anywhere=*/true};
  const Plan plan = plan_groups(g);
  if (plan.segments == 0) return std::nullopt;
  const int64_t blocks = column_blocks(p, plan);
  const bool many_blocks = blocks >= int64_t{2} * multiprocessors;
  if (plan.threads > most_parts_anywhere(p, plan, many_blocks) * plan.width) return std::nullopt;
  if (plan.segments == 1) return plan;
  const bool long_runs = p.element_size == 2 && static_cast<double>(run) * waves >= 2000;
  const bool busy = 4 * blocks >= int64_t{3} * multiprocessors;
  const bool have_slots = plan.segments <= max_slots(p.accumulate_size) / (g.count * g.vector);
  return long_runs && busy && have_slots ? std::optional(plan) : std::nullopt;
}

/// vector: columns a thread.
Plan plan_columns(const Problem& p, int vector, int multiprocessors) {
  if (const auto few = plan_few_rows(p, vector)) return *few;
  if (vector == 1) {
    if (const auto anywhere = plan_anywhere(p, multiprocessors)) return *anywhere;
  }
  if (const auto more = plan_more_rows(p, vector, multiprocessors)) return *more;
  return plan_groups(Groups{p, vector, multiprocessors, column_rows(p, vector)});
}

// ---- narrow columns

/// Rows that a warp of sum_narrow_columns loads at once.
int64_t narrow_chunk(int columns, int element_size) {
  const NarrowItem item = narrow_item(columns, element_size);
  return int64_t{kWarpSize / item.lanes} * item.items * item.rows;
}

/// Whether sum_narrow_columns is for matrices of so many rows and columns that lie one after the other.
bool are_narrow(const Problem& p, int64_t columns, int64_t rows, int64_t matrices) {
  if (is_wide(p) || p.misalignment != 0 || !is_narrow(columns, p.element_size)) return false;
  if (matrices == 1) return rows >= 512;
  // In a batch most of a warp's chunk should be there: (10000, 200, 4) float32 takes 12.3 us by warps of 256 rows, as
  // columns 17.6; float16, whose warps load 512, 13.7 and 10.4 (H200).
  const int64_t chunk = narrow_chunk(static_cast<int>(columns), p.element_size);
  return rows >= std::clamp<int64_t>(chunk * 3 / 4, 128, 512) && matrices <= kMaxGridY &&
         rows * columns * p.element_size % 16 == 0;
}

/// Whether they are a few neighbours in rows without a gap, in one matrix or in several that follow each other.
bool are_narrow_columns(const Problem& p) {
  const int64_t columns = p.rows.size[0].value;
  if (p.rows.stride[0] != 1 || p.reduced.dims != 1 || p.reduced.stride[0] != columns) return false;
  if (p.rows.dims > 2 || (p.rows.dims == 2 && p.rows.stride[1] != p.n * columns)) return false;
  return are_narrow(p, columns, p.n, p.outputs / columns);
}

Plan plan_narrow_columns(const Problem& p, int multiprocessors) {
  const int columns = static_cast<int>(p.rows.size[0].value);
  const int64_t matrices = p.outputs / columns;
  const NarrowItem item = narrow_item(columns, p.element_size);
  const int64_t chunk = narrow_chunk(columns, p.element_size);
  // Small blocks where there are many, for their barriers then overlap: (500, 1500, 12) takes 11.5 us with 4 warps for
  // each matrix, 16.6 with 16 (H200).
  const int most_warps = matrices >= 2 * multiprocessors ? 4 : matrices >= multiprocessors ? 8 : kNarrowWarps;
  const auto warps = std::min<int64_t>(most_warps, ceil_power(ceil_div(p.n, chunk)));
  const int64_t chunks = ceil_div(p.n, warps * chunk);  // of a warp
  int64_t tiles = 1;
  const auto segments = [&] { return ceil_div(chunks, tiles); };
  const auto blocks = [&](int64_t t) { return matrices * ceil_div(chunks, t); };
  const auto fewer_do = [&] { return blocks(2 * tiles) >= 0.95 * multiprocessors; };
  while (tiles < kMaxNarrowBatches && segments() > 1 && fewer_do()) tiles *= 2;
  const bool large_and_cut = warps == kNarrowWarps && segments() > 1;
  const int room = narrow_blocks(columns, p.element_size);
  if (large_and_cut && room == 1) {
    // A wave and a little more takes as long as two: as few turns as the busiest multiprocessor can have, and of these
    // as few segments. (4390912, 8) float16 takes 25.4 us in 268 segments of 4 tiles, 29.2 in 134 of 8; 75 such sums of
    // float16 8 % less in the geometric mean than with at least 126 of them, and none longer. But not down to one tile
    // each, where it is the segments that take time: (1529173, 12) float16 17.4 us in 374 of one, 15.6 in 187 of two
    // (H200).
    const auto turns = [&](int64_t t) { return ceil_div(blocks(t), multiprocessors) * std::min(t, chunks); };
    int64_t best = std::min<int64_t>(2 * tiles, kMaxNarrowBatches);
    const int64_t least = std::min<int64_t>(tiles, 2);
    for (int64_t t = best / 2; t >= least && blocks(t) <= int64_t{4} * multiprocessors; t /= 2) {
      if (turns(t) < turns(best)) best = t;
    }
    tiles = best;
  } else if (large_and_cut && tiles > 1) {
    // Two blocks a multiprocessor rather than one, if that is not a wave and a little more; of little data only where
    // segments have little to fold. With the next kernel let in when all is loaded, (2^22, 8) float32 31.8 us instead
    // of 33.3 and, behind a kernel of others, 34.0 and 34.7, (5870080, 8) 44.6 and 49.0; but (73819750, 8), in 282
    // segments instead of 141, would take 77.9 instead of 74.1, (262144, 32), in 256 of two tiles, 13.2 instead of 12.5
    // (H200).
    const int64_t wave = int64_t{room} * multiprocessors;
    const int64_t halves = blocks(tiles / 2);
    const bool little_to_fold = columns <= 8 && p.accumulate_size == 4;
    if ((tiles >= 8 || little_to_fold) && (halves <= wave || 5 * halves >= 6 * wave)) tiles /= 2;
  }
  while (tiles < kMaxNarrowBatches && !fit(p, segments(), 512)) tiles *= 2;
  return {.family = Family::narrow_columns,
          .threads = static_cast<int>(warps) * kWarpSize,
          .width = columns,
          .loads = item.loads * item.items,
          .tiles = static_cast<int>(tiles),
          .segments = fit(p, segments(), kMaxSegmentsAPart * kNarrowWarps) ? static_cast<int>(segments()) : 0};
}

// ---- order across memory

/// Whether there are kernels for such an order other than those along lines.
bool have_tiles(const Problem& p) { return p.element_size > 1; }

/// Of each output: lines whose elements follow each other in the order, from dimension `dim` of `reduced` on.
struct Lines {
  int dim;
  int64_t length;
  int64_t count;
  bool beside;   // lines of other outputs lie between them
  double bytes;  // of neighbouring ones, side by side
};

/// Lines, of all outputs, that begin side by side in memory, if not closer than the smallest stride. 0 if they have too
/// many dimensions for a kernel.
int64_t lines_side_by_side(const Problem& p, int dim) {
  Strides lines;
  if (!lines_of_all(p, dim, lines)) return 0;
  const Strides in_memory = in_order_of_memory(lines);
  return in_memory.stride[0] == 0 ? 1 : in_memory.size[0].value;
}

/// Whether nothing lies between neighbouring lines.
bool lines_touch(const Strides& reduced, int dim) {
  return reduced.stride[dim] == (reduced.stride[0] == 1 ? reduced.size[0].value : 1);
}

/// Nothing if the order does not run across memory, or outputs are short.
std::optional<Lines> lines_across(const Problem& p) {
  const int closest = line_dim(p.reduced, kSectorBytes / p.element_size);
  if (closest == 0 || !p.ordered || p.n < 4 * kMinWindow) return std::nullopt;
  if (!has_32_bit_offsets(p.reduced)) return std::nullopt;
  if (std::abs(p.reduced.stride[0]) == 2) return std::nullopt;  // half of every sector is used as it is
  // Outputs side by side are columns, unless they are fewer than a sector holds.
  const int64_t step = std::abs(p.reduced.stride[closest]);
  const int64_t beside_each_other = p.columns.size[0].value * std::abs(p.columns.stride[0]);
  const bool beside = p.columns.stride[0] != 0 && std::abs(p.columns.stride[0]) < step;
  if (beside && (step * p.element_size > kSectorBytes || beside_each_other > step)) return std::nullopt;

  // Lines that are long, as a lane goes on beyond the end, and that lie side by side, or sectors are not used in full:
  // (10, 96560, 40) float32, held reversed, takes 57 us by lines of 40 elements, 110 by ten long ones. But lanes of
  // tiles, which shorter ones need, take them in their own order: (8, 1000000, 9) float16 by eight long lines 74 us, by
  // tiles of lines 8 elements apart 262; (2, 5, 2, 479349, 7), of lines 2 apart, 192 and 111 (H200).
  Lines lines{};
  double best = 0;
  for (int dim = closest; dim > 0; --dim) {
    const int64_t length = count(p.reduced, 0, dim);
    const int64_t side_by_side = lines_side_by_side(p, dim);
    if (side_by_side == 0) continue;
    const auto bytes = static_cast<double>(side_by_side * p.element_size);
    const bool in_order = p.n >= kMinTiled && length < kMinWindow / 2 && !lines_touch(p.reduced, dim);
    const double of_sectors = in_order ? 1. / static_cast<double>(std::max<int64_t>(p.reduced.stride[dim], 1))
                                       : bytes / (bytes + 2 * kSectorBytes);
    const double used =
        of_sectors * static_cast<double>(length) / static_cast<double>(length + line_loads(p.element_size));
    if (used <= best) continue;
    best = used;
    lines = {dim, length, p.n / length, beside, bytes};
  }
  if (best == 0) return std::nullopt;
  return lines;
}

/// Threads of sum_lines that a GPU holds at once.
int64_t wave_of_lines(const Problem& p, int multiprocessors) {
  return int64_t{p.element_size <= 4 ? 768 : 512} * multiprocessors;
}

/// Family::lines, or none if there is no room for the nodes.
std::optional<Plan> plan_lines(const Problem& p, const Lines& lines, int multiprocessors) {
  const int loads = line_loads(p.element_size);
  const int64_t all_lines = p.outputs * lines.count;
  if (all_lines >= int64_t{1} << 31) return std::nullopt;
  const int64_t wave = wave_of_lines(p, multiprocessors);
  const auto threads = [&](int64_t a_thread) { return all_lines * ceil_div(lines.length, a_thread); };
  // Small windows, as a lane goes on to the end of the last one: a transposed (102147, 517) of float16 takes 53 us with
  // windows of 64, 65 with 128; but long lines of a full sum the next larger ones, for (4097, 4095) 20.7, with 32 22.1.
  // Of little data windows are what a lane loads at once, and a lane may have one alone, for it is how often it waits
  // that takes time: (194, 404) complex128 5.8 us, with one of 32 leaves 9.8, with two of these 12.5 (H200).
  const bool little = threads(2 * kMinWindow) < wave / 2;
  int64_t window = little ? loads : std::max(loads, kMinWindow);
  if (p.outputs == 1 && p.element_size <= 4 && lines.length >= 512 && p.n >= 1 << 22) window *= 2;
  while (window < loads << kLineLevels && !have_room(p, window)) window *= 2;
  if (!have_room(p, window)) return std::nullopt;

  // 256 elements a thread, fewer where that leaves places for threads free, and more where it makes little more than
  // one wave of them: a transposed (14, 153, 13374) of bfloat16 takes 60 us with 256, 1.1 waves, and 30 with 320
  // (H200).
  int64_t at_once = std::max<int64_t>(256, 4 * window);
  while (at_once > (little ? 1 : 2) * window && threads(at_once) < wave / 2) at_once -= window;
  if (threads(at_once) > wave && threads(2 * at_once) <= wave) {
    while (threads(at_once) > wave) at_once += window;
  }
  return Plan{.family = Family::lines,
              .threads = kLineThreads,
              .loads = loads,
              .tiles = static_cast<int>(at_once),
              .segments = 1,
              .line = lines.dim,
              .window = static_cast<int>(window)};
}

/// Plan::gap. Lanes that read from every sixteenth leaf on meet in few banks with a gap after 16 or after 32 leaves;
/// those that write to every length-th one do with one of them: a transposed (524288, 31) took 64 us where all meet in
/// one bank, 35 now (H200).
int tile_gap(int64_t length, int element_size) {
  const auto conflicts = [&](int gap) {
    int most = 0;
    int lanes[kWarpSize] = {};
    for (int64_t x = 0; x < kWarpSize * length; x += length) {
      most = std::max(most, ++lanes[(x + (x >> gap)) * element_size / 4 % kWarpSize]);
    }
    return most;
  };
  return conflicts(4) < conflicts(5) ? 4 : 5;
}

/// The least number from `least` on that is what `to` is modulo 16.
int64_t congruent(int64_t least, int64_t to) { return least + ((to - least) % 16 + 16) % 16; }

/// Plan::pitch, `least` at least: what the stride is modulo 16, and such that few of the lanes that each read from
/// every kPart-th leaf on meet in a bank, with what sum_staged_tiles has them begin with.
int staged_pitch(int64_t least, int64_t stride, int64_t length, int element_size) {
  constexpr int kPitches = kWarpSize * 4 / 16;  // after which banks repeat
  const int64_t first = congruent(least, stride);
  int in_bank[kPitches][kWarpSize] = {};
  int most[kPitches] = {};
  const int lanes = kWarpSize * 4 / std::max(element_size, 4);  // whose reads go together
  for (int lane = 0; lane < lanes; ++lane) {
    const int64_t leaf = lane * kPart + (length < kPart ? 0 : lane % kPart);
    const int64_t row = leaf % length;
    const int64_t at = row * first + leaf / length * element_size;
    for (int i = 0; i < kPitches; ++i) {
      most[i] = std::max(most[i], ++in_bank[i][(at + row * 16 * i) / 4 % kWarpSize]);
    }
  }
  return static_cast<int>(first + 16 * (std::min_element(most, most + kPitches) - most));
}

/// Family::staged_tiles instead of `plan`, if neighbouring lines lie in runs, and there is room for all that. (110728,
/// 119, 3) of bfloat16 held (110728, 3, 119) takes 48 us, element by element 133 (H200).
std::optional<Plan> stage(const Problem& p, const Lines& lines, Plan plan) {
  const Strides& r = p.reduced;
  const int64_t size = p.element_size;
  const int64_t turn = r.size[1].value;
  const int64_t run = std::min<int64_t>(turn, plan.tiles) * size;
  if (lines.dim != 1 || r.dims > 3 || r.stride[1] != 1 || run < kMinStagedRun) return std::nullopt;
  constexpr int kSpare = 15 + 15;  // bytes of the words that a run ends in and the next one begins in
  int64_t row = plan.tiles * size;
  if (r.dims == 3) {
    if (r.stride[2] < turn || turn * lines.length < kPart) return std::nullopt;
    plan.turn_gap = static_cast<int>(congruent(kSpare, (r.stride[2] - turn) * size));
    row += (turn + plan.tiles - 2) / turn * plan.turn_gap;
  }
  plan.family = Family::staged_tiles;
  plan.width = static_cast<int>(ceil_div(run + kSpare / 2, 16));
  plan.pitch = staged_pitch(row + kSpare, r.stride[0] * size, lines.length, p.element_size);
  const int64_t bytes = staged_bytes(lines.length, plan.pitch);
  const int64_t places = places_of_staged(plan.tiles, lines.length);
  if (places > 0 && bytes > 1 << 16) return std::nullopt;  // places have 16 bits
  if (bytes + places > kMaxTileBytes) return std::nullopt;
  // As many threads as copy most of a tile at once: (7284, 86, 5) held (7284, 5, 86) takes 9.5 us with 128
  // threads, 14.8 with 64 (H200).
  const int64_t words = plan.tiles * lines.length * size / 16;
  plan.threads = static_cast<int>(std::clamp<int64_t>(ceil_power(words / 8), plan.threads, kTileThreads));
  return plan;
}

/// Family::staged_tiles or Family::tiles, or none if lines are too long for shared memory, or for as few nodes as there
/// is room for.
std::optional<Plan> plan_tiles(const Problem& p, const Lines& lines, int multiprocessors) {
  // Tiles that give a thread some 50 elements, but are no larger than that takes, and smaller where there would be few:
  // (524288, 22), transposed, takes 25 us in tiles of 128 lines by 64 threads or of 256 by 128, 39 of 256 by 64; (7584,
  // 21) bfloat16 7 us in tiles of 64 lines by 256 threads, 19.8 of 256 by 64 (H200).
  if (!have_tiles(p) || p.n < kMinTiled) return std::nullopt;
  int64_t tile = kMinWindow;
  const auto window = [&] { return std::min<int64_t>(tile, kMaxTileWindow); };
  const auto is_small = [&] { return tile * lines.length * p.element_size < 7600; };
  const auto are_few = [&] { return p.outputs * ceil_div(lines.count, tile) < int64_t{4} * multiprocessors; };
  while (tile < lines.count && is_small() && !are_few()) tile *= 2;
  while (tile < std::max<int64_t>(lines.count, kMaxTileWindow) && !have_room(p, window())) tile *= 2;
  const int64_t at_once = std::min(tile, lines.count);
  const int64_t leaves = ceil_div(at_once * lines.length, window()) * window();
  if (!have_room(p, window()) || tile_bytes(leaves, p.element_size) > kMaxTileBytes) return std::nullopt;
  const int64_t threads = ceil_power(leaves / (are_few() ? 16 : 48));
  Plan plan{.family = Family::tiles,
            .threads = static_cast<int>(std::clamp<int64_t>(threads, 64, kTileThreads)),
            .tiles = static_cast<int>(at_once),
            .segments = 1,
            .line = lines.dim,
            .window = static_cast<int>(window())};
  if (const auto staged = stage(p, lines, plan)) return *staged;
  plan.gap = tile_gap(lines.length, p.element_size);
  return plan;
}

/// Rows of words that are a node each.
int64_t word_rows(int64_t length) { return std::min<int64_t>(length & -length, kWordLoads); }

/// Whether lines are of words that begin at multiples of 16 bytes, and of a length that Family::word_tiles or, if it is
/// odd, Family::odd_word_tiles is a gain for.
///
/// Of 1564 random layouts, channels_last and such, those of 13 to 1600 elements (of 4 and 8 bytes 1200) and up to 400
/// nodes are 1.23, 1.15 and 1.12 times as fast as by the other plans, of 2, 4 and 8 bytes, in the geometric mean, of 2
/// bytes and more than 64 MB 1.35, one in a hundred more than a tenth slower. Longer ones are not (1.1 to 0.8), nor
/// shorter ones (0.7). Outputs of fewer than 4096 elements, too little for a block, were not timed (H200).
bool are_words(const Problem& p) {
  const Strides& r = p.reduced;
  if (!have_tiles(p) || p.element_size > 8 || p.n < 4096) return false;
  if (r.dims < 2 || r.stride[1] != 1) return false;
  const int64_t length = r.size[0].value;
  const int64_t longest = p.element_size == 2 ? 1600 : 1200;
  if (length <= 12 || length > longest) return false;
  if (length % 2 == 0 ? length / word_rows(length) > 400 : p.element_size != kOddWordElement) return false;
  const int64_t columns = 16 / p.element_size;
  return p.misalignment == 0 && r.size[1].value % columns == 0 && r.stride[0] % columns == 0 &&
         strides_divide(r, 2, columns) && strides_divide(p.kept, 0, columns);
}

/// Family::word_tiles of lines of words of an even length, or none if there is no room for the nodes.
std::optional<Plan> plan_word_tiles(const Problem& p, const Lines& lines, int multiprocessors) {
  const int64_t rows = word_rows(lines.length);
  constexpr int kMaxRun = 512;              // bytes side by side
  constexpr int64_t kMaxShared = 48 << 10;  // of nodes: more would have to be asked for
  // Up to 128 KiB, as long as each multiprocessor has a tile: the fastest of eight sizes for each layout would be
  // another 3 % faster (H200).
  constexpr int64_t kMostBytes = 128 << 10;
  const auto fits = [&](int64_t tile) { return tile * lines.length / rows * p.accumulate_size <= kMaxShared; };
  const auto is_small = [&](int64_t tile) {
    return tile * lines.length * p.element_size <= kMostBytes &&
           p.outputs * ceil_div(lines.count, tile) >= multiprocessors;
  };
  int64_t tile = kPart;
  while (tile * p.element_size < kMaxRun && fits(2 * tile) && (is_small(2 * tile) || !have_room(p, tile * rows))) {
    tile *= 2;
  }
  if (!fits(tile) || !have_room(p, tile * rows)) return std::nullopt;
  const int64_t words = tile * lines.length * p.element_size / 16;
  return Plan{.family = Family::word_tiles,
              .threads = words > 128 * kWordLoads ? kTileThreads : 128,
              .loads = static_cast<int>(rows),
              .tiles = static_cast<int>(tile),
              .segments = 1,
              .line = lines.dim,
              .window = static_cast<int>(tile * rows)};
}

/// Family::odd_word_tiles of lines of words of an odd length, or none if there is no room for the nodes, or too little
/// for threads to do.
///
/// Fitted to 387 random layouts, channels_last and such, of 1 to 256 MiB, under up to ten plans each: 249 are
/// taken, 1.24 times as fast as before in the geometric mean, those of 16 MiB and more 1.34, four of them more than a
/// tenth slower; the fastest of the ten would be another 3 % faster (H200).
std::optional<Plan> plan_odd_word_tiles(const Problem& p, const Lines& lines, int multiprocessors) {
  // Of fewer side by side than a cache line holds, warps would leave most of what they read to each other: (120773, 2,
  // 8, 43) of bfloat16, eight side by side, 134 us, 0.44 of torch.sum's speed (H200).
  if (p.reduced.size[1].value * p.element_size < kLineBytes) return std::nullopt;
  constexpr int kWave = 3 * kTileThreads;  // of a multiprocessor
  constexpr int kLeast = 120;              // threads of a multiprocessor
  const int64_t columns = 16 / p.element_size;
  int64_t tile = kPart * columns;
  if (!have_room(p, tile)) tile *= 2;
  const int64_t words = p.outputs * lines.count / columns;
  // A thread has 8 rows or more, and 25 or more unless all threads are there at once: (256, 2048, 49) takes 17 us by a
  // thread for each word, 19 and 21 by two and four (H200).
  const auto may_share = [&](int64_t threads) {
    const int64_t rows = lines.length / threads;
    return rows >= 25 || (rows >= 8 && threads * words <= int64_t{kWave} * multiprocessors);
  };
  int64_t sharing = 1;
  while (sharing < kTileThreads * columns / tile && may_share(2 * sharing)) sharing *= 2;
  if (words * sharing < int64_t{kLeast} * multiprocessors) return std::nullopt;
  const auto threads = [&](int64_t of_lines) { return static_cast<int>(of_lines / columns * sharing); };
  const auto fits = [&](int64_t of_lines) {
    const int block = threads(of_lines);
    const int64_t nodes = of_lines / columns * lines.length + parts_begun(static_cast<int>(columns)) * block;
    return block <= kTileThreads && nodes * p.accumulate_size <= kCounterBytes;
  };
  // Large ones, unless they would be few, or more of the last ones would be empty.
  const auto is_better = [&](int64_t of_lines) {
    const int64_t tiles = ceil_div(lines.count, of_lines);
    return p.outputs * tiles >= int64_t{4} * multiprocessors && 20 * tiles * of_lines <= 21 * lines.count;
  };
  if (threads(tile) < kWarpSize || (tile == kPart * columns && fits(2 * tile) && is_better(2 * tile))) tile *= 2;
  if (!fits(tile) || 2 * lines.count < tile || !have_room(p, tile)) return std::nullopt;
  return Plan{.family = Family::odd_word_tiles,
              .threads = threads(tile),
              .tiles = static_cast<int>(tile),
              .segments = 1,
              .line = lines.dim,
              .window = static_cast<int>(tile)};
}

/// Family::word_tiles or odd_word_tiles, of lines of words, by tiles that are outputs, whose sums they are then, in one
/// launch. None if outputs are few, or much for a block.
///
/// Of 545 random layouts of 8 to 2048 outputs, channels_last images and such, 276 are like that and 1.24 times as fast
/// as in two launches or by rows in the geometric mean, three of them more than a tenth slower; fewer outputs are 0.9
/// to 1.0 times as fast, those of 64 to 128 KiB 1.05, larger ones 0.5 to 0.9. Up to 48 KiB 128 threads are better, 1.32
/// and 1.24 times as fast for 8 bytes an element (H200).
std::optional<Plan> plan_whole_tiles(const Problem& p, const Lines& lines, int multiprocessors) {
  constexpr int64_t kMostBytes = 64 << 10;
  constexpr int64_t kMostOfFewThreads = 48 << 10;
  const int64_t bytes = p.n * p.element_size;
  if (bytes > kMostBytes || 8 * p.outputs < multiprocessors || p.outputs > kMaxGridX) return std::nullopt;
  static_assert(kMostBytes / 2 / 2 <= kWarpSize * kMaxTileWindow);  // nodes of two elements, of two bytes each
  const int columns = 16 / p.element_size;
  const int64_t tile = std::max<int64_t>(kPart, ceil_power(lines.count));
  const int64_t words = tile / columns;
  int64_t threads = std::max<int64_t>(words, bytes <= kMostOfFewThreads ? kTileThreads / 2 : kTileThreads);
  const bool odd = lines.length % 2 != 0;
  while (odd && threads > words && threads / words * columns > lines.length) threads /= 2;
  if (threads > kTileThreads || threads < kWarpSize) return std::nullopt;
  return Plan{.family = odd ? Family::odd_word_tiles : Family::word_tiles,
              .threads = static_cast<int>(threads),
              .loads = odd ? 0 : static_cast<int>(word_rows(lines.length)),
              .tiles = static_cast<int>(tile),
              .segments = 1,
              .line = lines.dim};
}

/// Tiles of words, or none if lines are not of words, or there are no such plans for them.
std::optional<Plan> plan_words(const Problem& p, const Lines& lines, int multiprocessors) {
  if (!are_words(p) || lines.dim != 1) return std::nullopt;
  if (const auto whole = plan_whole_tiles(p, lines, multiprocessors)) return whole;
  return lines.length % 2 == 0 ? plan_word_tiles(p, lines, multiprocessors)
                               : plan_odd_word_tiles(p, lines, multiprocessors);
}

/// The longest lines that are better staged than walked along, if either can be. Of 7960 random layouts whose lines
/// have 25 to 500 elements the 4450 up to here are 1.08 times as fast in the geometric mean, the others 0.965 (H200).
int64_t longest_staged_line(const Problem& p, int multiprocessors) {
  if (p.reduced.dims > 2) return p.element_size >= 8 ? 150 : 72;  // lines turn
  if (waves_of(p, multiprocessors) >= kManyWaves) return 300;
  return p.element_size >= 4 ? 200 : 150;
}

/// The longest windows with which it is better to walk along lines than to take rows, if else_rows, or what there is
/// without, columns (or, where are_far_columns, rows too), all element by element; 0 where lines are too short. Of
/// random layouts that convert 21,306 are 2.21 times as fast for it in the geometric mean, 819 of them more than a
/// tenth slower; 1153 were under half of torch.sum's speed, now 2. With longer windows 95 are 0.70 times as fast as by
/// rows, 11 0.60 times as fast as by columns (H200).
int64_t longest_window_of_single(const Problem& p, const Lines& lines, bool else_rows) {
  if (else_rows) return lines.length >= (p.element_size == 8 ? 64 : 32) ? lines.length * 3 / 2 : 0;
  return lines.length >= (p.element_size == 4 ? 8 : 16) ? lines.length * 8 : 0;
}

/// The longest windows with which it is better to walk along lines than to take tiles or, where there are none, rows if
/// else_rows, and else columns or rows of columns that lie far apart.
int64_t longest_window(const Problem& p, const Lines& lines, const std::optional<Plan>& tiles, bool else_rows,
                       int multiprocessors) {
  constexpr auto kAny = int64_t{1} << 31;
  if (!have_tiles(p)) return longest_window_of_single(p, lines, else_rows);
  const bool is_long = lines.length >= (lines.beside ? 8 : kMinWindow);
  if (!tiles) return is_long ? kAny : 0;
  if (lines.beside) return is_long ? std::max<int64_t>(kMinWindow, lines.length) : 0;
  // Windows longer than half a line are loaded up to their ends three times.
  if (tiles->family == Family::staged_tiles) {
    return lines.length <= longest_staged_line(p, multiprocessors) ? 0 : lines.length / 2;
  }
  // Element by element (13, 37485, 86) of float64, held reversed, takes 654 us, along lines 170; but (6, 44981, 3, 80)
  // held (6, 80, 44981, 3), where lines lie side by side and windows are longer, 246 and 428. Where they do not, a
  // reversed (10, 96560, 69) of complex64 1139 us, along lines 332 (H200).
  if (lines.dim == 1) return (lines_touch(p.reduced, 1) ? 1 : 2) * lines.length;
  // Of lines in several dimensions tiles divide for each element: (198, 4690, 21, 4) held (4, 21, 198, 4690) 601 us,
  // along lines 182; (704, 845, 15, 8) of float16 held (704, 8, 15, 845) 619 and 130; (83, 16284, 6, 5) of bfloat16
  // held (6, 83, 16284, 5) 305 and 76 (H200).
  return is_long ? kAny : 2 * lines.length;
}

// ---- boxes

/// A box while its ranges are chosen, by dimension: those of an output, then those of outputs.
struct Draft {
  const Problem& p;
  int line;  // Plan::line
  int64_t window;
  int dims = 0;
  int order[kMaxBoxDims] = {};
  int64_t size[kMaxBoxDims] = {};
  int64_t stride[kMaxBoxDims] = {};
  int64_t range[kMaxBoxDims] = {};
  int apart[kMaxBoxDims] = {};  // 0: in the run with those within, where that is possible; else bytes between runs / 16

  Draft(const Problem& problem, int line_dims, int64_t leaves_of_node)
      : p(problem), line(line_dims), window(leaves_of_node) {
    const auto add = [this](const Strides& s) {
      for (int d = 0; d < s.dims; ++d, ++dims) {
        order[dims] = dims;
        size[dims] = s.size[d].value;
        stride[dims] = s.stride[d];
        range[dims] = dims < line ? size[dims] : 1;
      }
    };
    add(p.reduced);
    add(p.kept);
    std::stable_sort(order, order + dims, [this](int a, int b) { return distance(stride[a]) < distance(stride[b]); });
  }

  int64_t length() const { return count(p.reduced, 0, line); }
  int64_t halo() const {
    return range[line] == size[line] ? 0 : std::min(ceil_div(window - 1, length()), size[line] - range[line]);
  }
  int64_t sequences() const {
    int64_t sequences = 1;
    for (int d = line + 1; d < dims; ++d) sequences *= range[d];
    return sequences;
  }
  /// Leaves of a sequence, in whole windows.
  int64_t leaves() const { return ceil_div(range[line] * length(), window) * window; }
  /// Leaves that a warp folds at once.
  int64_t chunk() const {
    int64_t chunk = kWarpSize * most_box_loads(p.accumulate_size);
    for (int loads = 8; loads >= 4 && leaves() <= loads * kWarpSize; loads /= 2) chunk = loads * kWarpSize;
    return chunk;
  }
};

/// The box of a draft, or none if its indices are not nested in memory.
std::optional<Box> lay_out(const Draft& draft) {
  constexpr int64_t kMostBytes = 1 << 20;
  const int64_t size = draft.p.element_size;
  Box box;
  int64_t extent = 1;    // elements in memory
  int64_t bytes = size;  // in shared memory
  int64_t runs = 1;
  int64_t run = size;
  for (int i = 0; i < draft.dims; ++i) {
    const int d = draft.order[i];
    const int64_t stride = draft.stride[d];
    const int64_t copied = draft.range[d] + (d == draft.line ? draft.halo() : 0);
    box.order[i] = d;
    box.range[d] = static_cast<int>(draft.range[d]);
    if (copied == 1) {
      box.in_run[d] = true;
      continue;
    }
    if (stride < extent || extent + (copied - 1) * stride >= int64_t{1} << 31) return std::nullopt;
    const bool joined = runs == 1 && draft.apart[d] == 0 && (stride - extent) * size <= kSectorBytes;
    int64_t pitch = stride * size;
    if (!joined) {
      // The words of a run that ends and of the next one that begins anywhere in a word; of neighbours in memory these
      // are the same words.
      pitch = stride == extent ? bytes + 16 : congruent(bytes + 15 + 15, stride * size);
      pitch += 16 * std::max(draft.apart[d] - 1, 0);
      runs *= copied;
    }
    box.in_run[d] = joined;
    box.pitch[d] = static_cast<int>(pitch);
    extent += (copied - 1) * stride;
    bytes += (copied - 1) * pitch;
    if (joined) run = bytes;
    if (bytes > kMostBytes) return std::nullopt;
  }
  box.halo = static_cast<int>(draft.halo());
  box.run = static_cast<int>(run);
  box.runs = static_cast<int>(runs);
  box.bytes = static_cast<int>(ceil_div(bytes + 15 + 15, 16) * 16);
  box.sequences = static_cast<int>(draft.sequences());
  box.chunks = static_cast<int>(ceil_div(draft.leaves(), draft.chunk()));
  const int64_t chunks = int64_t{box.sequences} * box.chunks;
  const int64_t places = draft.length() + draft.chunk();
  box.shared = static_cast<int>(box.bytes + chunks * kChunkBytes + runs * kRunBytes + places * kPlaceBytes);
  return box;
}

/// What a byte from L2 costs, and one more lane of a warp in a bank, in instructions of a lane (H200).
constexpr double kCostOfByte = 7;
constexpr double kCostOfConflict = 3.5;

/// What an element costs, in these.
double cost_of(const Draft& draft, const Box& box) {
  const Problem& p = draft.p;
  double elements = static_cast<double>(draft.length());  // of boxes, in the mean
  double ends = draft.line + 1 < p.reduced.dims ? 1 : 0;  // shares of boxes that hold the last lines
  for (int d = draft.line; d < draft.dims; ++d) {
    const int64_t boxes = ceil_div(draft.size[d], draft.range[d]);
    elements *= static_cast<double>(draft.size[d]) / static_cast<double>(boxes);
    if (d == draft.line) ends /= static_cast<double>(boxes);
  }
  const auto chunk = static_cast<double>(draft.chunk());
  const double bytes = static_cast<double>(box.runs) * (box.run + kSectorBytes);
  const double words = static_cast<double>(box.runs) * (box.run + 15) / 16;
  const double chunks = static_cast<double>(box.sequences) * box.chunks;
  const double behind = box.sequences * ends * static_cast<double>(draft.window) / 2;  // loaded one by one: they wait
  const double slots = box.sequences * static_cast<double>(draft.leaves());
  const double instructions = 12. * words + 30. * box.runs + 90. * chunks + 5 * slots + 4 * chunk * chunks +
                              350 * behind + (8. + 5 * draft.line) * (static_cast<double>(draft.length()) + chunk) +
                              100. * kBoxThreads;
  const double of_nodes = 2. * kCostOfByte * p.accumulate_size / static_cast<double>(draft.window);
  return (kCostOfByte * bytes + instructions) / elements + of_nodes;
}

/// How many lanes of a warp, which read the first leaves of a line, meet in a bank.
int conflicts_of(const Draft& draft, const Box& box) {
  const int size = draft.p.element_size;
  int most = 0;
  int lanes[kWarpSize] = {};
  unsigned seen[kWarpSize];
  for (int leaf = 0; leaf < kWarpSize * 4 / std::max(size, 4); ++leaf) {
    int64_t rest = leaf, at = 0;
    for (int d = 0; d <= draft.line; ++d) {
      const int64_t next = d < draft.line ? rest / draft.size[d] : 0;
      at += (rest - (d < draft.line ? next * draft.size[d] : 0)) * box.pitch[d];
      rest = next;
    }
    const auto word = static_cast<unsigned>(at / 4);
    if (std::find(seen, seen + leaf, word) == seen + leaf) most = std::max(most, ++lanes[word % kWarpSize]);
    seen[leaf] = word;
  }
  return most;
}

/// Makes the box of a draft larger by the dimension that makes an element cheapest, until it is full.
class BoxSearch {
 public:
  explicit BoxSearch(int64_t room) : room_(room) {}

  /// What an element costs with a draft, or 0 if there is no such box, or no room for it. The cheapest one is kept.
  double consider(const Draft& draft) {
    const auto box = lay_out(draft);
    if (!box || box->shared > room_) return 0;
    const double cost = cost_of(draft, *box);
    if (!best_ || cost < least_) {
      best_.emplace(draft);
      least_ = cost;
    }
    return cost;
  }

  void grow(Draft draft) {
    if (consider(draft) == 0) return;
    for (const int quarters : {8, 6, 5}) {
      for (;;) {
        int dim = -1;
        int64_t range = 0;
        double cheapest = 0;
        for (int d = draft.line; d < draft.dims; ++d) {
          const int64_t before = draft.range[d];
          if (before == draft.size[d] || draft.stride[d] <= 0) continue;
          draft.range[d] = std::min(std::max(before + 1, before * quarters / 4), draft.size[d]);
          const double cost = consider(draft);
          if (cost > 0 && (dim < 0 || cost < cheapest)) {
            dim = d;
            range = draft.range[d];
            cheapest = cost;
          }
          draft.range[d] = before;
        }
        if (dim < 0) break;
        draft.range[dim] = range;
      }
    }
  }

  const std::optional<Draft>& best() const { return best_; }
  double least() const { return least_; }

 private:
  int64_t room_;
  std::optional<Draft> best_;
  double least_ = 0;
};

/// Puts runs of the lines further apart, so that fewer lanes meet in a bank. Returns how many are left. A box may
/// outgrow the room it was chosen for, by a block of a multiprocessor: of layouts that do 47 of more than 40 MB are
/// 0.80 times as fast otherwise, 86 of less 0.98 (H100).
int spread(Draft& draft) {
  int fewest = conflicts_of(draft, *lay_out(draft));
  for (int i = 0; i < draft.dims && fewest > 2; ++i) {
    const int d = draft.order[i];
    if (d > draft.line) continue;
    Draft wider = draft;
    for (wider.apart[d] = 1; wider.apart[d] <= 8; ++wider.apart[d]) {
      const auto box = lay_out(wider);
      if (!box || box->run < kMinStagedRun || box->shared > kMaxTileBytes / 2) continue;
      if (const int conflicts = conflicts_of(wider, *box); conflicts < fewest) {
        fewest = conflicts;
        draft.apart[d] = wider.apart[d];
      }
    }
  }
  return fewest;
}

struct Boxed {
  Plan plan;
  double cost;  // of an element
};

/// Family::boxes, or none if indices are not nested in memory, or there is no room for a box or for the nodes.
///
/// A box grows from what a warp folds at once, or from all lines. Lines of one dimension less are tried too, in case
/// those of as many as a table has room for leave none for others.
std::optional<Boxed> plan_boxes(const Problem& p, int multiprocessors) {
  const int all_dims = p.reduced.dims + p.kept.dims;
  if (!p.ordered || !have_tiles(p)) return std::nullopt;
  if (p.n < 4 * kMinWindow || all_dims > kMaxBoxDims) return std::nullopt;
  if (!has_32_bit_offsets(p.reduced)) return std::nullopt;
  int64_t window = kMinWindow;
  const int64_t most_window = std::min(kMaxTileWindow, kWarpSize * most_box_loads(p.accumulate_size));
  while (window < most_window && !have_room(p, window)) window *= 2;
  if (!have_room(p, window)) return std::nullopt;

  // Room for five blocks a multiprocessor, or for six where most boxes are there at once, all of them copying first and
  // then folding: of 2400 random layouts of up to 40 MB 132 are under half of torch.sum's speed then, with five 159,
  // and all 1.02 times as fast; 600 of more 0.97 times (H100). Of little data less, so that there are two boxes for
  // each multiprocessor.
  const auto share = static_cast<int64_t>(bytes_of(p)) / (2 * multiprocessors);
  const int64_t room = std::clamp<int64_t>(share, 8 << 10, (share < 140 << 10 ? 35 : 42) << 10);
  BoxSearch search(room);
  int longest = 0;
  while (longest + 1 < p.reduced.dims && count(p.reduced, 0, longest + 1) <= kMaxBoxLine) ++longest;
  const double good = 1.2 * kCostOfByte * p.element_size + 16;
  const auto found = [&] { return search.best() && search.least() <= good; };
  for (int line = longest; line >= 0 && !found() && (line >= longest - 1 || !search.best()); --line) {
    Draft draft(p, line, window);
    // What shares sectors is there together.
    for (int d = line + 1; d < draft.dims; ++d) {
      const int64_t bytes = draft.stride[d] * p.element_size;
      if (bytes <= 0) continue;
      draft.range[d] = draft.size[d] * bytes <= kLineBytes ? draft.size[d]
                                                           : std::min(ceil_div(2 * kSectorBytes, bytes), draft.size[d]);
    }
    const int64_t chunk = ceil_div(most_window, draft.length());
    for (const int64_t lines : {draft.size[line], std::min(chunk, draft.size[line])}) {
      draft.range[line] = lines;
      if (!found()) search.grow(draft);
    }
    while (!search.best() && draft.range[line] > 1) {
      draft.range[line] /= 2;
      search.grow(draft);
    }
  }
  if (!search.best()) return std::nullopt;

  Draft whole_chunks = *search.best();
  const int64_t chunks = whole_chunks.leaves() / most_window * most_window / whole_chunks.length();
  if (chunks < whole_chunks.range[whole_chunks.line]) {
    whole_chunks.range[whole_chunks.line] = std::max<int64_t>(chunks, 1);
    search.consider(whole_chunks);
  }
  Draft draft = *search.best();
  double cost = search.least();
  for (Draft wider = draft; 2 * wider.window <= most_window;) {
    wider.window *= 2;
    const auto box = lay_out(wider);  // not if it has more lines now than lie apart
    if (!box || box->shared > room) break;
    const double of_wider = cost_of(wider, *box);
    if (of_wider >= cost) break;
    cost = of_wider;
    draft.window = wider.window;
  }
  Draft even = draft;  // boxes of one size, unless smaller ranges leave gaps that break a run
  for (int d = even.line; d < even.dims; ++d) {
    even.range[d] = ceil_div(even.size[d], ceil_div(even.size[d], even.range[d]));
  }
  if (const auto box = lay_out(even); box && box->shared <= room) {
    std::copy(even.range, even.range + even.dims, draft.range);
  }
  cost += kCostOfConflict * std::max(p.element_size, 4) / 4 * (spread(draft) - 1);
  const Box box = *lay_out(draft);
  int64_t blocks = 1;
  for (int d = draft.line; d < draft.dims; ++d) {
    blocks *= ceil_div(draft.size[d], draft.range[d]);
    if (blocks >= int64_t{1} << 31) return std::nullopt;
  }
  return Boxed{.plan = {.family = Family::boxes,
                        .threads = box.bytes >= 16 << 10 ? kBoxThreads : kBoxThreads / 2,
                        .loads = static_cast<int>(draft.chunk() / kWarpSize),
                        .segments = 1,
                        .line = draft.line,
                        .window = static_cast<int>(draft.window),
                        .box = box},
               .cost = cost};
}

/// No box is cheaper than this.
double least_cost(const Problem& p) { return kCostOfByte * p.element_size + 12; }

/// Of each sector, the share that elements are which follow each other in the order.
double used_in_order(const Problem& p) {
  const int64_t most = kSectorBytes / p.element_size;
  int64_t elements = 1;
  for (int d = 0; d < p.reduced.dims; ++d) {
    const int64_t stride = std::max<int64_t>(std::abs(p.reduced.stride[d]), 1);
    if (stride >= most) break;
    elements *= std::min(p.reduced.size[d].value, most / stride);
  }
  return std::min(static_cast<double>(elements) / static_cast<double>(most), 1.);
}

/// Whether the elements are in the order of memory, as those of integers always are.
bool in_memory_order(const Strides& s) {
  for (int d = 1; d < s.dims; ++d) {
    if (distance(s.stride[d]) < distance(s.stride[d - 1])) return false;
  }
  return true;
}

// What an element costs with a plan that is not boxes, in the same units. 0 if it is not to be replaced.

/// How often an element is loaded along lines, if caches keep some of what is loaded twice.
double loads_along_lines(const Plan& plan, const Lines& lines) {
  return 1 + 0.85 * plan.window / static_cast<double>(lines.length);
}

double cost_of_lines(const Problem& p, const Plan& plan, const Lines& lines) {
  // Caches keep what is left of sectors but where only some bytes lie side by side.
  const double sectors = lines.bytes < 12 ? 2.5 : 1;
  return (kCostOfByte * p.element_size * sectors + 14) * loads_along_lines(plan, lines);
}

double cost_of_tiles(const Problem& p, const Plan& plan, const Lines& lines) {
  // A block of so little waits longer than it works: of 55 layouts 1.25 times as fast by boxes (H100).
  const double least = plan.tiles * lines.length * p.element_size < 3000 ? 2.1 * least_cost(p) : 0;
  if (plan.family == Family::staged_tiles) return least;  // otherwise it uses what it reads
  const int64_t stride = std::max<int64_t>(std::abs(p.reduced.stride[plan.line]), 1);
  const auto run = static_cast<double>(std::min<int64_t>(p.reduced.size[plan.line].value, plan.tiles) * p.element_size);
  const auto apart = static_cast<double>(std::min<int64_t>(stride, kSectorBytes / p.element_size));
  return std::max(kCostOfByte * p.element_size * apart * (run + kSectorBytes) / run + 45, least);
}

/// Of rows that are loaded element by element. read: bytes for each byte of an element.
double cost_of_single(const Problem& p, double read) {
  const double turns = in_memory_order(p.reduced) ? 0 : 1 / static_cast<double>(p.reduced.size[0].value);
  return (9.5 * p.element_size * read + 17) * (1 + 6 * turns);
}

double cost_of_rows(const Problem& p, const Plan& plan, double waves) {
  const double used = used_in_order(p);
  if (is_single(plan.layout) && !in_memory_order(p.reduced)) return cost_of_single(p, 1 / used);
  // Outputs that share sectors read these each for itself: from memory, if there is much of that, and at twice the
  // price if outputs are so long that they come one after the other. 114 layouts 1.5 times as fast by boxes (H100).
  const bool shared = distance(p.columns.stride[0]) < static_cast<uint64_t>(kSectorBytes / p.element_size - 1);
  if (waves < 1 || used == 1 || !shared) return 0;
  return (plan.segments > 1 && p.reduced.stride[0] == 1 ? 2 : 1) * least_cost(p) / used;
}

double cost_of_columns(const Problem& p, double waves) {
  const Strides& r = p.reduced;
  if (in_memory_order(r) || p.columns.stride[0] == 0) return 0;
  const uint64_t apart = distance(p.columns.stride[0]);
  const bool across = std::any_of(r.stride, r.stride + r.dims, [&](int64_t s) { return distance(s) < apart; });
  // Each lane reads sectors of its own, of which smaller elements are in L1 when the order comes back to them: 63
  // layouts of 8 bytes 1.14 times as fast by boxes, 82 of less 0.94 (H100).
  if (across) return p.element_size >= 8 ? (waves < kMoreThanL2 ? 4.5 : 3.9) * least_cost(p) : 0;
  // Pieces of all columns, of which the sectors around are gone when the order comes to the next one, if there is more
  // than L2 holds: 116 layouts 1.05 times as fast by boxes, 20 of them no longer under half of torch.sum's speed
  // (H100).
  if (p.columns.dims > 1 || waves < kMoreThanL2) return 0;
  const int64_t piece = p.columns.size[0].value * std::abs(p.columns.stride[0]) * p.element_size;
  return 208. / static_cast<double>(std::max<int64_t>(piece, 2 * kSectorBytes)) * least_cost(p);
}

/// How a plan of rows, lines or columns comes along the elements.
Visits visits_of(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, int multiprocessors) {
  Visits visits;
  const auto outputs = static_cast<double>(p.outputs);
  const auto segments = static_cast<double>(plan.segments);
  if (plan.family == Family::lines) {
    const int64_t stretch = std::min<int64_t>(plan.tiles, lines->length);
    const int64_t all = p.outputs * lines->count * ceil_div(lines->length, stretch);
    const auto walkers = static_cast<double>(std::min(all, wave_of_lines(p, multiprocessors)));
    Strides every_line;
    lines_of_all(p, lines->dim, every_line);
    visits.add_walkers(in_order_of_memory(every_line), 1, static_cast<double>(stretch), walkers);
    visits.add_walks(p.reduced, lines->dim, static_cast<double>(stretch), walkers);
  } else if (plan.family == Family::columns) {
    const double columns = std::min(outputs, std::max(1., 128. * multiprocessors * plan.vector / segments));
    visits.add_walkers(p.columns, 1, static_cast<double>(p.n), columns);
    visits.add_walks(p.reduced, p.reduced.dims, std::ceil(static_cast<double>(p.n) / segments), segments * columns);
  } else {
    const int per_load = is_single(plan.layout) ? 1 : 16 / p.element_size;
    const double of_block = static_cast<double>(plan.threads) * plan.loads * per_load * plan.tiles;
    const double stretch = std::min(of_block, static_cast<double>(p.n));
    const double walkers = std::min(outputs * segments, static_cast<double>(wave_of(plan.threads, multiprocessors)));
    visits.add_walks(p.reduced, p.reduced.dims, stretch, walkers);
    visits.add_walkers(p.kept, segments, stretch, walkers);
  }
  return visits;
}

/// Bytes from memory for each byte of an element where many of them are read again, and 0 where they are not.
double read_again(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, int multiprocessors) {
  constexpr double kL2Bytes = 144 << 10;  // of what a multiprocessor's share holds, what is sure to be there still
  constexpr double kMany = 1.5;
  const Visits visits = visits_of(p, plan, lines, multiprocessors);
  const double bytes = visits.bytes_from_memory(p.element_size, kL2Bytes * multiprocessors);
  return bytes < kMany * visits.bytes_from_memory(p.element_size, HUGE_VAL) ? 0 : bytes;
}

/// The cost where much is read from memory again, and 0 where it is not.
double cost_of_rereading(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, int multiprocessors) {
  const double bytes = read_again(p, plan, lines, multiprocessors);
  if (bytes == 0) return 0;
  if (plan.family == Family::lines) {
    return (9 * p.element_size * bytes + 18) * loads_along_lines(plan, *lines);
  }
  if (plan.family == Family::rows && is_single(plan.layout)) return cost_of_single(p, bytes);
  return (9.5 * bytes + 2.5) * p.element_size + 3;
}

/// Fitted to random layouts of 1 to 256 MiB: lines, tiles and single elements, most of them within a third (H200), and
/// for the rest how dear a box may be (H100).
double cost_of(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, int multiprocessors) {
  constexpr double kLeastWaves = 1. / 16;  // about a MiB; less takes as long either way
  const double waves = waves_of(p, multiprocessors);
  if (waves < kLeastWaves) return 0;
  const auto or_rereading = [&](double cost) {
    return waves < kMoreThanL2 ? cost : std::max(cost, cost_of_rereading(p, plan, lines, multiprocessors));
  };
  switch (plan.family) {
    case Family::lines:
      return or_rereading(cost_of_lines(p, plan, *lines));
    case Family::staged_tiles:
    case Family::tiles:
      return cost_of_tiles(p, plan, *lines);
    case Family::rows:
      return or_rereading(cost_of_rows(p, plan, waves));
    case Family::columns:
      return or_rereading(cost_of_columns(p, waves));
    default:
      return 0;
  }
}

/// Family::boxes instead of a plan that leaves much of each sector unused, or whose blocks wait longer than they work.
/// Estimates are right within a half where L2 holds the data, and within a tenth of much data. There a smaller margin,
/// and what is read again, give boxes to one random layout in 240 more, 1.15 times as fast in the geometric mean, one
/// in ten of them more than 10 % slower: of 4517 such layouts 303 were under half of torch.sum's speed, now 24 (H100).
std::optional<Plan> plan_boxes_instead(const Problem& p, const Plan& plan, const std::optional<Lines>& lines,
                                       int multiprocessors) {
  const double waves = waves_of(p, multiprocessors);
  const double margin = waves < kMoreThanL2 ? 1.5 : waves < 6 ? 1.3 : plan.family == Family::rows ? 1.2 : 1.1;
  const double cost = cost_of(p, plan, lines, multiprocessors);
  if (cost < margin * least_cost(p)) return std::nullopt;
  const auto boxes = plan_boxes(p, multiprocessors);
  if (!boxes || margin * boxes->cost > cost) return std::nullopt;
  return boxes->plan;
}

/// Whether rows, whose lanes take elements one by one in the order, beat a plan that takes neighbouring lines together.
///
/// Between two of these elements lie some that come later, so a sector is read by as many loads as it has parts of the
/// order. That is cheaper than what lines cost, as long as steps are short and caches keep what is between: (2, 74278,
/// 31) float16, strides (2, 124, 4), takes 13 us instead of 36, a transposed (116346, 7) 7.5 instead of 11.1. Rows in
/// more than two dimensions divide more often, and so win by less. Fitted to 53,256 random layouts that were timed both
/// ways: 12,513 have other plans for it, 1.30 times as fast in the geometric mean, 402 of them more than a tenth
/// slower; 187 were under half of torch.sum's speed, now 39. So have 1382 layouts of sums that convert, 1.21 times as
/// fast; complex128 was not timed (H200).
bool beat_lines(const Problem& p, const Plan& rows, const Plan& other, int multiprocessors) {
  if (is_wide(p) || !is_single(rows.layout)) return false;
  const double waves = waves_of(p, multiprocessors);
  const bool little = waves < 0.5;
  const bool much = waves >= kMoreThanL2;
  const bool pitched = rows.layout == Layout::pitched;
  const bool again = read_again(p, rows, std::nullopt, multiprocessors) > 0;
  constexpr int64_t kShort = 16;  // elements of a line, below which a warp turns too often
  const int64_t step = std::abs(p.reduced.stride[0]);
  const int64_t length = p.reduced.size[0].value;
  // One launch of so little data is over before another one would sum the nodes; but not where a warp's loads are of 32
  // cache lines each: (128, 320, 7, 7) float16 in channels_last over dimensions 1 to 3 14.8 us, in staged tiles 10.5.
  // 72 layouts 1.17 times as fast, 6 of them more than a tenth slower; of full sums, most of which would be (H200).
  constexpr int64_t kCacheLineBytes = 128;
  const bool scattered = step * p.element_size >= kCacheLineBytes && length >= kWarpSize;
  const double most_waves = scattered && p.outputs > 1 && rows.segments > 1 ? 0.125 : 0.25;
  const bool brief = waves < most_waves && (pitched || p.element_size == 8);
  if (!again && (brief || (pitched && other.family == Family::tiles))) return true;

  if (length < kShort) return false;
  // A box reads memory once. But of lines that are longer than its tables it has only pieces.
  if (other.family == Family::boxes && waves >= 1 && (again || length <= kMaxBoxLine)) return false;
  if (again && much) return step * p.element_size <= 8;  // lines read sectors as often then
  if (!pitched) return step <= 4;
  if (again) return step <= (little ? 8 : 5);
  return step <= (little ? 64 : much ? 6 : 16);
}

/// Whether lanes go along an output, whose elements are closer than outputs are, as it has enough of them: in one run
/// half a KiB, (17492, 96) float64 over dimension 1 8 us instead of 15. Of bytes columns are better up to 5 times as
/// far apart, if there are some: 156 random layouts 1.5 times as fast in the geometric mean (H200).
bool are_rows(const Problem& p) {
  const bool one_run = p.reduced.dims == 1 && p.reduced.stride[0] == 1 && p.kept.dims == 1;
  const int64_t least = one_run && p.element_size == 8 ? 64 : 128;
  const int64_t closer = p.element_size == 1 && p.outputs >= kWarpSize ? 5 : 1;
  return p.n >= least && closer * std::abs(p.reduced.stride[0]) < std::abs(p.columns.stride[0]);
}

/// Of an order across memory, in lines that none of their plans takes, since they are too short or their nodes have no
/// room: whether columns lie so far apart that rows element by element are better. A load of a warp takes a piece of a
/// sector for every column; of a row it takes neighbours in the order, and what lies beside these in memory comes soon
/// enough for caches. (6543, 3950, 10) int8 to float32 over dimensions 1 and 2, the last one outermost in memory, takes
/// 282 us instead of 5814. Of 6524 random layouts that convert 4751 are 1.68 times as fast for it in the geometric
/// mean, 582 of them more than a tenth slower; 396 were under half of torch.sum's speed, now none (H200).
bool are_far_columns(const Problem& p) {
  constexpr int64_t kLeast = 512;      // elements of a row, or its block is not full
  constexpr int64_t kMost = 8192;      // beyond which columns are as bad at any distance
  constexpr int64_t kFar = 256 << 10;  // elements times bytes to the next column
  if (have_tiles(p) || p.n < kLeast) return false;
  const Strides& c = p.columns;
  const auto bytes = [&](int d) { return std::abs(c.stride[d]) * p.element_size; };
  int next = 0;  // dimension; columns that a sector holds together count as one
  while (next + 1 < c.dims && bytes(next) * c.size[next].value <= kSectorBytes) ++next;
  return bytes(next) * std::min(p.n, kMost) >= kFar;
}

/// The plan but for Plan::prefetching and let_next.
Plan plan_kernel(const Problem& p, int multiprocessors) {
  if (p.outputs > 1) {
    const Family family = short_family(p);
    if (family != Family::rows) return plan_short_rows(p, family, multiprocessors);
    if (are_narrow_columns(p)) {
      const Plan narrow = plan_narrow_columns(p, multiprocessors);
      if (narrow.segments > 0) return narrow;
    }
  }
  std::optional<Plan> rows;
  if (p.outputs == 1 || are_rows(p)) rows = plan_rows(p, multiprocessors);
  if (rows && rows->segments == 0) rows.reset();
  std::optional<Plan> plan = rows;
  const auto lines = lines_across(p);
  if (lines) {
    if (const auto words = plan_words(p, *lines, multiprocessors)) {
      if (words->window == 0) return *words;  // in one launch, which rows do not beat
      plan = words;
    } else {
      const auto tiles = plan_tiles(p, *lines, multiprocessors);
      const auto along = plan_lines(p, *lines, multiprocessors);
      const bool walks = along && along->window <= longest_window(p, *lines, tiles, rows.has_value(), multiprocessors);
      if (walks || tiles) plan = walks ? along : tiles;
    }
  }
  if (plan) {
    const Plan other = plan_boxes_instead(p, *plan, lines, multiprocessors).value_or(*plan);
    const bool has_rival = rows && other.family != Family::rows;
    return has_rival && beat_lines(p, *rows, other, multiprocessors) ? *rows : other;
  }
  if (lines && are_far_columns(p)) {
    const Plan far = plan_rows(p, multiprocessors);
    if (far.segments > 0) return far;
  }
  const int vector = column_vector(p.element_size);
  Plan columns = plan_columns(p, fits_vector(p, vector) ? vector : 1, multiprocessors);
  if (columns.segments == 0) columns = plan_columns(p, 1, multiprocessors);  // which takes 2^35 elements at least
  return plan_boxes_instead(p, columns, std::nullopt, multiprocessors).value_or(columns);
}

/// Plan::prefetching: the blocks that start first or, where that is no gain, none.
///
/// What it is worth, on an H200, in a graph behind a kernel of others: rows of (4096, 4096) 16.0 us instead of 16.3,
/// (32, 2^20) 31.0 and 32.0, 2^24 elements 16.5 and 17.4; but of two waves, 2^23 elements, 10.4 and 10.0, and of one,
/// 2^22 elements, 7.1 and 6.3, (4096, 4096) int8 6.3 and 5.6. Little data, which comes in one trip, is about as fast
/// either way (up to 4 % slower from 2 to 8 MiB), and up to 0.6 us faster behind another sum: 2^20 + 1 elements 4.70
/// and 4.56, in a row 3.00 and 3.60. (2^20, 32) over dimension 1 30.6 and 31.2, over 0 33.4 and 33.8; (64, 3, 224, 224)
/// over 0, 2 and 3 is 0.5 % slower, but 9 % faster behind another sum, (64, 64, 56, 56) 16.2 and 16.5. Columns gain
/// where there are many rows but not too much data, if one block a multiprocessor asks: (4096, 4096) over dimension
/// 0 17.4 and 17.6, but (9, 2^22) 40.7 and 40.0, (16, 2048, 4096) over 0 and 1 121.6 and 121.0; of much data small
/// blocks without partners, (32, 1024, 4096) over 1 117.9 and 119.0; waves unless they leave a tenth of the
/// multiprocessors free, which would take two blocks of the next sum, (699051, 48) 36.2 us and with prefetches 43.3, or
/// little is read, in pieces of lines, (100, 1000, 100) over 1 12.2 and 13.5. Staged rows and few rows do not: (131072,
/// 257) float16 25.4 and 24.5, (8, 2^22) bfloat16 over dimension 0 19.7 and 18.8.
int prefetching(const Problem& p, const Plan& plan, int multiprocessors) {
  const double waves = waves_of(p, multiprocessors);
  const auto wave = static_cast<int>(wave_of(plan.threads, multiprocessors));
  switch (plan.family) {
    case Family::rows: {
      if (is_by_element(plan.layout)) return 0;
      const bool brief = plan.width == kWarpSize && !can_permute(plan.loads);  // kBrief of sum_warp
      if (plan.segments == 1) return p.outputs > 1 && waves >= 1.5 && !brief ? wave : 0;
      const bool little = p.outputs == 1 && waves <= 0.5;
      return little || waves >= (plan.layout == Layout::runs ? 2 : 3.5) ? wave : 0;
    }
    case Family::tiny_rows:
    case Family::small_rows:
      return waves >= 2 ? wave : 0;
    case Family::narrow_columns:
      return waves >= 2 && narrow_columns_prefetch(plan.width, p.element_size) ? wave : 0;
    case Family::columns: {
      const bool can = p.reduced.dims == 1 && columns_prefetch(plan.vector, p.element_size);
      const bool wave_gains = 10 * column_blocks(p, plan) >= 9 * multiprocessors && (are_lines(p) || waves >= 3);
      const bool gain = plan.threads > 256 ? wave_gains : p.n >= 512;
      const bool much = waves >= kManyWaves && (plan.threads > 256 || plan.segments > 1);
      return can && gain && waves >= 2 && !much ? multiprocessors : 0;
    }
    default:
      return 0;
  }
}

/// Plan::let_next.
///
/// In a row of sums that hides a launch, if the next one's blocks find the same room on every multiprocessor; where
/// some get two of them and others none, all wait for those. So blocks let them in at once if there is about one for
/// each multiprocessor, or for half of them at most ((100, 1000, 100) over dimension 1 12.4 us instead of 13.1, (2048,
/// 1024) over 0 4.5 and 5.1; but of 109 blocks, (100, 2000, 104), 24.8 and 23.2), and when they have loaded if they
/// fill the GPU, or are small and soon done ((8192, 768) over 0 8.9 and 9.5, (2^22, 8) 31.8 and 32.6, (1024, 8) 2.0
/// and 2.5; but (32768, 1001), of 16 tiles in 256 blocks, 38.7 and 35.7, (47, 156, 576) over 1, of two tiles, 7.7 and
/// 6.8). Blocks of bytes fill nothing: they work rather than wait ((261, 11244, 64) int8 over 1 71.9 and 65.6). Behind
/// it makes no difference to a kernel of others (H200).
LetNext let_next(const Problem& p, const Plan& plan, int multiprocessors) {
  // Whether so many blocks take at least a share of the room of all multiprocessors, which have it for so many threads.
  const auto take = [&](double share, int64_t blocks, int room) {
    return static_cast<double>(blocks * plan.threads) >= share * room * multiprocessors;
  };
  const auto fill = [&](int64_t blocks, int room) { return p.element_size > 1 && take(0.95, blocks, room); };
  const auto are_one_each = [&](int64_t blocks) {
    return blocks <= multiprocessors && 10 * blocks >= 9 * multiprocessors;
  };
  switch (plan.family) {
    case Family::rows: {
      // Few small blocks, or several waves of them: either spreads out. A full sum of more tiles than one in any case:
      // 2^25 float32 30.6 us, without 31.1 (H200).
      if (plan.prefetching > 0 && plan.tiles == 1) return LetNext::at_start;
      const bool loaded = plan.tiles > 1 || fill(plan.segments, 1024);
      return p.outputs == 1 && loaded ? LetNext::when_loaded : LetNext::at_end;
    }
    case Family::narrow_columns: {
      const int64_t blocks = p.outputs / plan.width * plan.segments;
      const int room = narrow_blocks(plan.width, p.element_size) * kNarrowWarps * kWarpSize;
      const bool loaded = (plan.tiles == 1 && !take(0.51, blocks, room)) || fill(blocks, room);
      return loaded ? LetNext::when_loaded : LetNext::at_end;
    }
    case Family::columns: {
      const int64_t blocks = column_blocks(p, plan);
      const bool much = waves_of(p, multiprocessors) >= kManyWaves;
      if (blocks <= multiprocessors && plan.prefetching > 0) return LetNext::at_start;
      if (!much && (are_one_each(blocks) || 2 * blocks <= multiprocessors)) return LetNext::at_start;
      const bool soon_done = plan.tiles == 1 || (plan.tiles == 2 && plan.segments > 1);
      const bool loaded = soon_done || fill(blocks, plan.vector > 1 ? 512 : 1024);
      return plan.threads <= 256 && loaded ? LetNext::when_loaded : LetNext::at_end;
    }
    default:
      return LetNext::at_end;
  }
}

/// Whether the order goes down columns that fill memory without a gap, as the channels of images in channels_last, and
/// `rows` elements of each are better summed as columns. Of 16 to 256 MiB that is 1.1 to 1.2 times as fast as along
/// lines or by pitched rows, of 16 bits, full sums and those of each image, 1.2 and 1.4 times (1500 layouts of 3 to
/// 2048 channels, H200).
bool are_interleaved(const Problem& p, int64_t rows) {
  constexpr int64_t kLeastBytes = 16 << 20;  // of less, as many layouts lose as gain
  const Strides& r = p.reduced;
  const int64_t columns = r.stride[0];
  const int64_t elements = p.n * p.outputs;
  if (are_words(p) || elements * p.element_size < kLeastBytes || reach(p.kept) + reach(r) + 1 != elements) return false;
  const auto are_columns = [&](int d) { return r.stride[d] == 1 && r.size[d].value == columns; };
  for (int d = 1; d < r.dims; ++d) {
    if (!are_columns(d)) continue;
    // Matrices of less than two words a row lose: 128 rows of four float32 take 1.3 times as long as by lines (H200).
    const int64_t bytes = columns * p.element_size;
    const bool by_words = p.misalignment == 0 && bytes % 16 == 0 && bytes >= 32;
    return by_words || are_narrow(p, columns, rows, elements / (rows * columns));
  }
  return false;
}

}  // namespace

bool have_room(const Problem& p, int64_t window) {
  const int64_t nodes = nodes_of(p, window);
  const int64_t input = (reach(p.kept) + reach(p.reduced) + 1) * p.element_size;
  const int64_t most = std::max(kScratchBytes, input / 100) / p.accumulate_size;
  return p.outputs <= most / nodes && p.outputs <= (int64_t{1} << 31) / nodes;
}

int64_t row_across_memory(const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const Strides& r = p.reduced;
  if (r.dims < 2) return 0;
  const int64_t size = r.size[0].value;
  const int64_t row = std::min(size & -size, kMost);  // the largest power of two that divides it
  // Of several outputs, and of 16 bits unless it is too much for other plans, interleaved columns only, by which 1178
  // random layouts are 1.03 times as fast (H200).
  const bool has_16_bits = p.element_size == 2;
  const bool has_other = p.outputs > 1 || (has_16_bits && has_32_bit_offsets(r));
  if (has_other && !are_interleaved(p, row)) return 0;
  const int64_t inner = std::abs(r.stride[0]);
  const bool crosses = std::any_of(r.stride + 1, r.stride + r.dims, [&](int64_t s) { return s != 0 && s < inner; });
  // The rows are kept ones of the first of two sums.
  const int kept = (p.outputs > 1 ? p.kept.dims : 0) + r.dims - (row == size ? 1 : 0);
  return crosses && row >= 32 && kept <= kMaxDims && have_room(p, row) ? row : 0;
}

Plan make_plan(const Problem& p, int multiprocessors) {
  Plan plan = plan_kernel(p, multiprocessors);
  plan.prefetching = prefetching(p, plan, multiprocessors);
  plan.let_next = let_next(p, plan, multiprocessors);
  return plan;
}

}  // namespace reduce_ops::sum
