// Publish and collect: how blocks hand their sums to the block that finishes the launch, without a second launch, a
// fence, a ticket or a clean-up.
//
// A slot belongs to one sum of one block of a launch. It is empty before the launch and after it. A block publishes a
// sum by filling its slot; the collecting block waits until a slot is full, takes the value and leaves the slot empty.
//
// Why that is right under the CUDA memory model: a slot is a row of 8-byte words, each with 4 bytes of the value and a
// tag that says "full". A word is written and read by one relaxed, naturally aligned 8-byte access, which is
// single-copy atomic: who sees the tag sees the 4 bytes that were stored with it. Nothing else is handed over, so no
// order between different words is needed, and no fence. The collector empties a word after it has read it full, in
// program order to the same location; nobody else writes that word in this launch, and who else looks at it, in the
// same warp, has seen it full by then (take_by_warp). The next launch that uses the same slots comes later on the same
// stream (or in the same captured chain) and waits for this one before it touches memory (early_start.cuh), so it sees
// them empty.
//
// Why it ends: the collector of an output is its block with the highest index. Blocks are started in the order of their
// index, so by the time it runs every block that it waits for has started; those that collect themselves, for outputs
// before, wait only for blocks before them. So, from the first block on, all get to their end, even if there is room
// for one block at a time on the whole device; blocks of the launch behind that start early (early_start.cuh) come
// after all of these. (CUDA does not promise that order in words; tests run the kernels while all multiprocessors but
// one are busy.)

#pragma once

#include "device/fold.cuh"
#include "device/ptx.cuh"

namespace reduce_ops::sum {

template <typename Acc>
class Slots {
 public:
  /// Those from slot `first` on of the `count` that the launch has.
  __device__ Slots(void* memory, unsigned count, unsigned first)
      : words_(static_cast<uint64_t*>(memory) + first), count_(count) {}

  __device__ void publish(unsigned slot, Acc value) const {
    uint32_t part[kWords];
    memcpy(part, &value, sizeof value);
#pragma unroll
    for (int w = 0; w < kWords; ++w) store_relaxed(word(slot, w), kFull | part[w]);
  }

  /// Takes the sums of kVector neighbouring slots at `first`, at first + stride, ..., kCount times, once all are there;
  /// slots from `end` on do not exist and count as the identity. The loads of all are in flight together, and only
  /// what is missing is loaded again: 32.6 us for (2^20, 32) over dimension 0, where loading all again takes 33.7
  /// (H200).
  template <int kCount, int kVector>
  __device__ void take(unsigned first, unsigned stride, unsigned end, Sums<kVector, Acc> (&sums)[kCount]) const {
    take_when<false>(first, stride, end, sums);
  }

  /// The same by a whole warp whose lanes stay together, `first` being the lane's own: all load until none waits, those
  /// without a slot the last one, end - 1, which must be this warp's. Lanes that go their own ways take longer: 2^17
  /// doubles in a row 2.30 us instead of 2.05, 2^16 + 1 floats 1.83 instead of 1.62 (H200).
  template <int kCount>
  __device__ void take_by_warp(unsigned first, unsigned stride, unsigned end, Sums<1, Acc> (&sums)[kCount]) const {
    take_when<true>(first, stride, end, sums);
  }

 private:
  static constexpr int kWords = sizeof(Acc) / 4;
  static constexpr uint64_t kFull = uint64_t{1} << 32;

  template <bool kByWarp, int kCount, int kVector>
  __device__ void take_when(unsigned first, unsigned stride, unsigned end, Sums<kVector, Acc> (&sums)[kCount]) const {
    uint64_t seen[kCount][kVector][kWords];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool wanted = kByWarp || first + i * stride < end;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) seen[i][v][w] = wanted ? 0 : kFull;
      }
    }
    bool waiting;
    [[maybe_unused]] unsigned polls = 0;
    do {
      check_progress(first, ++polls);
      waiting = false;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const unsigned slot = kByWarp ? min(first + i * stride, end - 1) : first + i * stride;
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
#pragma unroll
          for (int w = 0; w < kWords; ++w) {
            if (kByWarp || seen[i][v][w] < kFull) seen[i][v][w] = load_relaxed(word(slot + v, w));
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
#pragma unroll
          for (int w = 0; w < kWords; ++w) waiting |= seen[i][v][w] < kFull;
        }
      }
    } while (kByWarp ? __any_sync(kFullWarp, waiting) : waiting);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const unsigned slot = first + i * stride;
      sums[i] = Sums<kVector, Acc>::none();
      if (slot >= end) continue;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        uint32_t part[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          part[w] = static_cast<uint32_t>(seen[i][v][w]);
          store_relaxed(word(slot + v, w), 0);
        }
        memcpy(&sums[i].x[v], part, sizeof(Acc));
      }
    }
  }

  /// Where a block waits for one that has not started, as it would on a GPU with another order of blocks, it waits for
  /// ever. With REDUCE_OPS_DEBUG (docs/engine.md) it says so after some seconds, and ends the launch with an error.
  __device__ static void check_progress([[maybe_unused]] unsigned slot, [[maybe_unused]] unsigned polls) {
#ifdef REDUCE_OPS_DEBUG
    constexpr unsigned kMostPolls = 1u << 24;
    if (polls < kMostPolls) return;
    printf("reduce_ops: block (%u, %u, %u) waits for slot %u, whose block has not started or has failed\n", blockIdx.x,
           blockIdx.y, blockIdx.z, slot);
    __trap();
#endif
  }

  /// Words of neighbouring slots are neighbours, so that the lanes that take them read whole lines.
  __device__ uint64_t* word(unsigned slot, int w) const { return words_ + w * count_ + slot; }

  uint64_t* words_;
  unsigned count_;
};

}  // namespace reduce_ops::sum
