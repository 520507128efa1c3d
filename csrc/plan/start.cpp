// What a plan says of the launches before and behind it (early_start.cuh).

#include "plan/families.h"

namespace reduce_ops::sum {

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
int prefetching(const Problem& p, const Plan& plan, const Gpu& gpu) {
  const double waves = waves_of(p, gpu);
  const auto wave = static_cast<int>(wave_of(plan.threads, gpu));
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
      const bool wave_gains = 10 * column_blocks(p, plan) >= 9 * gpu.multiprocessors && (are_lines(p) || waves >= 3);
      const bool gain = plan.threads > 256 ? wave_gains : p.n >= 512;
      const bool much = waves >= kManyWaves && (plan.threads > 256 || plan.segments > 1);
      return can && gain && waves >= 2 && !much ? gpu.multiprocessors : 0;
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
LetNext let_next(const Problem& p, const Plan& plan, const Gpu& gpu) {
  // Whether so many blocks take at least a share of the room of all multiprocessors, which have it for so many threads.
  const auto take = [&](double share, int64_t blocks, int room) {
    return static_cast<double>(blocks * plan.threads) >= share * room * gpu.multiprocessors;
  };
  const auto fill = [&](int64_t blocks, int room) { return p.element_size > 1 && take(0.95, blocks, room); };
  const auto are_one_each = [&](int64_t blocks) {
    return blocks <= gpu.multiprocessors && 10 * blocks >= 9 * gpu.multiprocessors;
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
      const bool much = waves_of(p, gpu) >= kManyWaves;
      if (blocks <= gpu.multiprocessors && plan.prefetching > 0) return LetNext::at_start;
      if (!much && (are_one_each(blocks) || 2 * blocks <= gpu.multiprocessors)) return LetNext::at_start;
      const bool soon_done = plan.tiles == 1 || (plan.tiles == 2 && plan.segments > 1);
      const bool loaded = soon_done || fill(blocks, plan.vector > 1 ? 512 : 1024);
      return plan.threads <= 256 && loaded ? LetNext::when_loaded : LetNext::at_end;
    }
    default:
      return LetNext::at_end;
  }
}

void set_start(const Problem& p, Plan& plan, const Gpu& gpu) {
  plan.prefetching = prefetching(p, plan, gpu);
  plan.let_next = let_next(p, plan, gpu);
}

}  // namespace reduce_ops::sum
