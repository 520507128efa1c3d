// Publish and collect: how blocks hand their sums to the block that finishes the launch, without a second launch, a
// fence, a ticket or a clean-up.
//
// A slot belongs to one block of a launch. It is empty before the launch and after it. A block publishes its sum by
// filling its slot; the collecting block waits until a slot is full, takes the value and leaves the slot empty.
//
// Why that is right under the CUDA memory model: a slot is a row of 8-byte words, each with 4 bytes of the value and a
// tag that says "full". A word is written and read by one relaxed, naturally aligned 8-byte access, which is
// single-copy atomic: who sees the tag sees the 4 bytes that were stored with it. Nothing else is handed over, so no
// order between different words is needed, and no fence. The collector empties a word after it has read it full, in
// program order to the same location; nobody else writes that word in this launch. The next launch that uses the same
// slots comes later on the same stream (or in the same captured chain), so it sees them empty.
//
// Why it ends: the collector of an output is its block with the highest index. Blocks are started in the order of their
// index, so by the time it runs every block that it waits for has started; those that collect themselves, for outputs
// before, wait only for blocks before them. So, from the first block on, all get to their end, even if there is room
// for one block at a time on the whole device. (CUDA does not promise that order in words; tests run the kernel with a
// single SM free.)

#pragma once

#include <cstdint>
#include <cstring>

#include "numeric.cuh"
#include "sum/plan.h"

namespace reduce_ops::sum {

template <typename Acc>
class Slots {
 public:
  /// Those from block `first` on of all that the launch has.
  __device__ Slots(void* memory, unsigned first) : words_(static_cast<uint64_t*>(memory) + first) {}

  __device__ void publish(unsigned block, Acc value) const {
    uint32_t part[kWords];
    memcpy(part, &value, sizeof value);
#pragma unroll
    for (int w = 0; w < kWords; ++w) store(word(block, w), kFull | part[w]);
  }

  /// Takes the values of kCount blocks, `stride` apart, once all are there; those from `blocks` on do not exist and
  /// count as the identity. The loads of all are in flight together.
  template <int kCount>
  __device__ void take(unsigned first, unsigned stride, unsigned blocks, Acc (&value)[kCount]) const {
    uint64_t seen[kCount][kWords];
    bool waiting;
    do {
      waiting = false;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const unsigned block = first + i * stride;
#pragma unroll
        for (int w = 0; w < kWords; ++w) seen[i][w] = block < blocks ? load(word(block, w)) : kFull;
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) waiting |= seen[i][w] < kFull;
      }
    } while (waiting);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const unsigned block = first + i * stride;
      value[i] = identity<Acc>();
      if (block < blocks) {
        uint32_t part[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          part[w] = static_cast<uint32_t>(seen[i][w]);
          store(word(block, w), 0);
        }
        memcpy(&value[i], part, sizeof value[i]);
      }
    }
  }

 private:
  static constexpr int kWords = sizeof(Acc) / 4;
  static constexpr uint64_t kFull = uint64_t{1} << 32;

  /// Words of neighbouring blocks are neighbours, so that the lanes that take them read whole lines.
  __device__ uint64_t* word(unsigned block, int w) const { return words_ + w * kMaxBlocks + block; }

  static __device__ void store(uint64_t* p, uint64_t x) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
  }
  static __device__ uint64_t load(const uint64_t* p) {
    uint64_t x;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
  }

  uint64_t* words_;
};

}  // namespace reduce_ops::sum
