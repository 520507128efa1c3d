// Where elements come from. A source turns an aligned range of kChunk leaves into one value, by one warp; kernels.cuh
// does the rest. The four differ in how a lane loads, not in the tree.

#pragma once

#include <cstdint>

#include "sum/fold.cuh"
#include "sum/strides.h"

namespace reduce_ops::sum {

/// A load of bytes that are used once: through to the registers, without a place in L1.
__device__ inline uint4 load_once(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

/// Elements that lie in groups of 16 bytes. Derived has, for group g of the whole input,
///   load(g, lane, loads): a full chunk, load u of the lane being group g + 32 u;
///   load(g): one group, of which every element exists;
///   at(i): the address of element i;
///   kSlack: how many more elements must exist behind a group for its load to stay within the elements.
template <typename Derived, typename InT, typename AccT, int kLoads>
struct Groups {
  using In = InT;
  using Acc = AccT;
  static constexpr int kCount = kPerLoad<In>;
  static constexpr int kRow = kWarpSize * kCount;  // elements of one load of the warp
  static constexpr int64_t kChunk = int64_t{kLoads} * kRow;

  /// Leaves [first, first + kChunk), all of which exist, and kSlack more. first: a multiple of kChunk.
  __device__ Acc chunk(int64_t first, unsigned lane) const {
    uint4 load[kLoads];
    derived().load(group_of(first, lane), lane, load);
    return fold_chunk<In, Acc>(load, lane);
  }

  /// The same where the run ends at n, before `first` + kChunk + kSlack: leaves from n on count as the identity.
  __device__ Acc ragged_chunk(int64_t first, int64_t n, unsigned lane) const {
    const int64_t group = group_of(first, lane);
    const int rest = static_cast<int>(n - first) - static_cast<int>(lane) * kCount;  // from the lane's first one on
    // At most one load of a lane has some elements, but not enough for a load: these are read one by one.
    const int row = (rest - 1) / kRow;
    const int left = rest - row * kRow;
    const bool partial = rest > 0 && left < kCount + Derived::kSlack;
    const In* tail = derived().at((group + row * kWarpSize) * kCount);
    // With slack every run ends like this, so it is worth the registers to wait for these and the others only once.
    // (Without, the same would cost the loop over full chunks two spilled registers: 1 % at 2^28 float32.)
    constexpr bool kReadFirst = Derived::kSlack > 0;
    In early[kReadFirst ? kCount : 1];
    if constexpr (kReadFirst) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (partial && row < kLoads && i < left) early[i] = tail[i];
      }
    }
    uint4 load[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      if (rest >= u * kRow + kCount + Derived::kSlack) load[u] = derived().load(group + u * kWarpSize);
    }
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      x[u] = select(rest >= u * kRow + kCount + Derived::kSlack, fold_load<In, Acc>(load[u]), identity<Acc>());
    }
    if (partial) {
      Acc leaf[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        leaf[i] = identity<Acc>();
        if (i < left) leaf[i] = convert<Acc>(kReadFirst ? early[kReadFirst ? i : 0] : tail[i]);
      }
      const Acc sum = fold_array<kCount>(leaf);
#pragma unroll
      for (int u = 0; u < kLoads; ++u) x[u] = select(u == row, sum, x[u]);
    }
    return fold_exchange(x, lane);
  }

 private:
  __device__ const Derived& derived() const { return static_cast<const Derived&>(*this); }

  /// The first group of a lane.
  static __device__ int64_t group_of(int64_t first, unsigned lane) {
    return static_cast<int64_t>(static_cast<uint64_t>(first) / kCount) + lane;
  }
};

/// One run that starts at a multiple of 16 bytes.
template <typename In, typename Acc, int kLoads>
struct Aligned : Groups<Aligned<In, Acc, kLoads>, In, Acc, kLoads> {
  static constexpr int kSlack = 0;

  const In* a;

  Aligned(const In* data, const Strides&) : a(data) {}
  __device__ const In* at(int64_t i) const { return a + i; }
  __device__ uint4 load(int64_t group) const { return load_once(reinterpret_cast<const uint4*>(a) + group); }
  __device__ void load(int64_t group, unsigned, uint4 (&loads)[kLoads]) const {
    const uint4* p = reinterpret_cast<const uint4*>(a) + group;
#pragma unroll
    for (int u = 0; u < kLoads; ++u) loads[u] = load_once(p + u * kWarpSize);
  }
};

/// Runs of a multiple of 16 bytes, each starting at a multiple of 16 bytes, such as rows of a matrix: one division a
/// group.
template <typename In, typename Acc, int kLoads>
struct Rows : Groups<Rows<In, Acc, kLoads>, In, Acc, kLoads> {
  static constexpr int kSlack = 0;

  const In* a;
  Strides strides;

  Rows(const In* data, const Strides& s) : a(data), strides(s) {}
  __device__ const In* at(int64_t i) const { return a + strides.offset(i); }
  __device__ uint4 load(int64_t group) const {
    return load_once(reinterpret_cast<const uint4*>(at(group * kPerLoad<In>)));
  }
  __device__ void load(int64_t group, unsigned, uint4 (&loads)[kLoads]) const {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) loads[u] = load(group + u * kWarpSize);
  }
};

/// One run that starts anywhere. Lanes load the aligned words of 16 bytes that hold it; the bytes of a lane's group lie
/// in its own word and in the next lane's, so the lanes hand each other what is missing, and only the last lane of a
/// chunk loads a second word. No load reaches beyond the last element, where the allocation may end; before the first
/// one there is memory of the same allocation, which starts at a multiple of 16 bytes. (Loading both words in every
/// lane is simpler and takes 263 us instead of 235 at 2^28 float32: the second load only hits if the first one is kept
/// in L1, which costs as much as it saves.)
template <typename In, typename Acc, int kLoads>
struct Shifted : Groups<Shifted<In, Acc, kLoads>, In, Acc, kLoads> {
  static constexpr int kSlack = kPerLoad<In>;

  const uint4* word;  // the first one
  unsigned words;     // 4-byte words to skip in it, then bits
  unsigned bits;

  Shifted(const In* data, const Strides&)
      : word(reinterpret_cast<const uint4*>(reinterpret_cast<uintptr_t>(data) & ~uintptr_t{kLoadBytes - 1})),
        words(reinterpret_cast<uintptr_t>(data) % kLoadBytes / 4),
        bits(reinterpret_cast<uintptr_t>(data) % 4 * 8) {}
  __device__ const In* at(int64_t i) const {
    return reinterpret_cast<const In*>(reinterpret_cast<const char*>(word) + words * 4 + bits / 8) + i;
  }
  __device__ uint4 load(int64_t group) const { return shift(load_once(word + group), load_once(word + group + 1)); }
  __device__ void load(int64_t group, unsigned lane, uint4 (&loads)[kLoads]) const {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) loads[u] = load_once(word + group + u * kWarpSize);
    uint4 last{};
    if (lane == kWarpSize - 1) last = load_once(word + group + (kLoads - 1) * kWarpSize + 1);
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      // Lane 31's next word is lane 0's of the next load.
      const uint4& given = loads[u];
      const uint4& after = loads[u + 1 < kLoads ? u + 1 : u];
      uint4 next{next_lane(lane == 0 ? after.x : given.x, lane), 0, 0, 0};
      const unsigned wanted = words + (bits > 0);
      if (wanted > 1) next.y = next_lane(lane == 0 ? after.y : given.y, lane);
      if (wanted > 2) next.z = next_lane(lane == 0 ? after.z : given.z, lane);
      if (wanted > 3) next.w = next_lane(lane == 0 ? after.w : given.w, lane);
      if (u == kLoads - 1 && lane == kWarpSize - 1) next = last;
      loads[u] = shift(loads[u], next);
    }
  }

 private:
  static __device__ uint32_t next_lane(uint32_t x, unsigned lane) {
    return __shfl_sync(0xffffffff, x, (lane + 1) % kWarpSize);
  }
  __device__ uint4 shift(const uint4& low, const uint4& high) const {
    uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
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
      for (int i = 0; i < 4; ++i) w[i] = __funnelshift_r(w[i], w[i + 1], bits);
    }
    return {w[0], w[1], w[2], w[3]};
  }
};

/// Elements at any strides, one a lane and load, in the row-major order of their index. Coalesced as far as the
/// innermost stride allows.
template <typename InT, typename AccT, int kLoads>
struct Strided {
  using In = InT;
  using Acc = AccT;
  static constexpr int64_t kChunk = int64_t{kLoads} * kWarpSize;
  static constexpr int kSlack = 0;

  const In* a;
  Strides strides;

  Strided(const In* data, const Strides& s) : a(data), strides(s) {}
  __device__ Acc chunk(int64_t first, unsigned lane) const {
    In element[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) element[u] = a[strides.offset(first + u * kWarpSize + lane)];
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) x[u] = convert<Acc>(element[u]);
    return fold_exchange(x, lane);
  }

  __device__ Acc ragged_chunk(int64_t first, int64_t n, unsigned lane) const {
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t i = first + u * kWarpSize + lane;
      x[u] = identity<Acc>();
      if (i < n) x[u] = convert<Acc>(a[strides.offset(i)]);
    }
    return fold_exchange(x, lane);
  }
};

}  // namespace reduce_ops::sum
