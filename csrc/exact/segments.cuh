// Outputs that more than one block adds up: each block publishes the digits of its segment (device/slots.cuh says how),
// the last one of an output adds them up. Only digits are handed over, so that 4 bytes go into a slot of 8 with its
// tag, and polls of a lane are few enough to be in flight together.

#pragma once

#include "device/fold.cuh"
#include "device/slots.cuh"
#include "exact/digits.cuh"

namespace reduce_ops::exact {

using Slots = sum::Slots<uint32_t>;

/// Slots of a segment: its digits and, behind them, the bits of Kind of what was among its elements.
template <typename State>
inline constexpr int kSlotsASegment = Digits<State>::kCount + 1;
static_assert(Digits<Layout32>::kCount < 32 && Digits<Layout64>::kCount / 32 == Digits<Layout64>::kALane - 1,
              "the last slot is where Collected looks for it");

/// Called by a whole warp. first: slot of the segment.
template <typename State>
__device__ void publish(const Slots& slots, unsigned first, const Digits<State>& digits, unsigned kinds) {
#pragma unroll
  for (int j = 0; j < Digits<State>::kALane; ++j) {
    const int k = digits.digit(j);
    if (k < kSlotsASegment<State>) slots.publish(first + k, k == digits.kCount ? kinds : digits[j]);
  }
}

/// Sums of the slots of segments, as Digits spreads them over a warp.
template <typename State>
struct Collected {
  static constexpr int kALane = Digits<State>::kALane;

  uint64_t x[kALane] = {};  // the last one of a segment: its bits, or'ed

  /// Adds a value of slot k of a segment.
  __device__ static void add(int k, uint64_t& sum, uint64_t value) {
    sum = k == Digits<State>::kCount ? sum | value : sum + value;
  }

  /// Takes those of the segments whose first slots are first, first + stride, ..., before `end`. Called by a whole
  /// warp. Where its lanes have room for two segments at a time, half of it takes every other one.
  __device__ void take(const Slots& slots, unsigned first, unsigned stride, unsigned end) {
    constexpr int kHalves = 2 * kSlotsASegment<State> <= kWarpSize ? 2 : 1;
    constexpr int kWidth = kALane * kWarpSize / kHalves;
#pragma unroll
    for (int j = 0; j < kALane; ++j) {
      const int k = Digits<State>::digit(j) % kWidth;
      if (k >= kSlotsASegment<State>) continue;
      const unsigned half = Digits<State>::digit(j) / kWidth;
      for (unsigned slot = first + half * stride + k; slot < end; slot += kSlotsAtOnce * kHalves * stride) {
        sum::Sums<1, uint32_t> taken[kSlotsAtOnce];
        slots.take(slot, kHalves * stride, end, taken);
#pragma unroll
        for (int i = 0; i < kSlotsAtOnce; ++i) add(k, x[j], taken[i].x[0]);
      }
    }
    if constexpr (kHalves == 2) {
      __syncwarp();
      add(Digits<State>::digit(0), x[0], __shfl_xor_sync(kFullWarp, x[0], kWidth));
    }
  }

  __device__ Digits<State> digits() const {
    return Digits<State>(
        [this](int k) { return k < Digits<State>::kCount ? static_cast<int64_t>(x[k / kWarpSize]) : 0; });
  }
  __device__ unsigned kinds() const {
    return __shfl_sync(kFullWarp, static_cast<unsigned>(x[kALane - 1]), Digits<State>::kCount % kWarpSize);
  }
};

/// The segments of `columns` outputs, once all are published, and finish(c, sums) for each, by a whole warp. first:
/// slot of the first segment of output 0; those of output c follow c * kSlotsASegment behind it, the other segments of
/// an output `stride` apart. Called by a whole block, whose warps share out the segments of an output. memory: room for
/// kSlotsASegment words of 8 bytes a warp.
template <typename State, typename Finish>
__device__ void collect(const Slots& slots, unsigned first, unsigned stride, int segments, int columns, char* memory,
                        const Finish& finish) {
  constexpr int kSlots = kSlotsASegment<State>;
  const int wid = threadIdx.x / kWarpSize;
  const int warps = blockDim.x / kWarpSize;
  const int sharing = max(warps / columns, 1);  // warps an output
  const auto take = [&](int c, int part) {
    const unsigned start = first + c * kSlots;
    Collected<State> sums;
    sums.take(slots, start + part * stride, sharing * stride, start + segments * stride);
    return sums;
  };
  if (sharing == 1) {
    for (int c = wid; c < columns; c += warps) finish(c, take(c, 0));
    return;
  }
  const int c = wid / sharing;
  const int part = wid % sharing;
  uint64_t* words = reinterpret_cast<uint64_t*>(memory);
  Collected<State> sums;
  if (c < columns) sums = take(c, part);
#pragma unroll
  for (int j = 0; j < sums.kALane; ++j) {
    const int k = Digits<State>::digit(j);
    if (k < kSlots) words[wid * kSlots + k] = sums.x[j];
  }
  __syncthreads();
  if (c >= columns || part != 0) return;
#pragma unroll
  for (int j = 0; j < sums.kALane; ++j) {
    const int k = Digits<State>::digit(j);
    if (k >= kSlots) break;
#pragma unroll 8
    for (int w = 1; w < sharing; ++w) sums.add(k, sums.x[j], words[(wid + w) * kSlots + k]);
  }
  __syncwarp();
  finish(c, sums);
}

}  // namespace reduce_ops::exact
