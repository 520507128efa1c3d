// Where the elements of long runs come from. A source turns an aligned range of kChunk leaves of one output into one
// value, by one warp; rows.cuh does the rest. They differ in how a lane loads, not in the tree. (Of integers, which
// have no order, any kChunk elements will do, if each is in one of them.)

#pragma once

#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/strides.cuh"

namespace reduce_ops::sum {

/// Elements that lie in groups of 16 bytes. Derived has a type Row, what it knows of one output, and
///   row(i): that of output i;
///   group(row, g): what lies in group g; or groups() and whole_groups() of its own, where lanes share what they load;
///   at(row, i): the address of element i;
///   whole(row, m): how many of the groups of the next m elements, which are the last ones, whole_groups() may read
///     without passing the end;
///   ahead(row), unless 0, of integers only: how many elements ahead of its leaves a chunk's groups begin, and end;
///   kSlack: how many elements there must be behind a chunk for groups();
///   Argument: the plain struct that the host passes for it, which is its only base with members.
template <typename Derived, typename InT, typename AccT, int kLoads>
struct Groups {
  using In = InT;
  using Acc = AccT;
  static constexpr int kCount = kPerLoad<In>;
  static constexpr int64_t kChunk = int64_t{kLoads} * kWarpSize * kCount;

  /// Calls use(u, group) for each group of a lane of a full chunk: the u-th is group g + 32 u. All are on their way
  /// before the first one is used. (rest: the elements from the start of the chunk on.)
  template <typename Row, typename Use>
  __device__ void groups(const Row& row, int64_t g, unsigned, int64_t, const Use& use) const {
    uint4 load[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) load[u] = derived().group(row, g + u * kWarpSize);
#pragma unroll
    for (int u = 0; u < kLoads; ++u) use(u, load[u]);
  }

  /// The same if only the first `whole` groups of the chunk may be loaded; the others are anything, of integers 0.
  template <typename Row, typename Use>
  __device__ void whole_groups(const Row& row, int64_t g, unsigned lane, int whole, const Use& use) const {
    uint4 load[kLoads] = {};  // as in fold_rows_left
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      if (static_cast<int>(lane) + u * kWarpSize < whole) load[u] = derived().group(row, g + u * kWarpSize);
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) use(u, opaque(load[u]));
  }

  /// Leaves [first, first + kChunk) of n, all of which exist, and kSlack more. first: a multiple of kChunk.
  template <typename Row>
  __device__ Acc chunk(const Row& row, int64_t first, int64_t n, unsigned lane) const {
    ChunkSum<In, Acc, kLoads> sum;
    const auto add = [&sum](int u, const uint4& group) { sum.add(u, group); };
    derived().groups(row, group_of(first) + lane, lane, n - first, add);
    return sum.total(lane);
  }

  /// Has L2 load what there is of such a chunk in a run of n elements.
  template <typename Row>
  __device__ void prefetch(const Row& row, int64_t first, int64_t n, unsigned lane) const {
    const int count = static_cast<int>(min(n - first, kChunk));
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int i = (u * kWarpSize + static_cast<int>(lane)) * kCount;
      if (i < count) reduce_ops::prefetch(derived().at(row, first + i));
    }
  }

  /// chunk() where the run ends at n, before `first` + kChunk + kSlack: leaves from n on count as the identity.
  ///
  /// Elements behind the last group that may be loaded whole, fewer than two groups, are read one a lane, in flight
  /// with the groups. Integers are added where they are; others are folded across the lanes and handed to the lanes
  /// that own their groups.
  template <typename Row>
  __device__ Acc ragged_chunk(const Row& row, int64_t first, int64_t n, unsigned lane) const {
    static_assert(2 * kCount <= kWarpSize);
    const int64_t group = group_of(first);
    const int rest = static_cast<int>(n - first);
    const int whole = derived().whole(row, rest);
    const int ahead = derived().ahead(row);
    const int left = min(rest, static_cast<int>(kChunk)) + ahead - whole * kCount;
    const int64_t i = first - ahead + whole * kCount + lane;  // of integers below 0 if not even one word is whole
    In element{};
    const bool exists = static_cast<int>(lane) < left && (!std::is_integral_v<Acc> || i >= 0);
    if (exists) element = *derived().at(row, i);
    if constexpr (std::is_integral_v<Acc>) {
      ChunkSum<In, Acc, kLoads> sum;
      derived().whole_groups(row, group + lane, lane, whole, [&sum](int u, const uint4& load) { sum.add(u, load); });
      sum.add(element);
      return sum.total(lane);
    } else {
      Acc x[kLoads];
      derived().whole_groups(row, group + lane, lane, whole, [&](int u, const uint4& load) {
        x[u] = select(u * kWarpSize + static_cast<int>(lane) < whole, fold_load<In, Acc>(load), identity<Acc>());
      });
      Acc leaf = select(static_cast<int>(lane) < left, convert<Acc>(element), identity<Acc>());
#pragma unroll
      for (int mask = 1; mask < kCount; mask *= 2) leaf += shuffle_xor(leaf, mask);
      const int mine = (lane - whole) % kWarpSize;  // of the groups left, the one that this lane owns
      const Acc sum = shuffle(leaf, mine * kCount % kWarpSize);
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        x[u] = select(mine * kCount < left && u == (whole + mine) / kWarpSize, sum, x[u]);
      }
      return fold_exchange(x, lane);
    }
  }

  template <typename Row>
  __device__ static int ahead(const Row&) {
    return 0;
  }

 private:
  __device__ const Derived& derived() const { return static_cast<const Derived&>(*this); }

  static __device__ int64_t group_of(int64_t element) {
    return static_cast<int64_t>(static_cast<uint64_t>(element) / kCount);
  }
};

/// One run an output, each starting at a multiple of 16 bytes, a fixed distance apart.
template <typename In, typename Acc, int kLoads>
struct Aligned : Groups<Aligned<In, Acc, kLoads>, In, Acc, kLoads>, PitchedRows {
  static constexpr int kSlack = 0;
  using Row = const In*;
  using Argument = PitchedRows;

  __device__ Row row(int64_t i) const { return static_cast<const In*>(data) + i * pitch; }
  __device__ static const In* at(Row row, int64_t i) { return row + i; }
  __device__ static int whole(Row, int m) { return m / kPerLoad<In>; }
  __device__ static uint4 group(Row row, int64_t g) { return load_once(reinterpret_cast<const uint4*>(row) + g); }
};

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

/// A group of elements that are loaded one by one, through L1, where a line stays until the last of them is: the k-th
/// is at at(k).
template <typename In, typename At>
__device__ uint4 load_each(const At& at) {
  using Word = std::conditional_t<
      sizeof(In) == 1, uint8_t,
      std::conditional_t<sizeof(In) == 2, uint16_t, std::conditional_t<sizeof(In) == 4, uint32_t, uint2>>>;
  static_assert(sizeof(In) == sizeof(Word));
  Word word[kPerLoad<In>];
#pragma unroll
  for (int k = 0; k < kPerLoad<In>; ++k) word[k] = __ldg(reinterpret_cast<const Word*>(at(k)));
  uint4 group;
  memcpy(&group, word, sizeof group);
  return group;
}

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

// Offsets: where the elements of an output lie. from() has loads() done with a cursor that says where the element of a
// lane lies, after next() the one kWarpSize on, and so on, for the `count` elements of a warp from `first` on.

/// Of elements in one turn of the innermost dimension.
class Straight {
 public:
  template <int kDims>
  __device__ Straight(const Near<kDims>& near, int64_t i)
      : offset_(near.offset(static_cast<uint32_t>(i))), step_(uint32_t{kWarpSize} * near.stride) {}
  __device__ int offset() const { return static_cast<int>(offset_); }
  __device__ void next() { offset_ += step_; }

 private:
  uint32_t offset_;  // wraps past the last element
  uint32_t step_;
};

/// By a division a turn for each element, unless they are straight.
template <int kDims>
struct Divisions : Near<kDims> {
  using Argument = Near<kDims>;

  template <typename Loads>
  __device__ void from(int64_t first, int count, unsigned lane, const Loads& loads) const {
    if (this->straight(static_cast<uint32_t>(first), count)) {
      loads(Straight(*this, first + lane));
    } else {
      loads(Cursor(*this, first + lane));
    }
  }

  class Cursor {
   public:
    __device__ Cursor(const Near<kDims>& near, int64_t i) : near_(near), i_(static_cast<uint32_t>(i)) {}
    __device__ int offset() const { return near_.offset(i_); }
    __device__ void next() { i_ += kWarpSize; }

   private:
    const Near<kDims>& near_;
    uint32_t i_;
  };
};

/// In two dimensions, by one division for all loads of a lane (NearSteps).
/// Faster where all warps find all their loads at once, as those of sum_block do (H200, (128, 512, 7, 7) over
/// dimensions 0, 2 and 3: 5.3 us, with divisions 5.9), slower in a loop ((64, 3, 225, 225): 14.6 instead of 14.2).
struct Steps : NearSteps {
  using Argument = NearSteps;

  template <typename Loads>
  __device__ void from(int64_t first, int, unsigned lane, const Loads& loads) const {
    loads(Cursor(*this, first + lane));
  }

  class Cursor {
   public:
    __device__ Cursor(const Steps& steps, int64_t i) : steps_(steps) {
      const auto index = static_cast<uint32_t>(i);
      const uint32_t turn = steps.length[0].divide(index);
      to_turn_ = static_cast<int>(index - turn * length()) - static_cast<int>(length());
      offset_ = index * steps.stride + turn * steps.jump[0];
    }
    __device__ int offset() const { return static_cast<int>(offset_); }
    __device__ void next() {
      to_turn_ += steps_.left;
      offset_ += steps_.step;
      if (to_turn_ >= 0) {
        to_turn_ -= static_cast<int>(length());
        offset_ += steps_.jump[0];
      }
    }

   private:
    __device__ uint32_t length() const { return static_cast<uint32_t>(steps_.length[0].value); }

    const Steps& steps_;
    int to_turn_;      // how far, below 0, the next turn begins
    uint32_t offset_;  // wraps on the way, as a jump may be longer than any offset, and past the last element
  };
};

/// In any number of dimensions.
struct Anywhere : AnyStrides {
  using Argument = AnyStrides;

  class Cursor {
   public:
    __device__ Cursor(const Strides& strides, int64_t i) : cursor_(strides, i) {}
    __device__ int64_t offset() const { return cursor_.offset(); }
    __device__ void next() { cursor_.next(kWarpSize); }

   private:
    Strides::Cursor cursor_;
  };

  template <typename Loads>
  __device__ void from(int64_t first, int count, unsigned lane, const Loads& loads) const {
    const int64_t i = first + lane;
    if (near && in_more.straight(static_cast<uint32_t>(first), count)) {
      loads(Straight(in_more, i));
    } else if (few) {
      loads(Divisions<3>::Cursor(in_few, i));
    } else if (near) {
      loads(Divisions<5>::Cursor(in_more, i));
    } else {
      loads(Cursor(far, i));
    }
  }
};

/// Runs of an output, found by 32-bit divisions. Offsets: Near or NearStrides, where an element lies. Derived: where a
/// group is loaded from.
template <typename Derived, typename In, typename Acc, int kLoads, typename Offsets>
struct ManyRuns : Groups<Derived, In, Acc, kLoads>, StridedRows<Offsets> {
  static constexpr int kSlack = 0;
  using Row = const In*;
  using Argument = StridedRows<Offsets>;

  __device__ Row row(int64_t i) const { return static_cast<const In*>(this->data) + this->kept.offset(i); }
  __device__ const In* at(Row row, int64_t i) const { return row + this->reduced.offset(static_cast<uint32_t>(i)); }
  __device__ static int whole(Row, int m) { return m / kPerLoad<In>; }
};

/// Runs of a multiple of 16 bytes, each starting at a multiple of 16 bytes, such as the planes of one channel.
template <typename In, typename Acc, int kLoads>
struct Runs : ManyRuns<Runs<In, Acc, kLoads>, In, Acc, kLoads, Near<2>> {
  __device__ uint4 group(const In* row, int64_t g) const {
    return load_once(reinterpret_cast<const uint4*>(this->at(row, g * kPerLoad<In>)));
  }
};

/// Runs of a group at least that start anywhere, in up to five dimensions: a group lies in one of them or in two. So
/// where its elements lie takes a division a turn, or two, instead of one for each element.
template <typename In, typename Acc, int kLoads>
struct SplitRuns : ManyRuns<SplitRuns<In, Acc, kLoads>, In, Acc, kLoads, NearStrides> {
  __device__ uint4 group(const In* row, int64_t g) const {
    const auto i = static_cast<uint32_t>(g * kPerLoad<In>);
    const Divisor& length = this->reduced.in_more.length[0];
    const uint32_t left = (length.divide(i) + 1) * static_cast<uint32_t>(length.value) - i;  // of the run
    const In* const first = this->at(row, i);
    const In* const second = left < kPerLoad<In> ? this->at(row, i + left) - left : first;
    return load_each<In>([&](unsigned k) { return (k < left ? first : second) + k; });
  }
};

/// Elements one by one, one a lane and load, in the row-major order of their index. Coalesced as far as the innermost
/// stride allows. Offsets: one of those above.
template <typename InT, typename AccT, int kLoads, typename Offsets>
struct Elements : StridedRows<Offsets> {
  using In = InT;
  using Acc = AccT;
  using Row = const In*;
  using Argument = StridedRows<typename Offsets::Argument>;
  static constexpr int64_t kChunk = int64_t{kLoads} * kWarpSize;
  static constexpr int kSlack = 0;

  __device__ Row row(int64_t i) const { return static_cast<const In*>(this->data) + this->kept.offset(i); }
  __device__ void prefetch(Row, int64_t, int64_t, unsigned) const {}  // nobody asks: Plan::prefetching is 0
  __device__ Acc chunk(Row row, int64_t first, int64_t, unsigned lane) const {
    In element[kLoads];
    this->reduced.from(first, static_cast<int>(kChunk), lane, [&](auto cursor) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u, cursor.next()) element[u] = row[cursor.offset()];
    });
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) x[u] = convert<Acc>(element[u]);
    return fold_exchange(x, lane);
  }

  __device__ Acc ragged_chunk(Row row, int64_t first, int64_t n, unsigned lane) const {
    const int left = static_cast<int>(min(n - first, kChunk));
    // Converted behind all loads: one that may be left out is a branch, of 2 bytes at least, and what is done with it
    // there waits for it. (5995, 1019)[:, ::2] of bfloat16 took 23.8 us (H200).
    In element[kLoads] = {};
    this->reduced.from(first, left, lane, [&](auto cursor) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u, cursor.next()) {
        if (u * kWarpSize + static_cast<int>(lane) < left) element[u] = row[cursor.offset()];
      }
    });
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      x[u] = select(u * kWarpSize + static_cast<int>(lane) < left, convert<Acc>(element[u]), identity<Acc>());
    }
    return fold_exchange(x, lane);
  }
};

/// In two dimensions at most: planes of any size, rows of every other element.
template <typename In, typename Acc, int kLoads>
using Pitched = Elements<In, Acc, kLoads, Divisions<2>>;

/// The same with one division a lane.
template <typename In, typename Acc, int kLoads>
using Stepped = Elements<In, Acc, kLoads, Steps>;

/// At any strides.
template <typename In, typename Acc, int kLoads>
using Strided = Elements<In, Acc, kLoads, Anywhere>;

}  // namespace reduce_ops::sum
