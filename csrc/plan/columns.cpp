// Plans of columns.cuh.

#include <algorithm>
#include <cstdlib>

#include "plan/families.h"

namespace reduce_ops::sum {
namespace {

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
  const Gpu& gpu;
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
  const int64_t places = g.gpu.multiprocessors;

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
  if (waves_of(p, g.gpu) < 2) return std::nullopt;
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
  const double blocks = static_cast<double>(g.count) / (kThreads * g.gpu.multiprocessors);  // of one part, for each
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
    const bool one_load = tiles == 1 && blocks * width * parts <= int64_t{512} * g.gpu.multiprocessors;  // of the GPU
    const int64_t places = int64_t{g.gpu.multiprocessors} * (bytes && !short_run && width >= 16 ? 2 : 1);
    const bool as_wide_as_lines = are_lines(g.p) || width * g.vector * g.p.element_size >= kLineBytes;
    const bool busy =
        blocks <= places ? 4 * blocks >= 3 * places : as_wide_as_lines && occupancy(blocks, places) >= 0.9;
    if ((full || one_load) && tiles <= g.most_tiles && busy) {
      return g.plan(width, parts, tiles, 1);
    }
  }
  // Nor is there a gain in partners for few columns whose rows a block loads at once: (1024, 64) 3.4 us, 3.5 in
  // segments, while parts folded two at a time; (512, 3072) 3.9 and 4.5, but (344, 4708) 6.8 and 5.3.
  const bool few = g.count <= int64_t{8} * g.gpu.multiprocessors;
  if (few && g.run >= 4 && n > 16 * g.rows && n <= 64 * g.rows) return g.plan(4, 64, 1, 1);
  return std::nullopt;
}

/// Many small blocks, in as many segments as it takes, or none if that is too many.
std::optional<Plan> plan_segments(const Groups& g) {
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
      p.n <= g.rows * g.parts(256, width) && ceil_div(g.count, width) <= int64_t{2} * g.gpu.multiprocessors;
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
  const int64_t wave = 512 / threads * g.gpu.multiprocessors;
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
  const bool fill_gpu = blocks * at_once(parts) >= g.gpu.multiprocessors;
  const int64_t most = single ? 16 * parts : !many && fill_gpu ? at_once(parts) : 4 * parts;
  while (tiles < g.most_tiles && !fit(p, segments(), most)) tiles *= 2;
  if (!fit(p, segments(), std::min<int64_t>(kMaxSegmentsAPart * parts, kMaxGridY))) return std::nullopt;
  return g.plan(width, parts, tiles, segments());
}

/// Whether a plan of plan_alone is better than a wave: narrow blocks of near rows, whose parts all load as often, where
/// there is much data, for these can prefetch. (32, 1024, 4096) over dimension 1 takes 117.9 us in 8 x 32, 120.0 in a
/// wave, (16, 2048, 4096) 117.7 and 119.2, (64, 2048, 512) 59.8 and 60.3; but (4, 2048, 4096) 31.8 and 31.5, and (16,
/// 1500, 4096), whose last parts have no rows, 95.7 and 88.4 (H200).
bool is_better_than_wave(const Groups& g, const Plan& alone) {
  const int64_t rows = int64_t{alone.threads / alone.width} * alone.loads * alone.tiles;
  return !g.anywhere && are_near(g) && g.p.element_size == 4 && alone.width == 8 && rows == g.p.n &&
         waves_of(g.p, g.gpu) >= kManyWaves;
}

std::optional<Plan> plan_groups(const Groups& g) {
  const auto alone = plan_alone(g);
  if (alone && is_better_than_wave(g, *alone)) return alone;
  if (const auto wave = plan_wave(g)) return wave;
  return alone ? alone : plan_segments(g);
}

/// Many single columns side by side in blocks of 64 x 4 threads or 128 x 2, which share fewer sectors than narrow ones:
/// the wide ones unless that makes a short last wave. None if columns are few, as blocks of 32 would be less than five
/// a multiprocessor, if neighbours are not taken side by side, or where half of the parts have no rows. Of 28 shapes
/// with odd numbers of columns and 70 rows at least 8 % less time than in blocks of 32 x 8 for float32, 10 % for
/// float16 (geometric means), and 6 % more at most: (8, 2048, 4095) 65 us and 70, (7, 158, 31981) float16 27 and 39
/// (H200).
std::optional<Plan> plan_wide(const Groups& g) {
  constexpr int kThreads = 256;
  const bool many = g.p.columns.stride[0] == 1 && g.run >= 192 && g.count >= int64_t{5} * 32 * g.gpu.multiprocessors;
  if (!many || g.p.n < 70 || chunk_of(g.p) > 0 || waves_of(g.p, g.gpu) < 0.5) return std::nullopt;
  const int64_t places = int64_t{3} * g.gpu.multiprocessors;  // of 66 registers a thread, 72 with what is rounded up
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
std::optional<Plan> plan_more_rows(const Problem& p, int vector, const Gpu& gpu) {
  const Groups g{p, vector, gpu, most_column_rows(vector, p.element_size)};
  if (p.reduced.dims > 1 || g.rows == kColumnRows) return std::nullopt;
  if (const auto wide = plan_wide(g)) return wide;
  const auto plan = plan_groups(g);
  if (!plan || plan->tiles == 1) return std::nullopt;
  const int64_t blocks = column_blocks(p, *plan);
  const bool balanced = blocks <= int64_t{2} * gpu.multiprocessors || blocks >= int64_t{5} * gpu.multiprocessors;
  return balanced ? plan : std::nullopt;
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
std::optional<Plan> plan_anywhere(const Problem& p, const Gpu& gpu) {
  const bool one_stride = p.reduced.dims == 1;
  const int64_t run = p.columns.size[0].value;
  const double waves = waves_of(p, gpu);
  if (!p.ordered || is_wide(p) || p.columns.stride[0] != 1) return std::nullopt;
  if (p.element_size > (one_stride ? 8 : 4) || p.outputs >= int64_t{1} << 30) return std::nullopt;
  if (run < 64 || waves < (one_stride ? 2 : 0.3)) return std::nullopt;
  const Groups g{p, column_vector(p.element_size), gpu, anywhere_rows(p.element_size, p.reduced.dims),
                 /*anywhere=*/true};
  const auto plan = plan_groups(g);
  if (!plan) return std::nullopt;
  const int64_t blocks = column_blocks(p, *plan);
  const bool many_blocks = blocks >= int64_t{2} * gpu.multiprocessors;
  if (plan->threads > most_parts_anywhere(p, *plan, many_blocks) * plan->width) return std::nullopt;
  if (plan->segments == 1) return plan;
  const bool long_runs = p.element_size == 2 && static_cast<double>(run) * waves >= 2000;
  const bool busy = 4 * blocks >= int64_t{3} * gpu.multiprocessors;
  const bool have_slots = plan->segments <= max_slots(p.accumulate_size) / (g.count * g.vector);
  return long_runs && busy && have_slots ? plan : std::nullopt;
}

}  // namespace

bool fits_vector(const Problem& p, int vector) {
  return p.columns.stride[0] == 1 && p.columns.size[0].value % vector == 0 && strides_divide(p.columns, 1, vector) &&
         strides_divide(p.reduced, 0, vector) && p.misalignment % (vector * p.element_size) == 0;
}

bool are_lines(const Problem& p) { return std::abs(p.reduced.stride[0]) * p.element_size % kLineBytes == 0; }

int64_t column_blocks(const Problem& p, const Plan& plan) {
  return ceil_div(ceil_div(p.outputs, plan.vector), plan.width) * plan.segments;
}

std::optional<Plan> plan_columns(const Problem& p, int vector, const Gpu& gpu) {
  if (const auto few = plan_few_rows(p, vector)) return few;
  if (vector == 1) {
    if (const auto anywhere = plan_anywhere(p, gpu)) return anywhere;
  }
  if (const auto more = plan_more_rows(p, vector, gpu)) return more;
  return plan_groups(Groups{p, vector, gpu, column_rows(p, vector)});
}

std::vector<Plan> every_columns(const Problem& p, int vector, const Gpu& gpu) {
  const Groups groups{p, vector, gpu, column_rows(p, vector)};
  return present({plan_few_rows(p, vector), vector == 1 ? plan_anywhere(p, gpu) : std::nullopt,
                  plan_more_rows(p, vector, gpu), plan_alone(groups), plan_wave(groups), plan_segments(groups)});
}

}  // namespace reduce_ops::sum
