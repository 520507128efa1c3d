#include <algorithm>

#include "exact/exact_kernels.h"
#include "plan/plan.h"

namespace reduce_ops::exact {
namespace {

using sum::ceil_div;

constexpr int kWarp = 32;

/// Blocks that can publish a state each.
int64_t max_states(Terms t) {
  const int limbs = by_kind(t, Layout32::kLimbs, Layout32::kLimbs, Layout64::kLimbs, SquaresLayout32::kLimbs,
                            SquaresLayout64::kLimbs);
  return sum::max_slots(sizeof(uint32_t)) / (limbs + 2);  // a digit more, and what else there is
}

/// As many of the warps as so many bytes have room for their bins.
int with_room(int warps, Terms t, int bytes) { return std::min(warps, (bytes - kStaticBytes) / bins_bytes(t)); }

int warps_of_run(Terms t, const Gpu& gpu) { return with_room(run_warps(t), t, gpu.shared_memory); }

/// Segments of an output: as many as fit, but one at least; none where that is too few for n.
int segments_of(int64_t wanted, int64_t n, int64_t outputs, Terms t) {
  const int64_t most = max_states(t) / outputs;
  const int64_t least = ceil_div(n, max_elements_a_block(t));
  const int64_t segments = std::max(std::min(wanted, most), int64_t{1});
  if (segments >= least) return static_cast<int>(segments);
  return least <= most ? static_cast<int>(least) : 0;
}

/// Blocks of a run: as many warps as there are chunks for. Each has bins to clear and to add up in the end, and each
/// block has a segment to publish, so small sums take fewer: a block a multiprocessor up to 2^24 elements, of 8 warps
/// up to 1 MiB of float32, 2 of narrower ones (H200, float32, us: 2^18 in 64 blocks of 8 warps 4.0, of 16 warps 4.5;
/// 2^19 in 128 of 8 warps 5.1, of 16 4.7; 2^20 in 132 blocks 5.2, in 256 6.5; 2^22 in 132 8.4, in 264 9.9; 2^24 in
/// 132 19.9, in 264 21.1; 2^26 in 132 67.7, in 264 64.1).
Plan plan_run(const Problem& p, Terms t, const Gpu& gpu) {
  const int element_size = t.element_size;
  const int64_t groups = p.n * element_size / 16;
  const bool small = groups <= (element_size == 4 ? 1 << 16 : 1 << 17) && element_size < 8;
  const bool large = p.n * p.outputs > int64_t{1} << 24;
  const int64_t blocks = ceil_div((large ? run_blocks(t) : 1) * gpu.multiprocessors, p.outputs);
  Plan plan{.family = Family::run, .warps = small ? 8 : warps_of_run(t, gpu)};
  const bool few = small ? groups < 1 << 15 : groups < blocks * plan.warps * kWarp * 4;
  plan.loads = few && p.outputs == 1 ? 2 : 4;
  const int64_t chunks = ceil_div(groups, int64_t{plan.warps} * kWarp * plan.loads);  // of a block
  plan.segments = segments_of(std::min(blocks, chunks), p.n, p.outputs, t);
  return plan;
}

/// Blocks of columns: narrower ones where a full width leaves multiprocessors idle, but not less than a sector of 32
/// bytes; of few warps where there are many blocks, so that some add while others finish, of many where there are few.
Plan plan_columns(const Problem& p, Terms t, const Gpu& gpu) {
  Plan plan{.family = Family::columns, .width = static_cast<int>(std::min<int64_t>(p.outputs, kWarp))};
  while (plan.width / 2 * t.element_size >= 32 && p.outputs < 4 * gpu.multiprocessors * plan.width) plan.width /= 2;
  const int64_t blocks = ceil_div(p.outputs, plan.width);
  const int64_t used = ceil_div(p.n, kWarp / plan.width * kColumnLoads);  // warps with something to add
  const bool many = blocks >= 2 * gpu.multiprocessors;
  const int most = with_room(many ? column_warps(t) : all_column_warps(t), t, gpu.shared_memory - totals_bytes(t));
  plan.warps = static_cast<int>(std::clamp<int64_t>(used, std::min(4, most), most));
  plan.segments = segments_of(std::min(gpu.multiprocessors / blocks, ceil_div(used, plan.warps)), p.n, p.outputs, t);
  return plan;
}

}  // namespace

Plan make_plan(const Problem& p, Terms t, const Gpu& gpu) {
  // Elements of an output that a lane adds up by itself: a warp that ends a row after so few takes longer.
  constexpr int64_t kShort = 64;
  if (!sum::is_run(p.reduced) || p.n <= kShort) return plan_columns(p, t, gpu);
  if (p.outputs < gpu.multiprocessors * int64_t{16} || p.n > max_elements_a_block(t)) return plan_run(p, t, gpu);
  const int warps = warps_of_run(t, gpu);
  const int64_t blocks = std::min<int64_t>(run_blocks(t) * gpu.multiprocessors, ceil_div(p.outputs, warps));
  return {.family = Family::rows, .warps = warps, .blocks = static_cast<int>(blocks)};
}

}  // namespace reduce_ops::exact
