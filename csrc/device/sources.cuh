// Where the elements of long runs come from. A source turns an aligned range of kChunk leaves of one output into one
// value, by one warp; rows.cuh does the rest. They differ in how a lane loads, not in the tree. (Of integers, which
// have no order, any kChunk elements will do, if each is in one of them.) Here are those of runs that begin at
// multiples of 16 bytes; shifted.cuh has runs that begin anywhere, strided.cuh elements at strides.

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

}  // namespace reduce_ops::sum
