// What an element costs with a plan, in instructions of a lane, and which of two plans is cheaper.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "plan/families.h"
#include "plan/visits.h"

namespace reduce_ops::sum {
namespace {

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

double cost_of_columns(const Problem& p, const Gpu& gpu) {
  const Strides& r = p.reduced;
  if (in_memory_order(r) || p.columns.stride[0] == 0) return 0;
  const uint64_t apart = distance(p.columns.stride[0]);
  const bool across = std::any_of(r.stride, r.stride + r.dims, [&](int64_t s) { return distance(s) < apart; });
  // Each lane reads sectors of its own, of which smaller elements are in L1 when the order comes back to them: 63
  // layouts of 8 bytes 1.14 times as fast by boxes, 82 of less 0.94 (H100).
  if (across) return p.element_size >= 8 ? (exceeds_l2(p, gpu) ? 3.9 : 4.5) * least_cost(p) : 0;
  // Pieces of all columns, of which the sectors around are gone when the order comes to the next one, if there is more
  // than L2 holds: 116 layouts 1.05 times as fast by boxes, 20 of them no longer under half of torch.sum's speed
  // (H100).
  if (p.columns.dims > 1 || !exceeds_l2(p, gpu)) return 0;
  const int64_t piece = p.columns.size[0].value * std::abs(p.columns.stride[0]) * p.element_size;
  return 208. / static_cast<double>(std::max<int64_t>(piece, 2 * kSectorBytes)) * least_cost(p);
}

/// How a plan of rows, lines or columns comes along the elements.
Visits visits_of(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, const Gpu& gpu) {
  Visits visits;
  const auto outputs = static_cast<double>(p.outputs);
  const auto segments = static_cast<double>(plan.segments);
  if (plan.family == Family::lines) {
    const int64_t stretch = std::min<int64_t>(plan.tiles, lines->length);
    const int64_t all = p.outputs * lines->count * ceil_div(lines->length, stretch);
    const auto walkers = static_cast<double>(std::min(all, wave_of_lines(p, gpu)));
    Strides every_line;
    lines_of_all(p, lines->dim, every_line);
    visits.add_walkers(in_order_of_memory(every_line), 1, static_cast<double>(stretch), walkers);
    visits.add_walks(p.reduced, lines->dim, static_cast<double>(stretch), walkers);
  } else if (plan.family == Family::columns) {
    const double columns = std::min(outputs, std::max(1., 128. * gpu.multiprocessors * plan.vector / segments));
    visits.add_walkers(p.columns, 1, static_cast<double>(p.n), columns);
    visits.add_walks(p.reduced, p.reduced.dims, std::ceil(static_cast<double>(p.n) / segments), segments * columns);
  } else {
    const int per_load = is_single(plan.layout) ? 1 : 16 / p.element_size;
    const double of_block = static_cast<double>(plan.threads) * plan.loads * per_load * plan.tiles;
    const double stretch = std::min(of_block, static_cast<double>(p.n));
    const double walkers = std::min(outputs * segments, static_cast<double>(wave_of(plan.threads, gpu)));
    visits.add_walks(p.reduced, p.reduced.dims, stretch, walkers);
    visits.add_walkers(p.kept, segments, stretch, walkers);
  }
  return visits;
}

/// Bytes from memory for each byte of an element where many of them are read again, and 0 where they are not.
double read_again(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, const Gpu& gpu) {
  constexpr double kSure = 0.309375;  // of L2, what is sure to be there still: 18.5625 of an H200's 60 MiB
  constexpr double kMany = 1.5;
  const Visits visits = visits_of(p, plan, lines, gpu);
  const double bytes = visits.bytes_from_memory(p.element_size, kSure * static_cast<double>(gpu.l2_bytes));
  return bytes < kMany * visits.bytes_from_memory(p.element_size, HUGE_VAL) ? 0 : bytes;
}

/// The cost where much is read from memory again, and 0 where it is not.
double cost_of_rereading(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, const Gpu& gpu) {
  const double bytes = read_again(p, plan, lines, gpu);
  if (bytes == 0) return 0;
  if (plan.family == Family::lines) {
    return (9 * p.element_size * bytes + 18) * loads_along_lines(plan, *lines);
  }
  if (plan.family == Family::rows && is_single(plan.layout)) return cost_of_single(p, bytes);
  return (9.5 * bytes + 2.5) * p.element_size + 3;
}

/// Fitted to random layouts of 1 to 256 MiB: lines, tiles and single elements, most of them within a third (H200), and
/// for the rest how dear a box may be (H100).
double cost_of(const Problem& p, const Plan& plan, const std::optional<Lines>& lines, const Gpu& gpu) {
  constexpr double kLeastWaves = 1. / 16;  // about a MiB; less takes as long either way
  const double waves = waves_of(p, gpu);
  if (waves < kLeastWaves) return 0;
  const auto or_rereading = [&](double cost) {
    return exceeds_l2(p, gpu) ? std::max(cost, cost_of_rereading(p, plan, lines, gpu)) : cost;
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
      return or_rereading(cost_of_columns(p, gpu));
    default:
      return 0;
  }
}

}  // namespace

/// Family::boxes instead of a plan that leaves much of each sector unused, or whose blocks wait longer than they work.
/// Estimates are right within a half where L2 holds the data, and within a tenth of much data. There a smaller margin,
/// and what is read again, give boxes to one random layout in 240 more, 1.15 times as fast in the geometric mean, one
/// in ten of them more than 10 % slower: of 4517 such layouts 303 were under half of torch.sum's speed, now 24 (H100).
std::optional<Plan> plan_boxes_instead(const Problem& p, const Plan& plan, const std::optional<Lines>& lines,
                                       const Gpu& gpu) {
  const double waves = waves_of(p, gpu);
  const double margin = !exceeds_l2(p, gpu) ? 1.5 : waves < 6 ? 1.3 : plan.family == Family::rows ? 1.2 : 1.1;
  const double cost = cost_of(p, plan, lines, gpu);
  if (cost < margin * least_cost(p)) return std::nullopt;
  const auto boxes = plan_boxes(p, gpu);
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
bool beat_lines(const Problem& p, const Plan& rows, const Plan& other, const Gpu& gpu) {
  if (is_wide(p) || !is_single(rows.layout)) return false;
  const double waves = waves_of(p, gpu);
  const bool little = waves < 0.5;
  const bool much = exceeds_l2(p, gpu);
  const bool pitched = rows.layout == Layout::pitched;
  const bool again = read_again(p, rows, std::nullopt, gpu) > 0;
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

}  // namespace reduce_ops::sum
