#include "ladder/schedule.h"

namespace reduce_ops::ladder {
namespace {

/// distance = first, first / 2, ..., last: the first `distance` threads add the upper half to the lower half.
void halve(std::vector<Round>& rounds, int first, int last) {
  for (int d = first; d >= last; d /= 2) rounds.push_back({Step::shared, d, 1, 1, d});
}

/// Warp 0 alone, every lane in every step.
void fold_last_warp_in_shared(std::vector<Round>& rounds) {
  for (int d = kWarpSize; d >= 1; d /= 2) rounds.push_back({Step::shared, kWarpSize, 1, 1, d});
}

/// Every lane of `threads` / 32 warps in every step.
void fold_warps_by_shuffle(std::vector<Round>& rounds, int threads, int first) {
  for (int d = first; d >= 1; d /= 2) rounds.push_back({Step::shuffle, threads, 1, 1, d});
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

std::vector<Round> make_rounds(int version, int block_size) {
  std::vector<Round> rounds;
  switch (version) {
    case 0:  // every 2d-th thread adds its neighbour at distance d
      for (int d = 1; d < block_size; d *= 2) rounds.push_back({Step::shared, block_size / (2 * d), 2 * d, 2 * d, d});
      break;
    case 1:  // the same adds, done by the first threads
      for (int d = 1; d < block_size; d *= 2) rounds.push_back({Step::shared, block_size / (2 * d), 1, 2 * d, d});
      break;
    case 2:
    case 3:
      halve(rounds, block_size / 2, 1);
      break;
    case 4:
    case 5:
    case 6:
      halve(rounds, block_size / 2, 2 * kWarpSize);
      fold_last_warp_in_shared(rounds);
      break;
    case 7:
      fold_warps_by_shuffle(rounds, block_size, kWarpSize / 2);
      rounds.push_back({Step::collect, block_size / kWarpSize, kWarpSize, 1, 0});
      fold_warps_by_shuffle(rounds, kWarpSize, block_size / kWarpSize / 2);
      break;
    case 8:
      halve(rounds, block_size / 2, 2 * kWarpSize);
      rounds.push_back({Step::shared, kWarpSize, 1, 1, kWarpSize});  // shared memory into registers
      fold_warps_by_shuffle(rounds, kWarpSize, kWarpSize / 2);
      break;
  }
  return rounds;
}

}  // namespace reduce_ops::ladder
