// Sources (sources.cuh) of runs that begin anywhere.

#pragma once

#include "device/sources.cuh"

namespace reduce_ops::sum {

/// A run that starts anywhere.
struct Run {
  const uint4* word;  // the aligned one that it starts in
  unsigned bytes;     // ahead of it in that

  static __device__ Run of(const void* first) {
    const auto address = reinterpret_cast<uintptr_t>(first);
    return {reinterpret_cast<const uint4*>(address & ~uintptr_t{kLoadBytes - 1}),
            static_cast<unsigned>(address % kLoadBytes)};
  }

  template <typename In>
  __device__ const In* at(int64_t i) const {
    return reinterpret_cast<const In*>(reinterpret_cast<const char*>(word) + bytes) + i;
  }
};

/// One run an output, which starts anywhere, a fixed distance apart. Derived: how its words become groups.
template <typename Derived, typename In, typename Acc, int kLoads>
struct OneRun : Groups<Derived, In, Acc, kLoads>, PitchedRows {
  using Row = Run;
  using Argument = PitchedRows;

  __device__ Row row(int64_t i) const { return Run::of(static_cast<const In*>(data) + i * pitch); }
  __device__ static const In* at(const Row& row, int64_t i) { return row.at<In>(i); }

  /// The run may end in a line that no group begins in.
  __device__ void prefetch(const Row& row, int64_t first, int64_t n, unsigned lane) const {
    Groups<Derived, In, Acc, kLoads>::prefetch(row, first, n, lane);
    if (lane == 0 && n - first <= OneRun::kChunk) reduce_ops::prefetch(at(row, n - 1));
  }
};

/// Of integers, whose order is free: groups are the aligned words as they lie, of the first one without the bytes ahead
/// of the run. So a chunk has as many elements ahead of its leaves as it leaves to the next one, and the last chunk all
/// that is left. (Before the run there is memory of the same allocation, which starts at a multiple of 16 bytes.)
template <typename In, typename Acc, int kLoads>
struct Unordered : OneRun<Unordered<In, Acc, kLoads>, In, Acc, kLoads> {
  using All = Groups<Unordered, In, Acc, kLoads>;
  /// With none behind it a chunk is the last one, which also takes what its groups leave over: a ragged one, if full.
  static constexpr int kSlack = 1;

  __device__ static int ahead(const Run& row) { return static_cast<int>(row.bytes / sizeof(In)); }
  __device__ static int whole(const Run& row, int m) { return (m + ahead(row)) / kPerLoad<In>; }
  __device__ static uint4 group(const Run& row, int64_t g) { return load_once(row.word + g); }

  template <typename Use>
  __device__ void groups(const Run& row, int64_t g, unsigned lane, int64_t rest, const Use& use) const {
    All::groups(row, g, lane, rest, behind_start(row, g, use));
  }
  template <typename Use>
  __device__ void whole_groups(const Run& row, int64_t g, unsigned lane, int whole, const Use& use) const {
    All::whole_groups(row, g, lane, whole, behind_start(row, g, use));
  }

 private:
  template <typename Use>
  __device__ static auto behind_start(const Run& row, int64_t g, const Use& use) {
    return [&row, g, &use](int u, uint4 word) {
      if (u == 0 && g == 0) {
        const auto part = [bytes = static_cast<int>(row.bytes)](uint32_t x, int begin) {
          const int bits = min(max(bytes - begin, 0), 4) * 8;
          return bits == 32 ? 0 : x >> bits << bits;
        };
        word = {part(word.x, 0), part(word.y, 4), part(word.z, 8), part(word.w, 12)};
      }
      use(u, word);
    };
  }
};

inline constexpr int kAnyWords = -1;

/// How ShiftedBy takes the word behind a full chunk, of which its last lane needs a part, of elements of 1 or 2 bytes.
enum class Behind {
  whole,  // in one load: a chunk whose run ends in that word is a ragged one
  parts,  // where the run ends in that word, what there is of it in smaller ones
};

/// Lanes load the aligned words of 16 bytes that hold a run; the bytes of a lane's group lie in its own word and in the
/// next lane's, so the lanes hand each other what is missing, and only the last lane of a chunk loads what it needs of
/// a second word. No load reaches beyond the last element, where the allocation may end; before the first one there is
/// memory of the same allocation, which starts at a multiple of 16 bytes. (Loading both words in every lane is simpler
/// and takes 263 us instead of 235 at 2^28 float32: the second load only hits if the first one is kept in L1, which
/// costs as much as it saves.)
///
/// kWords: how many parts of 4 bytes a run skips in its first word, if all skip as many and it is known when compiling.
/// The other ways to hand words on are not in the code then, which a launch of little data would have to find its way
/// through: 2^17 float32, off by one, 1.94 us instead of 2.03, aligned 1.92; in a row 1.57, 1.67 and 1.56 (H200).
template <typename In, typename Acc, int kLoads, int kWords, Behind kBehind>
struct ShiftedBy : OneRun<ShiftedBy<In, Acc, kLoads, kWords, kBehind>, In, Acc, kLoads> {
  static_assert(!std::is_integral_v<Acc>);
  /// Elements of 4 bytes and more are always taken from a second word one by one.
  static constexpr int kSlack = sizeof(In) < 4 && kBehind == Behind::whole ? kPerLoad<In> : 0;

  __device__ static int whole(const Run& row, int m) {
    return max((m * static_cast<int>(sizeof(In)) + static_cast<int>(row.bytes)) / kLoadBytes - 1, 0);
  }
  template <typename Use>
  __device__ static void groups(const Run& row, int64_t group, unsigned lane, int64_t rest, const Use& use) {
    const uint4* p = row.word + group;
    uint4 word[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) word[u] = load_once(p + u * kWarpSize);
    uint4 last{};
    if (lane == kWarpSize - 1) {
      const uint4* behind = p + (kLoads - 1) * kWarpSize + 1;
      const bool in_one = sizeof(In) < 4 && rest >= ShiftedBy::kChunk + kPerLoad<In>;
      last = kSlack > 0 || in_one ? load_once(behind) : start_of(behind, row);
    }
    hand_on(row, word, last, lane, use);
  }
  template <typename Use>
  __device__ static void whole_groups(const Run& row, int64_t group, unsigned lane, int whole, const Use& use) {
    const uint4* p = row.word + group;
    const int words = whole > 0 ? whole + 1 : 0;
    uint4 word[kLoads] = {};
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      if (static_cast<int>(lane) + u * kWarpSize < words) word[u] = load_once(p + u * kWarpSize);
    }
    uint4 last{};
    if constexpr (kSlack > 0) {
      if (kLoads * kWarpSize <= whole && lane == kWarpSize - 1) last = load_once(p + (kLoads - 1) * kWarpSize + 1);
    }
    // Of many small elements four copies of this, which few warps run, cost the others registers: 2^26 int8, off by
    // one, took 17.9 us instead of 16.5 when integers were handed on too (H200).
    if constexpr (sizeof(In) < 4 && kLoads > 4) {
      hand_on_behind(row, words_of(row), word, last, lane, use);
    } else {
      hand_on(row, word, last, lane, use);
    }
  }

 private:
  /// Of 4 bytes ahead of the run; then come bits.
  static __device__ unsigned words_of(const Run& row) {
    return kWords < 0 ? row.bytes / 4 : static_cast<unsigned>(kWords);
  }

  /// As many bytes of a word as are ahead of the run in its first one: those that a chunk needs of the word behind it.
  static __device__ uint4 start_of(const uint4* word, const Run& row) {
    const auto* part = reinterpret_cast<const uint32_t*>(word);
    const unsigned words = words_of(row);
    uint4 start{};
    if (words > 0) start.x = load_once(part);
    if (words > 1) start.y = load_once(part + 1);
    if (words > 2) start.z = load_once(part + 2);
    if constexpr (sizeof(In) < 4) {
      const auto* end = reinterpret_cast<const uint8_t*>(part + words);
      const unsigned bytes = row.bytes % 4;
      uint32_t last = 0;
      if (bytes & 2) last = *reinterpret_cast<const uint16_t*>(end);
      if (sizeof(In) == 1 && bytes & 1) last |= uint32_t{end[bytes & 2]} << (bytes & 2) * 8;
      if (words == 0) start.x = last;
      if (words == 1) start.y = last;
      if (words == 2) start.z = last;
      if (words == 3) start.w = last;
    }
    return start;
  }

  /// From words to groups. last: the word behind the last one of lane 31. How much of a word is to be skipped is the
  /// same for all lanes of a warp: asked for once, it is no choice for every word. 2^23 float32, off by one, 9.8 us
  /// instead of 10.5, aligned 9.5 (H200).
  template <typename Use>
  static __device__ void hand_on(const Run& row, uint4 (&word)[kLoads], const uint4& last, unsigned lane,
                                 const Use& use) {
    if constexpr (sizeof(In) == 8) {
      // In place, as all sums of groups of so few elements take as many registers: 2^22 float64 11.7 us, used as they
      // come 16.2 (H200).
      const auto keep = [&word](int u, const uint4& group) { word[u] = group; };
      if (words_of(row) == 0) {
        hand_on_behind(row, 0, word, last, lane, keep);
      } else {
        hand_on_behind(row, 2, word, last, lane, keep);
      }
#pragma unroll
      for (int u = 0; u < kLoads; ++u) use(u, word[u]);
    } else {
      switch (words_of(row)) {
        case 0:
          return hand_on_behind(row, 0, word, last, lane, use);
        case 1:
          return hand_on_behind(row, 1, word, last, lane, use);
        case 2:
          return hand_on_behind(row, 2, word, last, lane, use);
        default:
          return hand_on_behind(row, 3, word, last, lane, use);
      }
    }
  }

  /// The same behind the first `words` of 4 bytes.
  template <typename Use>
  static __device__ __forceinline__ void hand_on_behind(const Run& row, unsigned words, const uint4 (&word)[kLoads],
                                                        const uint4& last, unsigned lane, const Use& use) {
    const unsigned wanted = words + (sizeof(In) < 4 ? 1 : 0);  // of the next word
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const bool ends = u == kLoads - 1;
      const auto next = [&](uint32_t uint4::* x) {  // lane 31's next word is lane 0's of the next load
        const uint32_t given = lane == 0 && !ends ? word[ends ? u : u + 1].*x : word[u].*x;
        const uint32_t got = __shfl_sync(kFullWarp, given, (lane + 1) % kWarpSize);
        return ends && lane == kWarpSize - 1 ? last.*x : got;
      };
      uint32_t w[8] = {word[u].x, word[u].y, word[u].z, word[u].w};
      if (wanted > 0) w[4] = next(&uint4::x);
      if (wanted > 1) w[5] = next(&uint4::y);
      if (wanted > 2) w[6] = next(&uint4::z);
      if (wanted > 3) w[7] = next(&uint4::w);
      if (words & 2) {
#pragma unroll
        for (int i = 0; i < 6; ++i) w[i] = w[i + 2];
      }
      if (words & 1) {
#pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = w[i + 1];
      }
      if constexpr (sizeof(In) < 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) w[i] = __funnelshift_r(w[i], w[i + 1], row.bytes % 4 * 8);
      }
      use(u, uint4{w[0], w[1], w[2], w[3]});
    }
  }
};

template <typename In, typename Acc, int kLoads, Behind kBehind>
using AnyShift = std::conditional_t<std::is_integral_v<Acc>, Unordered<In, Acc, kLoads>,
                                    ShiftedBy<In, Acc, kLoads, kAnyWords, kBehind>>;

template <typename In, typename Acc, int kLoads>
using Shifted = AnyShift<In, Acc, kLoads, Behind::whole>;

/// For a block, one of whose warps meets the end of the run, and all others wait for that: off by one, 2^13
/// float16 1.40 us, with Behind::whole 1.44. Of grids it lost, 2^18 float16 2.01 us instead of 1.90 (H200, in a row).
template <typename In, typename Acc, int kLoads>
using ShiftedInBlock = AnyShift<In, Acc, kLoads, Behind::parts>;

/// One output, in one shifted run, of at most 2^11 elements of 4 bytes or 2^10 of 8: each lane loads its own groups,
/// element by element. L1 then hands out four words in four times the time of one, but the lanes hand nothing on. H200,
/// in a row: float32 2^8 1.06 us, Shifted 1.08, Aligned 1.04; 2^11 1.28, 1.28 and 1.23, but 2^12 1.42, 1.35 and 1.30;
/// float64 2^7 1.08, 1.13 and 1.08; 2^10 1.30, 1.32 and 1.29.
template <typename In, typename Acc, int kLoads>
struct ByElement : Groups<ByElement<In, Acc, kLoads>, In, Acc, kLoads>, OneRow {
  static constexpr int kSlack = 0;
  using Row = const In*;
  using Argument = OneRow;

  __device__ Row row(int64_t) const { return static_cast<const In*>(data); }
  __device__ static const In* at(Row row, int64_t i) { return row + i; }
  __device__ static int whole(Row, int m) { return m / kPerLoad<In>; }

  __device__ static uint4 group(Row row, int64_t g) {
    const In* const first = row + g * kPerLoad<In>;
    return load_each<In>([&](int k) { return first + k; });
  }
};

/// For so little. Integers stay where they are, and floats of 1 or 2 bytes are handed on.
template <typename In, typename Acc, int kLoads>
using ShiftedLittle = std::conditional_t<!std::is_integral_v<Acc> && sizeof(In) >= 4, ByElement<In, Acc, kLoads>,
                                         ShiftedInBlock<In, Acc, kLoads>>;

}  // namespace reduce_ops::sum
