// Plans of across.cuh, tiles.cuh and word_tiles.cuh: the order runs across memory.

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "plan/families.h"

namespace reduce_ops::sum {
namespace {

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

/// Family::lines, or none if there is no room for the nodes.
std::optional<Plan> plan_lines(const Problem& p, const Lines& lines, const Gpu& gpu) {
  const int loads = line_loads(p.element_size);
  const int64_t all_lines = p.outputs * lines.count;
  if (all_lines >= int64_t{1} << 31) return std::nullopt;
  const int64_t wave = wave_of_lines(p, gpu);
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
std::optional<Plan> plan_tiles(const Problem& p, const Lines& lines, const Gpu& gpu) {
  // Tiles that give a thread some 50 elements, but are no larger than that takes, and smaller where there would be few:
  // (524288, 22), transposed, takes 25 us in tiles of 128 lines by 64 threads or of 256 by 128, 39 of 256 by 64; (7584,
  // 21) bfloat16 7 us in tiles of 64 lines by 256 threads, 19.8 of 256 by 64 (H200).
  if (!have_tiles(p) || p.n < kMinTiled) return std::nullopt;
  int64_t tile = kMinWindow;
  const auto window = [&] { return std::min<int64_t>(tile, kMaxTileWindow); };
  const auto is_small = [&] { return tile * lines.length * p.element_size < 7600; };
  const auto are_few = [&] { return p.outputs * ceil_div(lines.count, tile) < int64_t{4} * gpu.multiprocessors; };
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

/// Family::word_tiles of lines of words, or none if there is no room for the nodes.
std::optional<Plan> plan_word_tiles(const Problem& p, const Lines& lines, const Gpu& gpu) {
  const int64_t rows = word_rows(lines.length);
  constexpr int kMaxRun = 512;              // bytes side by side
  constexpr int64_t kMaxShared = 48 << 10;  // of nodes: more would have to be asked for
  // Up to 128 KiB, as long as each multiprocessor has a tile: the fastest of eight sizes for each layout would be
  // another 3 % faster (H200).
  constexpr int64_t kMostBytes = 128 << 10;
  const auto fits = [&](int64_t tile) { return tile * lines.length / rows * p.accumulate_size <= kMaxShared; };
  const auto is_small = [&](int64_t tile) {
    return tile * lines.length * p.element_size <= kMostBytes &&
           p.outputs * ceil_div(lines.count, tile) >= gpu.multiprocessors;
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

/// Family::word_tiles, by tiles that are outputs, whose sums they are then, in one launch. None if outputs are few, or
/// much for a block.
///
/// Of 545 random layouts of 8 to 2048 outputs, channels_last images and such, 276 are like that and 1.24 times as fast
/// as in two launches or by rows in the geometric mean, three of them more than a tenth slower; fewer outputs are 0.9
/// to 1.0 times as fast, those of 64 to 128 KiB 1.05, larger ones 0.5 to 0.9. Up to 48 KiB 128 threads are better, 1.32
/// and 1.24 times as fast for 8 bytes an element (H200).
std::optional<Plan> plan_whole_tiles(const Problem& p, const Lines& lines, const Gpu& gpu) {
  constexpr int64_t kMostBytes = 64 << 10;
  constexpr int64_t kMostOfFewThreads = 48 << 10;
  const int64_t bytes = p.n * p.element_size;
  if (bytes > kMostBytes || 8 * p.outputs < gpu.multiprocessors || p.outputs > kMaxGridX) return std::nullopt;
  static_assert(kMostBytes / 2 / 2 <= kWarpSize * kMaxTileWindow);  // nodes of two elements, of two bytes each
  const int columns = 16 / p.element_size;
  const int64_t tile = std::max<int64_t>(kPart, ceil_power(lines.count));
  const int64_t words = tile / columns;
  const int64_t threads = std::max<int64_t>(words, bytes <= kMostOfFewThreads ? kTileThreads / 2 : kTileThreads);
  if (threads > kTileThreads) return std::nullopt;
  return Plan{.family = Family::word_tiles,
              .threads = static_cast<int>(threads),
              .loads = static_cast<int>(word_rows(lines.length)),
              .tiles = static_cast<int>(tile),
              .segments = 1,
              .line = lines.dim};
}

/// Tiles of words, or none if lines are not of words, or there are no such plans for them.
std::optional<Plan> plan_words(const Problem& p, const Lines& lines, const Gpu& gpu) {
  if (!are_words(p) || lines.dim != 1) return std::nullopt;
  if (const auto whole = plan_whole_tiles(p, lines, gpu)) return whole;
  return plan_word_tiles(p, lines, gpu);
}

/// The longest lines that are better staged than walked along, if either can be. Of 7960 random layouts whose lines
/// have 25 to 500 elements the 4450 up to here are 1.08 times as fast in the geometric mean, the others 0.965 (H200).
int64_t longest_staged_line(const Problem& p, const Gpu& gpu) {
  if (p.reduced.dims > 2) return p.element_size >= 8 ? 150 : 72;  // lines turn
  if (waves_of(p, gpu) >= kManyWaves) return 300;
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
                       const Gpu& gpu) {
  constexpr auto kAny = int64_t{1} << 31;
  if (!have_tiles(p)) return longest_window_of_single(p, lines, else_rows);
  const bool is_long = lines.length >= (lines.beside ? 8 : kMinWindow);
  if (!tiles) return is_long ? kAny : 0;
  if (lines.beside) return is_long ? std::max<int64_t>(kMinWindow, lines.length) : 0;
  // Windows longer than half a line are loaded up to their ends three times.
  if (tiles->family == Family::staged_tiles) {
    return lines.length <= longest_staged_line(p, gpu) ? 0 : lines.length / 2;
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

}  // namespace

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

int64_t wave_of_lines(const Problem& p, const Gpu& gpu) {
  return int64_t{p.element_size <= 4 ? 768 : 512} * gpu.multiprocessors;
}

/// Whether lines are of words that begin at multiples of 16 bytes, and of an even length that Family::word_tiles is a
/// gain for. Odd lengths had a family of their own: 94 of 74,280 random layouts, 1.24 times as fast as what is left.
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
  if (length % 2 != 0 || length / word_rows(length) > 400) return false;
  const int64_t columns = 16 / p.element_size;
  return p.misalignment == 0 && r.size[1].value % columns == 0 && r.stride[0] % columns == 0 &&
         strides_divide(r, 2, columns) && strides_divide(p.kept, 0, columns);
}

std::optional<Plan> plan_across(const Problem& p, const Lines& lines, bool else_rows, const Gpu& gpu) {
  if (const auto words = plan_words(p, lines, gpu)) return words;
  const auto tiles = plan_tiles(p, lines, gpu);
  const auto along = plan_lines(p, lines, gpu);
  const bool walks = along && along->window <= longest_window(p, lines, tiles, else_rows, gpu);
  return walks ? along : tiles;
}

std::vector<Plan> every_across(const Problem& p, const Lines& lines, const Gpu& gpu) {
  const bool words = are_words(p) && lines.dim == 1;
  return present({plan_lines(p, lines, gpu), plan_tiles(p, lines, gpu),
                  words ? plan_whole_tiles(p, lines, gpu) : std::nullopt,
                  words ? plan_word_tiles(p, lines, gpu) : std::nullopt});
}

}  // namespace reduce_ops::sum
