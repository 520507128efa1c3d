// The canonical tree in registers: how the elements of a 16-byte load, of a lane and of a warp become one value, in
// the canonical order: neighbours first. Every function here folds an aligned power-of-two range, that is, a
// subtree; left + right is commutative to the bit, so lanes need not care which of the two they hold.

#pragma once

#include "device/numeric.cuh"
#include "device/operators.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// Elements of one load.
template <typename In>
inline constexpr int kPerLoad = kLoadBytes / static_cast<int>(sizeof(In));

/// Rounds kCount sums and stores them, marked as the first to leave the caches. p: aligned to all of them together, or
/// to 16 bytes.
template <int kCount, typename Out, typename Acc>
__device__ void store_streaming(Out* p, const Acc (&sum)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(Out));
  Out rounded[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) rounded[i] = convert<Out>(sum[i]);
  using Word = std::conditional_t<
      kBytes % 16 == 0, uint4,
      std::conditional_t<kBytes % 8 == 0, uint2, std::conditional_t<kBytes % 4 == 0, unsigned, unsigned short>>>;
  Word word[kBytes / sizeof(Word)];
  memcpy(word, rounded, kBytes);
#pragma unroll
  for (int i = 0; i < static_cast<int>(kBytes / sizeof(Word)); ++i) __stcs(reinterpret_cast<Word*>(p) + i, word[i]);
}

template <int n>
inline constexpr int kLog2 = kLog2<n / 2> + 1;
template <>
constexpr int kLog2<1> = 0;

/// x[0..kCount) as a tree. By recursion, because nvcc leaves a loop over halves rolled from 16 values on, and then
/// the array goes to local memory.
template <int kCount, typename Acc>
__device__ Acc fold_array(const Acc* x) {
  if constexpr (kCount == 1) {
    return x[0];
  } else {
    return fold_array<kCount / 2>(x) + fold_array<kCount / 2>(x + kCount / 2);
  }
}

/// Adds the elements of one load, of one or two bytes each, to an integer of 32 bits: a word takes one dot product with
/// ones, instead of 4 or 2 conversions and 64-bit additions, which would take longer than the memory.
template <typename In, typename Sum>
__device__ void add_narrow(const uint4& load, Sum& sum) {
  constexpr uint32_t kOnes = 0x01010101;
  const auto add = [&sum](uint32_t word) {
    if constexpr (std::is_same_v<In, boolean>) {
      sum = __dp4a(__vcmpne4(word, 0) & kOnes, kOnes, sum);  // any byte but 0 is true
    } else if constexpr (sizeof(In) == 1) {
      sum = __dp4a(static_cast<Sum>(word), static_cast<Sum>(kOnes), sum);
    } else {
      sum = __dp2a_lo(static_cast<Sum>(word), static_cast<Sum>(kOnes), sum);
    }
  };
  add(load.x);
  add(load.y);
  add(load.z);
  add(load.w);
}

/// Sums of four neighbouring columns of bytes, two in each of two words, 16 bits each: a quarter of the instructions
/// that bytes one by one would take.
template <typename In>
class ByteColumns {
 public:
  static constexpr int kMaxRows = 257;  // 257 * 255 fit

  __device__ void add(uint32_t word) {
    if constexpr (std::is_same_v<In, boolean>) word = __vcmpne4(word, 0) & 0x01010101;  // any byte but 0 is true
    even_ += (word ^ kBias) & 0x00ff00ff;
    odd_ += ((word ^ kBias) >> 8) & 0x00ff00ff;
  }

  /// Adds those of the lanes that differ in the bits from kMask on.
  template <int kMask>
  __device__ void fold_lanes() {
#pragma unroll
    for (int mask = kMask; mask < kWarpSize; mask *= 2) {
      even_ += shuffle_xor(even_, mask);
      odd_ += shuffle_xor(odd_, mask);
    }
  }

  /// Of column 0 to 3, if `rows` were added.
  __device__ int sum(int column, int rows) const {
    const uint32_t pair = column % 2 == 0 ? even_ : odd_;
    return static_cast<int>(pair >> column / 2 * 16 & 0xffff) - (std::is_signed_v<In> ? 128 * rows : 0);
  }

 private:
  static constexpr uint32_t kBias = std::is_signed_v<In> ? 0x80808080 : 0;  // makes them unsigned

  uint32_t even_ = 0;
  uint32_t odd_ = 0;
};

template <typename In>
using NarrowSum = std::conditional_t<std::is_signed_v<In>, int, unsigned>;

/// What a thread adds up to 2^15 elements in, before they go on in Acc: narrow integers in 32 bits, half the work.
template <typename In, typename Acc>
using Partial = std::conditional_t<std::is_integral_v<Acc> && sizeof(In) <= 2, NarrowSum<In>, Acc>;

/// From Partial to Acc.
template <typename Acc, typename T>
__device__ Acc widen(T x) {
  if constexpr (std::is_integral_v<Acc>) {
    return static_cast<Acc>(static_cast<int64_t>(x));
  } else {
    return x;
  }
}

/// The elements of one load.
template <typename In, typename Acc>
__device__ Acc fold_load(const uint4& load) {
  if constexpr (std::is_integral_v<Acc> && sizeof(In) <= 2) {
    NarrowSum<In> sum = 0;
    add_narrow<In>(load, sum);
    return widen<Acc>(sum);
  } else if constexpr (is_float8<In>) {
    constexpr int kPairs = kPerLoad<In> / 2;
    uint16_t pair[kPairs];
    memcpy(pair, &load, sizeof load);
    Acc x[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float2 both = widen_pair<In>(pair[i]);
      x[i] = convert<Acc>(both.x) + convert<Acc>(both.y);
    }
    return fold_array<kPairs>(x);
  } else {
    constexpr int kCount = kPerLoad<In>;
    In element[kCount];
    memcpy(element, &load, sizeof load);
    Acc x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = convert<Acc>(element[i]);
    return fold_array<kCount>(x);
  }
}

/// One value a lane, lane 0's first; every lane gets the result.
template <typename Acc>
__device__ Acc fold_lanes(Acc x) {
#pragma unroll
  for (int mask = 1; mask < kWarpSize; mask *= 2) x += shuffle_xor(x, mask);
  return x;
}

/// kCount values a lane, each to be folded over the lanes that differ in the bits of kLanes - kMask: over kLanes
/// neighbours if kMask is 1. A lane gets the sum of one of them, that of number exchanged<kCount>(lane / kMask), or,
/// where there are more values than lanes, the node above as many of them as that takes.
///
/// Lanes 2i and 2i + 1 each hold a half of the pair sums they both need: each gives away one half of its values and
/// adds the half it is given to the half it keeps. So the number of values halves with every step, and 8 values cost 12
/// shuffles instead of 8 * 5.
template <int kCount, int kLanes = kWarpSize, int kMask = 1, typename Acc>
__device__ Acc exchange(Acc (&x)[kCount], unsigned lane) {
  if constexpr (kMask == kLanes) {
    return fold_array<kCount>(x);
  } else if constexpr (kCount == 1) {
    Acc sum = x[0];
#pragma unroll
    for (int mask = kMask; mask < kLanes; mask *= 2) sum += shuffle_xor(sum, mask);
    return sum;
  } else {
    constexpr int kHalf = kCount / 2;
    const bool upper = lane & kMask;
    Acc kept[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const Acc given = select(upper, x[i], x[i + kHalf]);
      kept[i] = select(upper, x[i + kHalf], x[i]) + shuffle_xor(given, kMask);
    }
    return exchange<kHalf, kLanes, kMask * 2>(kept, lane);
  }
}

/// The lowest bit of the lane chooses the upper or lower half of the values, the next one the half of that, ...
template <int kCount>
__device__ unsigned exchanged(unsigned lane) {
  return kCount == 1 ? 0 : __brev(lane % kCount) >> (32 - kLog2<kCount>);
}

/// kCount values a lane: value u of all lanes comes before value u + 1 of any. Every lane gets the result. kLanes,
/// kMask: which lanes fold together, as above.
template <int kCount, int kLanes = kWarpSize, int kMask = 1, typename Acc>
__device__ Acc fold_exchange(Acc (&x)[kCount], unsigned lane) {
  if constexpr (std::is_integral_v<Acc>) {  // integers wrap, so their order is free: fewer shuffles
    Acc sum[1] = {fold_array<kCount>(x)};
    return exchange<1, kLanes, kMask>(sum, lane);
  } else {
    constexpr int kExchanged = kCount < kLanes / kMask ? kCount : kLanes / kMask;
    Acc sum = exchange<kCount, kLanes, kMask>(x, lane);
#pragma unroll
    for (int mask = kExchanged / 2 * kMask; mask >= kMask; mask /= 2) {  // value 0 + 1, 2 + 3, ...
      sum += shuffle_xor(sum, mask);
    }
    return sum;
  }
}

/// Adds up the elements of kLoads loads a lane: load u of all lanes comes before load u + 1 of any.
template <typename In, typename Acc, int kLoads>
class ChunkSum {
 public:
  __device__ void add(int u, const uint4& load) { x_[u] = fold_load<In, Acc>(load); }
  /// One more, of integers, whose order is free, when all loads were added.
  __device__ void add(In element)
    requires std::integral<Acc>
  {
    x_[0] += convert<Acc>(element);
  }
  /// Every lane gets it.
  __device__ Acc total(unsigned lane) { return fold_exchange(x_, lane); }

 private:
  Acc x_[kLoads];
};

template <typename In, std::integral Acc, int kLoads>
  requires(sizeof(In) <= 2)
class ChunkSum<In, Acc, kLoads> {
 public:
  __device__ void add(int, const uint4& load) { add_narrow<In>(load, sum_); }
  __device__ void add(In element) { sum_ += static_cast<NarrowSum<In>>(convert<Acc>(element)); }
  __device__ Acc total(unsigned) const { return widen<Acc>(__reduce_add_sync(kFullWarp, sum_)); }

 private:
  static_assert(kLoads <= 8);  // the sum of a warp fits: 4128 * 255, 2080 * 65535
  NarrowSum<In> sum_ = 0;
};

/// Neighbouring sums that move together.
template <int kCount, typename Acc>
struct alignas(kCount * sizeof(Acc) < kLoadBytes ? kCount * sizeof(Acc) : kLoadBytes) Sums {
  Acc x[kCount];

  friend __device__ Sums operator+(Sums left, const Sums& right) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) left.x[i] += right.x[i];
    return left;
  }
  static __device__ Sums none() {
    Sums sums;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums.x[i] = identity<Acc>();
    return sums;
  }
};

/// Adds up nodes that come in order, all of the same size, as a binary counter counts: level l holds the sum of 2^l of
/// them where bit l of their number so far is set. In shared memory, for the registers belong to the loads: a counter
/// in registers spilled (H200: (32, 2^20) over dimension 0 in 36.8 us instead of 32.3), and in local memory, where nvcc
/// puts it as soon as the level is not known when compiling, (16, 2048, 4097) over dimension 1 took 150 us instead of
/// 140.
template <typename Node>
class Counter {
 public:
  /// levels: this thread's place for level 0; the next ones are `pitch` places apart. n levels take up to 2^n - 1
  /// nodes.
  __device__ Counter(Node* levels, int pitch) : levels_(levels), pitch_(pitch) {}

  __device__ void push(Node node, int index) {
    Node* level = levels_;
    for (; index & 1; index >>= 1, level += pitch_) node = *level + node;
    *level = node;
  }

  /// The node above all `count` that were pushed.
  __device__ Node total(int count) const {
    Node node = Node::none();
    for (const Node* level = levels_; count > 0; count >>= 1, level += pitch_) {
      if (count & 1) node = *level + node;
    }
    return node;
  }

 private:
  Node* levels_;
  int pitch_;
};

}  // namespace reduce_ops::sum
