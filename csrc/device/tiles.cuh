// Sums whose order runs across memory, along short lines (across.cuh): by tiles of lines in shared memory.
//
// As many lines as a window has leaves are as many windows as a line has leaves, whatever that is. So a tile of so many
// lines, or some times as many, is whole windows. From shared memory threads read along the lines.
//
// - Where neighbouring lines lie side by side without a gap, a tile is some runs of memory (sum_staged_tiles). They are
//   copied as they lie, by words of 16 bytes; a thread finds its leaves by additions or, in lines that end several
//   times in what it reads, in a table.
//
// - Any other lines that boxes.cuh does not take are loaded element by element, and put into the order (sum_tiles).

#pragma once

#include "device/across.cuh"
#include "device/boxes.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "device/strides.cuh"
#include "device/tuning.cuh"

namespace reduce_ops::sum {

// Copies of 16 bytes that a thread starts at once. One by one, each waits for the one before: (69063, 3, 16) over
// dimensions 0 and 1, transposed, 30 us instead of 10.6 (H200).
inline constexpr int kCopies = 8;
static_assert(kMinWindow % kPart == 0 && kMaxTileWindow <= kPart * kWarpSize);

/// The first window of a tile.
__device__ inline unsigned first_window(const Across& a, unsigned first_line) {
  return divide_by_power(first_line * a.length, a.window);
}

/// By all threads of a block, the nodes of the windows of a tile. read(leaf, x) brings kPart leaves of it.
template <typename Acc, typename Read>
__device__ void fold_tile(unsigned leaves, unsigned window, Acc* nodes, const Read& read) {
  const unsigned lane = threadIdx.x % kWarpSize;
  const unsigned parts = window / kPart;  // up to kWarpSize
  const unsigned every = (leaves + window - 1) / kPart & ~(parts - 1);
  for (unsigned i = threadIdx.x - lane; i < every; i += blockDim.x) {
    const unsigned part = min(i + lane, every - 1);
    Acc x[kPart];
    read(part * kPart, x);
    Acc node = fold_array<kPart>(x);
    for (unsigned mask = 1; mask < parts; mask *= 2) node += shuffle_xor(node, mask);
    if ((lane & (parts - 1)) == 0 && i + lane < every) nodes[divide_by_power(part, parts)] = node;
  }
}

/// The windows of at_once lines. Outputs are taken in the order of memory; `places` are those in the result. Where
/// there are few lines, a warp loads more than one row of them. kDown: the loads of a lane go down a line, whose
/// elements are one stride apart, instead of along a row. Leaf x of a tile lies at x + (x >> gap) in shared memory.
template <bool kDown, typename In, typename Acc>
__global__ void __launch_bounds__(kTileThreads)
    sum_tiles(const __grid_constant__ Across a, const __grid_constant__ Strides kept,
              const __grid_constant__ Strides places, int gap) {
  wait_for_stream();
  constexpr unsigned kLoads = sizeof(In) <= 4 ? 16 : 8;
  extern __shared__ uint4 shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const unsigned blocks = (a.lines + a.at_once - 1) / a.at_once;  // of an output
  const int64_t output = blockIdx.x / blocks;
  const unsigned first_line = blockIdx.x % blocks * a.at_once;
  const unsigned lines = min(a.lines - first_line, a.at_once);
  const unsigned lane = threadIdx.x % kWarpSize;
  const unsigned warp = threadIdx.x / kWarpSize;

  const unsigned width = lines > 16 ? 32 : lines > 8 ? 16 : lines > 4 ? 8 : 4;  // lines of a load
  const unsigned rows = kWarpSize / width;                                      // of a load
  const unsigned lines_a_turn = kDown ? width : width * kLoads;                 // of the loads of a lane
  const unsigned rows_a_turn = kDown ? rows * kLoads : rows;
  const unsigned down = (a.length + rows_a_turn - 1) / rows_a_turn;  // turns
  const unsigned turns = (lines + lines_a_turn - 1) / lines_a_turn * down;
  const In* const data = static_cast<const In*>(a.data) + kept.offset(output);
  const bool straight = a.reduced.far.size[0].value == a.length;
  for (unsigned i = warp; i < turns; i += blockDim.x / kWarpSize) {
    const unsigned line = i / down * lines_a_turn + lane % width;
    const unsigned row = i % down * rows_a_turn + lane / width;
    if (line >= lines || row >= a.length) continue;
    const unsigned loads = kDown ? (a.length - row + rows - 1) / rows : (lines - line + width - 1) / width;
    const unsigned leaf = line * a.length + row;
    const unsigned step = kDown ? rows : width * a.length;  // from load to load
    const unsigned first = first_line * a.length + leaf;
    const auto turn =
        static_cast<unsigned>(a.reduced.far.size[1].value);  // lines one stride apart, if a line is straight
    const bool even = kDown || (straight && (first_line + line) % turn + (loads - 1) * width < turn);
    In element[kLoads];
    const auto load = [&](const In* p, const auto& offset) {
#pragma unroll
      for (unsigned u = 0; u < kLoads; ++u) {
        if (u < loads) element[u] = p[offset(u)];
      }
    };
    if (even) {
      const int64_t stride = static_cast<int>(kDown ? rows * a.reduced.far.stride[0] : width * a.reduced.far.stride[1]);
      load(opaque(data + a.reduced.offset_of_small(first)), [&](unsigned u) { return u * stride; });
    } else if (a.reduced.near) {
      load(data, [&](unsigned u) { return a.reduced.in_more.offset(first + u * step); });
    } else {
      load(data, [&](unsigned u) { return a.reduced.far.offset_of_small(first + u * step); });
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; ++u) {
      const unsigned x = leaf + u * step;
      if (u < loads) tile[x + (x >> gap)] = element[u];
    }
  }
  const unsigned leaves = lines * a.length;
  const unsigned windows = (leaves + a.window - 1) / a.window;
  for (unsigned i = leaves + threadIdx.x; i < windows * a.window; i += blockDim.x) {
    tile[i + (i >> gap)] = missing<In>();
  }
  __syncthreads();

  Acc* const nodes = static_cast<Acc*>(a.nodes) + places.offset(output) * a.windows + first_window(a, first_line);
  fold_tile(leaves, a.window, nodes, [&](unsigned first, Acc(&x)[kPart]) {
    const In* const leaf = tile + first + (first >> gap);
#pragma unroll
    for (int k = 0; k < kPart; ++k) x[k] = leaf_or_identity<Acc>(leaf[k], first + k < leaves);
  });
}

/// A tile of such lines. Lines count from its first one on, turns from the one that this is in: turn t begins with line
/// t * turn - before.
template <bool kTurns, typename In>
struct StagedTile {
  static constexpr int kSize = static_cast<int>(sizeof(In));

  struct Leaf {
    int row, line, turn;
  };

  const Divisor& line_of;  // elements of a line
  const Divisor& turn_of;  // lines of a turn
  int before;
  int base;  // bytes from `memory` to the first element
  int pitch;
  int turn_gap;
  char* memory;

  __device__ int length() const { return static_cast<int>(line_of.value); }

  __device__ Leaf find(int leaf) const {
    const auto line = static_cast<int>(line_of.divide(leaf));
    return {leaf - line * length(), line, kTurns ? static_cast<int>(turn_of.divide(before + line)) : 0};
  }
  /// Bytes from `memory` to a leaf.
  __device__ int place_of(Leaf leaf) const {
    return base + leaf.row * pitch + leaf.line * kSize + leaf.turn * turn_gap;
  }
  /// Leaves from this one on until its turn ends.
  __device__ int left_of_turn(Leaf leaf) const {
    const int past = (leaf.turn + 1) * static_cast<int>(turn_of.value) - before;  // the first line behind it
    return (past - leaf.line) * length() - leaf.row;
  }
  /// Bytes from where a line ends to where the next one begins.
  __device__ int line_end() const { return kSize - length() * pitch; }

  template <typename Acc>
  __device__ Acc read(int place) const {
    return convert<Acc>(*reinterpret_cast<const In*>(memory + place));
  }

  /// From `first` on, of which `there` are not missing.
  template <typename Acc>
  __device__ void read_some(Leaf first, int there, Acc (&x)[kPart]) const {
    int place = place_of(first);
    int to_line = length() - first.row;  // leaves
    const int to_turn = left_of_turn(first);
#pragma unroll
    for (int k = 0; k < kPart; ++k) {
      x[k] = identity<Acc>();
      if (k < there) x[k] = read<Acc>(place);
      place += pitch;
      if (k + 1 == to_line) {
        place += line_end();
        to_line += length();
      }
      if (kTurns && k + 1 == to_turn) place += turn_gap;
    }
  }

  /// Of lines of kPart elements and more. Neighbours read kPart leaves apart, and those are in few banks of shared
  /// memory, if not in one, by how many words of 16 bytes `pitch` may be made longer. So not all begin with their first
  /// leaf: the k-th that a thread reads is the one with number k ^ swap, which leaves every sum of two as it is.
  template <typename Acc>
  __device__ void read_long_lines(Leaf first, Acc (&x)[kPart]) const {
    const int swap = static_cast<int>(threadIdx.x % kPart);
    const Leaf line_ends{length(), first.line, first.turn};
    const int end = place_of(line_ends);
    const int jump = line_end() + (kTurns && left_of_turn(line_ends) == 0 ? turn_gap : 0);
    int place[kPart];
    place[0] = place_of({first.row + swap, first.line, first.turn});
#pragma unroll
    for (int k = 1; k < kPart; ++k) {
      const int bit = k & -k;
      place[k] = place[k - bit] + (swap & bit ? -bit : bit) * pitch;
    }
#pragma unroll
    for (int k = 0; k < kPart; ++k) x[k] = read<Acc>(place[k] + (place[k] < end ? 0 : jump));
  }

  static constexpr int kPlacesWords = kPlacesBytes / kLoadBytes;

  /// By all threads of a block, for read_short_lines: how many bytes behind the first element of its line each of kPart
  /// leaves lies, by the row of the first leaf.
  __device__ void tabulate(uint4* places) const {
    for (int i = static_cast<int>(threadIdx.x); i < length() * kPart; i += static_cast<int>(blockDim.x)) {
      const int row = i / kPart;
      const int leaf = row + i % kPart;
      const auto line = static_cast<int>(line_of.divide(leaf));
      reinterpret_cast<uint16_t*>(places + row * kPlacesWords)[i % kPart] =
          static_cast<uint16_t>((leaf - line * length()) * pitch + line * kSize);
    }
  }

  /// Of shorter lines. kMayTurn: a turn may end within these leaves.
  template <bool kMayTurn, typename Acc>
  __device__ void read_short_lines(const uint4* places, Leaf first, Acc (&x)[kPart]) const {
    const unsigned line = place_of({0, first.line, first.turn});
    const int to_turn = kMayTurn ? left_of_turn(first) : kPart;
    const auto gap = [&](int k) { return kMayTurn && k >= to_turn ? turn_gap : 0; };
    const uint4 behind_line[] = {places[first.row * kPlacesWords], places[first.row * kPlacesWords + 1]};
    unsigned two[kPart / 2];  // of 16 bits, which their sums are too
    static_assert(sizeof two == sizeof behind_line);
    memcpy(two, behind_line, sizeof two);
#pragma unroll
    for (int k = 0; k < kPart; k += 2) {
      const unsigned both = two[k / 2] + 0x10001 * line;
      x[k] = read<Acc>(static_cast<int>(both & 0xffff) + gap(k));
      x[k + 1] = read<Acc>(static_cast<int>(both >> 16) + gap(k + 1));
    }
  }
};

/// As sum_tiles(), where neighbouring lines are neighbours in memory. kTurns: a turn of them at a time; no two of these
/// end in kPart leaves. The bound leaves as many registers as spill nothing.
template <bool kTurns, typename In, typename Acc>
__global__ void __launch_bounds__(kTileThreads, sizeof(Acc) > 8 ? 3 : 5)
    sum_staged_tiles(const __grid_constant__ Across a, const __grid_constant__ Strides kept,
                     const __grid_constant__ Strides places, const __grid_constant__ Staging s) {
  wait_for_stream();
  extern __shared__ uint4 shared[];
  const unsigned output = s.tiles.divide(blockIdx.x);
  const unsigned first_line = (blockIdx.x - output * static_cast<unsigned>(s.tiles.value)) * a.at_once;
  const int lines = static_cast<int>(min(a.lines - first_line, a.at_once));
  const int length = static_cast<int>(a.length);

  const int turn = kTurns ? static_cast<int>(a.reduced.far.size[1].value) : lines;
  const unsigned first_turn = kTurns ? a.reduced.far.size[1].divide(first_line) : 0;
  const int before = kTurns ? static_cast<int>(first_line) - static_cast<int>(first_turn) * turn : 0;
  const int64_t next_turn = kTurns ? a.reduced.far.stride[2] : 0;
  const In* const data =
      static_cast<const In*>(a.data) + kept.offset(output) + first_turn * next_turn + (kTurns ? before : first_line);
  const auto base = static_cast<unsigned>(reinterpret_cast<uintptr_t>(data) % kLoadBytes);
  const StagedTile<kTurns, In> tile{.line_of = a.reduced.far.size[0],
                                    .turn_of = a.reduced.far.size[1],
                                    .before = before,
                                    .base = static_cast<int>(base),
                                    .pitch = s.pitch,
                                    .turn_gap = s.turn_gap,
                                    .memory = reinterpret_cast<char*>(shared)};
  const int leaves = lines * length;
  const int turns = kTurns ? static_cast<int>(a.reduced.far.size[1].divide(before + lines - 1)) + 1 : 1;
  // None is 2^31 or more.
  const auto row_step = static_cast<unsigned>(a.reduced.far.stride[0]);
  const auto turn_step = static_cast<unsigned>(next_turn - turn);
  const auto offset_of = [&](unsigned row, unsigned line, unsigned t) { return row * row_step + line + t * turn_step; };

  // What lies beside a run in its first and in its last word is copied too, but nothing from outside of the tensor.
  const auto begin = reinterpret_cast<uintptr_t>(data) - base;
  const auto end = reinterpret_cast<uintptr_t>(data + offset_of(length - 1, lines, turns - 1)) + kLoadBytes - 1;
  const bool inside = begin >= reinterpret_cast<uintptr_t>(a.data) &&
                      (end & ~uintptr_t{kLoadBytes - 1}) <= reinterpret_cast<uintptr_t>(s.end);
  if (inside) {
    const auto words = static_cast<unsigned>(s.words.value);
    const unsigned every = turns * length * words;
    for (unsigned first = threadIdx.x; first < every; first += kCopies * blockDim.x) {
#pragma unroll
      for (unsigned u = 0; u < kCopies; ++u) {
        const unsigned i = first + u * blockDim.x;
        const unsigned run = s.words.divide(i);
        const int t = kTurns ? static_cast<int>(a.reduced.far.size[0].divide(run)) : 0;
        const int row = static_cast<int>(run) - t * length;
        const int line = kTurns ? max(t * turn - before, 0) : 0;
        const int behind = kTurns ? min((t + 1) * turn - before, lines) : lines;
        const int place = tile.place_of({row, line, t});
        const int byte = static_cast<int>(i - run * words) * kLoadBytes - (place & (kLoadBytes - 1));  // of the run
        const auto* const source = reinterpret_cast<const char*>(data + offset_of(row, line, t));
        if (i < every && byte < (behind - line) * tile.kSize) {
          copy_async(reinterpret_cast<uint4*>(tile.memory + place + byte),
                     reinterpret_cast<const uint4*>(source + byte));
        }
      }
    }
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < leaves; i += static_cast<int>(blockDim.x)) {
      const auto leaf = tile.find(i);
      *reinterpret_cast<In*>(tile.memory + tile.place_of(leaf)) = data[offset_of(leaf.row, leaf.line, leaf.turn)];
    }
  }
  auto* const places_of_leaves = reinterpret_cast<uint4*>(tile.memory + s.bytes);
  if (s.tabulated) tile.tabulate(places_of_leaves);  // while copies are on their way
  wait_for_copies();
  __syncthreads();

  Acc* const nodes = static_cast<Acc*>(a.nodes) + places.offset(output) * a.windows + first_window(a, first_line);
  // Where few warps meet the end of a turn, none of the others asks for it at each leaf.
  const bool seldom = kTurns && turn * length >= kWarpSize * kPart * 8;
  fold_tile(leaves, a.window, nodes, [&](unsigned leaf, Acc(&x)[kPart]) {
    const auto first = tile.find(static_cast<int>(leaf));
    const int there = leaves - static_cast<int>(leaf);
    if (there < kPart || (length < kPart && (!s.tabulated || (seldom && tile.left_of_turn(first) < kPart)))) {
      tile.read_some(first, there, x);
    } else if (length >= kPart) {
      tile.read_long_lines(first, x);
    } else if (!kTurns || seldom) {
      tile.template read_short_lines<false>(places_of_leaves, first, x);
    } else {
      tile.template read_short_lines<kTurns>(places_of_leaves, first, x);
    }
  });
}

}  // namespace reduce_ops::sum
