// Plans of narrow_columns.cuh.

#include <algorithm>

#include "plan/families.h"

namespace reduce_ops::sum {
namespace {

/// Rows that a warp of sum_narrow_columns loads at once.
int64_t narrow_chunk(int columns, int element_size) {
  const NarrowItem item = narrow_item(columns, element_size);
  return int64_t{kWarpSize / item.lanes} * item.items * item.rows;
}

/// Whether they are a few neighbours in rows without a gap, in one matrix or in several that follow each other.
bool are_narrow_columns(const Problem& p) {
  const int64_t columns = p.rows.size[0].value;
  if (p.rows.stride[0] != 1 || p.reduced.dims != 1 || p.reduced.stride[0] != columns) return false;
  if (p.rows.dims > 2 || (p.rows.dims == 2 && p.rows.stride[1] != p.n * columns)) return false;
  return are_narrow(p, columns, p.n, p.outputs / columns);
}

}  // namespace

bool are_narrow(const Problem& p, int64_t columns, int64_t rows, int64_t matrices) {
  if (is_wide(p) || p.misalignment != 0 || !is_narrow(columns, p.element_size)) return false;
  if (matrices == 1) return rows >= 512;
  // In a batch most of a warp's chunk should be there: (10000, 200, 4) float32 takes 12.3 us by warps of 256 rows, as
  // columns 17.6; float16, whose warps load 512, 13.7 and 10.4 (H200).
  const int64_t chunk = narrow_chunk(static_cast<int>(columns), p.element_size);
  return rows >= std::clamp<int64_t>(chunk * 3 / 4, 128, 512) && matrices <= kMaxGridY &&
         rows * columns * p.element_size % 16 == 0;
}

std::optional<Plan> plan_narrow_columns(const Problem& p, const Gpu& gpu) {
  if (!are_narrow_columns(p)) return std::nullopt;
  const int columns = static_cast<int>(p.rows.size[0].value);
  const int64_t matrices = p.outputs / columns;
  const NarrowItem item = narrow_item(columns, p.element_size);
  const int64_t chunk = narrow_chunk(columns, p.element_size);
  // Small blocks where there are many, for their barriers then overlap: (500, 1500, 12) takes 11.5 us with 4 warps for
  // each matrix, 16.6 with 16 (H200).
  const int most_warps = matrices >= 2 * gpu.multiprocessors ? 4 : matrices >= gpu.multiprocessors ? 8 : kNarrowWarps;
  const auto warps = std::min<int64_t>(most_warps, ceil_power(ceil_div(p.n, chunk)));
  const int64_t chunks = ceil_div(p.n, warps * chunk);  // of a warp
  int64_t tiles = 1;
  const auto segments = [&] { return ceil_div(chunks, tiles); };
  const auto blocks = [&](int64_t t) { return matrices * ceil_div(chunks, t); };
  const auto fewer_do = [&] { return blocks(2 * tiles) >= 0.95 * gpu.multiprocessors; };
  while (tiles < kMaxNarrowBatches && segments() > 1 && fewer_do()) tiles *= 2;
  const bool large_and_cut = warps == kNarrowWarps && segments() > 1;
  const int room = narrow_blocks(columns, p.element_size);
  if (large_and_cut && room == 1) {
    // A wave and a little more takes as long as two: as few turns as the busiest multiprocessor can have, and of these
    // as few segments. (4390912, 8) float16 takes 25.4 us in 268 segments of 4 tiles, 29.2 in 134 of 8; 75 such sums of
    // float16 8 % less in the geometric mean than with at least 126 of them, and none longer. But not down to one tile
    // each, where it is the segments that take time: (1529173, 12) float16 17.4 us in 374 of one, 15.6 in 187 of two
    // (H200).
    const auto turns = [&](int64_t t) { return ceil_div(blocks(t), gpu.multiprocessors) * std::min(t, chunks); };
    int64_t best = std::min<int64_t>(2 * tiles, kMaxNarrowBatches);
    const int64_t least = std::min<int64_t>(tiles, 2);
    for (int64_t t = best / 2; t >= least && blocks(t) <= int64_t{4} * gpu.multiprocessors; t /= 2) {
      if (turns(t) < turns(best)) best = t;
    }
    tiles = best;
  } else if (large_and_cut && tiles > 1) {
    // Two blocks a multiprocessor rather than one, if that is not a wave and a little more; of little data only where
    // segments have little to fold. With the next kernel let in when all is loaded, (2^22, 8) float32 31.8 us instead
    // of 33.3 and, behind a kernel of others, 34.0 and 34.7, (5870080, 8) 44.6 and 49.0; but (73819750, 8), in 282
    // segments instead of 141, would take 77.9 instead of 74.1, (262144, 32), in 256 of two tiles, 13.2 instead of 12.5
    // (H200).
    const int64_t wave = int64_t{room} * gpu.multiprocessors;
    const int64_t halves = blocks(tiles / 2);
    const bool little_to_fold = columns <= 8 && p.accumulate_size == 4;
    if ((tiles >= 8 || little_to_fold) && (halves <= wave || 5 * halves >= 6 * wave)) tiles /= 2;
  }
  while (tiles < kMaxNarrowBatches && !fit(p, segments(), 512)) tiles *= 2;
  if (!fit(p, segments(), kMaxSegmentsAPart * kNarrowWarps)) return std::nullopt;
  return Plan{.family = Family::narrow_columns,
              .threads = static_cast<int>(warps) * kWarpSize,
              .width = columns,
              .loads = item.loads * item.items,
              .tiles = static_cast<int>(tiles),
              .segments = static_cast<int>(segments())};
}

}  // namespace reduce_ops::sum
