#include "ladder/schedule.h"

namespace reduce_ops::ladder {
namespace {

using Rounds = std::vector<Round>;

/// distance = first, first / 2, ..., last: the first `distance` threads add the upper half to the lower half.
void halve(Rounds& rounds, int first, int last) {
  for (int d = first; d >= last; d /= 2) rounds.push_back({Step::shared, d, 1, 1, d, Barrier::block});
}

/// Warp 0 alone, every lane in every step.
void fold_last_warp_in_shared(Rounds& rounds) {
  for (int d = kWarpSize; d >= 1; d /= 2) rounds.push_back({Step::shared, kWarpSize, 1, 1, d, Barrier::warp});
}

/// Every lane of `threads` / 32 warps in every step.
void fold_warps_by_shuffle(Rounds& rounds, int threads, int first) {
  for (int d = first; d >= 1; d /= 2) rounds.push_back({Step::shuffle, threads, 1, 1, d, Barrier::none});
}

}  // namespace

const std::vector<Rung>& rungs() {
  static const std::vector<Rung> list = {
#define RUNG(number, elements, title, summary) Rung{number, elements, title, summary, {kBlockSize}},
#define RUNG_WITH_BLOCK_SIZE(number, elements, title, summary, ...) \
  Rung{number, elements, title, summary, {__VA_ARGS__}},
#include "ladder/ladder.def"
  };
  return list;
}

Schedule make_schedule(int version, int block_size) {
  Schedule schedule{Load::store, {}};
  Rounds& rounds = schedule.rounds;
  switch (version) {
    case 0:  // every 2d-th thread adds its neighbour at distance d
      for (int d = 1; d < block_size; d *= 2) {
        rounds.push_back({Step::shared, block_size / (2 * d), 2 * d, 2 * d, d, Barrier::block});
      }
      break;
    case 1:  // the same adds, done by the first threads
      for (int d = 1; d < block_size; d *= 2) {
        rounds.push_back({Step::shared, block_size / (2 * d), 1, 2 * d, d, Barrier::block});
      }
      break;
    case 2:
    case 3:
      halve(rounds, block_size / 2, 1);
      break;
    case 6:
      schedule.load = Load::accumulate;
      [[fallthrough]];
    case 4:
    case 5:
      halve(rounds, block_size / 2, 2 * kWarpSize);
      fold_last_warp_in_shared(rounds);
      break;
    case 7:
      schedule.load = Load::keep;
      fold_warps_by_shuffle(rounds, block_size, kWarpSize / 2);
      rounds.push_back({Step::collect, block_size / kWarpSize, kWarpSize, 1, 0, Barrier::block});
      fold_warps_by_shuffle(rounds, kWarpSize, block_size / kWarpSize / 2);
      break;
    case 8:
      schedule.load = Load::accumulate;
      halve(rounds, block_size / 2, 2 * kWarpSize);
      rounds.push_back({Step::fetch, kWarpSize, 1, 1, kWarpSize, Barrier::none});
      fold_warps_by_shuffle(rounds, kWarpSize, kWarpSize / 2);
      break;
  }
  return schedule;
}

}  // namespace reduce_ops::ladder
