// Sums whose order runs across memory (across.cuh), or whose outputs share sectors, where other families would read it
// in pieces of these: by boxes of memory.
//
// A box is a product of ranges of indices, such that what it holds lies in runs of some hundred bytes. A block copies
// these as they lie, by words of 16 bytes, and then reads from shared memory in the order.
//
// Lines are those of the innermost dimensions of the sum, Plan::line of them, and are in the box as a whole. Of the
// next dimension, from line to line, it has a range. So it has sequences of leaves that follow each other: one for each
// index that it has of all other dimensions, also of those from output to output. The windows that begin in a sequence
// are this box's; a warp folds a chunk of them at once. What they have behind it are some more lines that are copied
// too, the halo, or, where the dimension ends, leaves that are loaded one by one.
//
// Where the elements of a line lie is a table in shared memory, which goes on beyond its end, so that no lane has to
// ask whether a line ends between two of its leaves.
//
// Why it is fast: memory is read once, in whole sectors. (15, 5, 79092, 22) float16, held (22, 5, 79092, 15), is 128 us
// where tiles of lines, whose neighbours lie 15 elements apart, take 894, and a kernel that only reads 69 (H200).
// What limits it: 20 to 30 instructions an element, of which 13 fold and 3 copy, and that blocks of little data all
// copy at first and fold then, so that instructions are issued in 28 to 52 % of the clocks (Nsight Compute, H100).

#pragma once

#include "device/arguments.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/strides.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

/// x / power, a power of two.
__device__ inline unsigned divide_by_power(unsigned x, unsigned power) {
  return x >> (__ffs(static_cast<int>(power)) - 1);
}

/// Where a box begins, and how much of it there is.
template <typename In>
struct Corner {
  const In* data;
  int64_t output;
  unsigned leaf;
  unsigned run;                // bytes of a run
  unsigned lines;              // of a sequence
  unsigned copied;             // leaves of one, with the halo
  unsigned left[kMaxBoxDims];  // indices from the first one on
  bool inside;                 // all words that runs touch are inside of the tensor
};

/// What a warp folds at once, of a sequence.
template <typename In, typename Acc>
struct Chunk {
  const In* data;    // the first leaf of the sequence
  Acc* nodes;        // of the first window
  unsigned place;    // in shared memory, of the line that the first leaf is in
  unsigned row;      // of the first leaf, in that line
  unsigned before;   // leaves of the sequence ahead of it
  unsigned leaf;     // its number in the output
  uint16_t windows;  // may be 0
  uint16_t there;    // leaves of these that are in shared memory
  uint16_t leaves;   // that there are
};

/// loads_at_once: leaves that a lane folds at once, 4, 8 or kBoxLoads.
template <typename In, typename Acc>
__global__ void __launch_bounds__(kBoxThreads) sum_boxes(const __grid_constant__ Boxes b, int loads_at_once) {
  wait_for_stream();
  static_assert(sizeof(Chunk<In, Acc>) == kChunkBytes && sizeof(uint2) == kRunBytes && sizeof(unsigned) == kPlaceBytes);
  constexpr unsigned kSize = sizeof(In);
  constexpr unsigned kNowhere = 0xffffffff;
  constexpr unsigned kRunCopies = 4;  // that a thread starts at once
  extern __shared__ uint4 shared[];
  __shared__ Corner<In> corner;
  char* const tile = reinterpret_cast<char*>(shared);
  auto* const chunks = reinterpret_cast<Chunk<In, Acc>*>(tile + b.bytes);
  auto* const runs = reinterpret_cast<uint2*>(chunks + b.chunks);
  auto* const places = reinterpret_cast<unsigned*>(runs + b.runs);
  const auto length = static_cast<unsigned>(b.length.value);

  if (threadIdx.x < kWarpSize) {
    int64_t first = 0;  // element
    int64_t last = 0;   // seen from there
    int64_t output = 0;
    unsigned leaf = 0, run = kSize, lines = 1, copied_lines = 1;
    unsigned box = blockIdx.x;
#pragma unroll 1
    for (int d = 0; d < b.dims; ++d) {
      const BoxDim& dim = b.dim[d];
      const unsigned next = dim.ranges.divide(box);
      const unsigned begin = (box - next * static_cast<unsigned>(dim.ranges.value)) * dim.range;
      const unsigned left = dim.size - begin;
      const unsigned copied = min(dim.copied, left);
      box = next;
      first += begin * dim.stride;
      last += (copied - 1) * dim.stride;
      output += begin * dim.outputs;
      leaf += begin * dim.leaves;
      if (dim.in_run) run += (copied - 1) * dim.pitch;
      if (dim.across) {
        lines = min(dim.range, left);
        copied_lines = copied;
      }
      if (threadIdx.x == 0) corner.left[d] = left;
    }
    if (threadIdx.x == 0) {
      const In* const data = static_cast<const In*>(b.data) + first;
      const uintptr_t begin = reinterpret_cast<uintptr_t>(data) & ~uintptr_t{kLoadBytes - 1};
      const uintptr_t end =
          (reinterpret_cast<uintptr_t>(data + last + 1) + kLoadBytes - 1) & ~uintptr_t{kLoadBytes - 1};
      corner.data = data;
      corner.output = output;
      corner.leaf = leaf;
      corner.run = run;
      corner.lines = lines;
      corner.copied = copied_lines * length;
      corner.inside = begin >= reinterpret_cast<uintptr_t>(b.data) && end <= reinterpret_cast<uintptr_t>(b.end);
    }
  }
  __syncthreads();

  const In* const data = corner.data;
  const auto base = static_cast<unsigned>(reinterpret_cast<uintptr_t>(data) % kLoadBytes);
  for (unsigned i = threadIdx.x; i < b.runs; i += blockDim.x) {
    unsigned rest = i, offset = 0, place = base;
    bool there = true;
#pragma unroll 1
    for (int d = 0; d < b.dims; ++d) {
      const BoxDim& dim = b.dim[d];
      const unsigned next = dim.copies.divide(rest);
      const unsigned index = rest - next * static_cast<unsigned>(dim.copies.value);
      rest = next;
      offset += index * static_cast<unsigned>(dim.stride);
      place += index * dim.pitch;
      there = there && index < corner.left[d];
    }
    runs[i] = {offset, there ? place : kNowhere};
  }
  __syncthreads();

  const auto* const source = reinterpret_cast<const char*>(data);
  const auto run = static_cast<int>(corner.run);
  const auto words = static_cast<unsigned>(b.words.value);
  const unsigned every = b.runs * words;
  // use(from, to, byte) has the word of a run that begins at `byte` of it, which may be before its first.
  const auto copy = [&](unsigned i, const auto& use) {
    const unsigned number = b.words.divide(i);
    const uint2 at = runs[min(number, b.runs - 1)];
    const auto byte = static_cast<int>((i - number * words) * kLoadBytes - at.y % kLoadBytes);
    if (i >= every || at.y == kNowhere || byte >= run) return;
    use(source + (int64_t{at.x} * kSize + byte), tile + (at.y + byte), byte);
  };
  if (corner.inside) {  // then what lies beside a run in its first and in its last word is copied too
    for (unsigned i = threadIdx.x; i < every; i += kRunCopies * blockDim.x) {
#pragma unroll
      for (unsigned u = 0; u < kRunCopies; ++u) {
        copy(i + u * blockDim.x, [](const char* from, char* to, int) {
          copy_async(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from));
        });
      }
    }
  } else {
    for (unsigned i = threadIdx.x; i < every; i += blockDim.x) {
      copy(i, [run](const char* from, char* to, int byte) {
        for (int k = max(0, -byte); k < min(kLoadBytes, run - byte); k += kSize) {
          *reinterpret_cast<In*>(to + k) = *reinterpret_cast<const In*>(from + k);
        }
      });
    }
  }

  // While that is on its way: where leaves lie, and what there is to fold.
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < length + loads_at_once * kWarpSize; i += blockDim.x) {
    unsigned place = i * b.step;
#pragma unroll 1
    for (int t = 0; t < b.turns; ++t) place += b.turn[t].leaves.divide(i) * b.turn[t].jump;
    places[i] = place;
  }
#pragma unroll 1
  for (unsigned i = blockDim.x - 1 - threadIdx.x; i < b.chunks; i += blockDim.x) {
    unsigned rest = b.per_sequence.divide(i);
    const unsigned chunk = i - rest * static_cast<unsigned>(b.per_sequence.value);
    unsigned leaf = corner.leaf, place = base;
    int64_t output = corner.output;
    int64_t offset = 0;
    bool there = true;
#pragma unroll 1
    for (int d = 0; d < b.dims; ++d) {
      const BoxDim& dim = b.dim[d];
      const unsigned next = dim.picks.divide(rest);
      const unsigned index = rest - next * static_cast<unsigned>(dim.picks.value);
      rest = next;
      leaf += index * dim.leaves;
      place += index * dim.pitch;
      output += index * dim.outputs;
      offset += index * dim.stride;
      there = there && index < corner.left[d];
    }
    const unsigned steps = b.window / kWarpSize;                  // loads of a window
    const unsigned most = divide_by_power(loads_at_once, steps);  // windows of a chunk
    const unsigned first = divide_by_power(leaf + b.window - 1, b.window) + chunk * most;
    const unsigned past = divide_by_power(leaf + corner.lines * length + b.window - 1, b.window);
    const unsigned windows = there && first < past ? min(past - first, most) : 0;
    const unsigned first_leaf = first * b.window;
    const unsigned before = first_leaf - leaf;
    const unsigned line = b.length.divide(before);
    chunks[i] = {.data = data + offset,
                 .nodes = static_cast<Acc*>(b.nodes) + output * b.windows + first,
                 .place = place + line * b.across,
                 .row = before - line * length,
                 .before = before,
                 .leaf = first_leaf,
                 .windows = static_cast<uint16_t>(windows),
                 .there = static_cast<uint16_t>(min(windows * b.window, max(corner.copied, before) - before)),
                 .leaves = static_cast<uint16_t>(min(windows * b.window, max(b.n, first_leaf) - first_leaf))};
  }
  wait_for_copies();
  __syncthreads();

  const unsigned lane = threadIdx.x % kWarpSize;
  const auto fold = [&]<int kLoads>(std::integral_constant<int, kLoads>) {
    const unsigned steps = b.window / kWarpSize;
    const unsigned number = exchanged<kLoads>(lane);  // of the load whose sum a lane gets
    const unsigned window = divide_by_power(number, steps);
    const bool stores = lane < kLoads && (number & (steps - 1)) == 0;
    for (unsigned i = threadIdx.x / kWarpSize; i < b.chunks; i += blockDim.x / kWarpSize) {
      const Chunk<In, Acc>& chunk = chunks[i];
      const unsigned windows = chunk.windows;
      const unsigned there = chunk.there;
      const unsigned leaves = chunk.leaves;
      if (windows == 0) continue;
      const char* const p = tile + chunk.place;
      const unsigned* const place = places + chunk.row + lane;
      const auto leaf = [&](int u) { return reinterpret_cast<const In*>(p + place[u * kWarpSize]); };
      Acc x[kLoads];
      if (there == kLoads * kWarpSize) {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) x[u] = convert<Acc>(*leaf(u));
      } else {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          x[u] = identity<Acc>();
          if (u * kWarpSize + lane < there) x[u] = convert<Acc>(*leaf(u));
        }
      }
      Acc node = exchange(x, lane);
      if (there < leaves) {
        const int64_t begin = b.reduced.offset_of_small(chunk.leaf - chunk.before);
#pragma unroll 1
        for (unsigned u = there / kWarpSize; u * kWarpSize < leaves; ++u) {
          const unsigned of_chunk = u * kWarpSize + lane;
          Acc sum = identity<Acc>();
          if (of_chunk < leaves) {
            sum = convert<Acc>(of_chunk < there ? *leaf(u)
                                                : chunk.data[b.reduced.offset_of_small(chunk.leaf + of_chunk) - begin]);
          }
          sum = fold_lanes(sum);
          node = select(u == number, sum, node);
        }
      }
      for (unsigned mask = kLoads / 2, of = steps; of > 1; mask /= 2, of /= 2) node += shuffle_xor(node, mask);
      if (stores && window < windows) chunk.nodes[window] = node;
    }
  };
  if (loads_at_once == 4) {
    fold(std::integral_constant<int, 4>());
  } else if (loads_at_once == 8) {
    fold(std::integral_constant<int, 8>());
  } else if constexpr (most_box_loads(sizeof(Acc)) > 8) {
    fold(std::integral_constant<int, most_box_loads(sizeof(Acc))>());
  }
}

}  // namespace reduce_ops::sum
