// Exact sums of outputs whose elements are one run of memory each, of which the full sum of a dense tensor is the one
// with a single output: a warp an output, or one or more blocks an output.
//
// A lane loads 16 bytes at a time, some of them at once, adds each element to its own bins (bins.cuh), and that is all:
// a warp empties its bins into registers every kAdditions elements, without a barrier. At the end the warps of a block
// add up their totals, and the blocks of an output theirs (segments.cuh); one warp rounds the result, once.
//
// Since sums are exact, nothing depends on which lane adds which element: chunks of the run are dealt out in turn, and
// elements before the first and behind the last 16-byte boundary go wherever there is room.

#pragma once

#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/ptx.cuh"
#include "exact/arguments.cuh"
#include "exact/bins.cuh"
#include "exact/segments.cuh"

namespace reduce_ops::exact {

/// The bins of a warp, in shared memory, and what was taken out of them, in registers.
template <typename In>
class Warp {
 public:
  using B = Bins<In>;
  using Element = typename B::Element;
  static_assert(B::kBytes == bins_bytes(kTerms<In>));

  /// memory: of the block; a warp has B::kBytes of it.
  __device__ explicit Warp(char* memory) : memory_(memory), first_(threadIdx.x / kWarpSize * B::kBytes) {}

  /// Starts a sum.
  __device__ void clear() {
    __syncwarp();
#pragma unroll
    for (int b = 0; b < B::kBins; ++b) *bin(b, lane()) = B::empty();
#pragma unroll
    for (int i = 0; i < kTotals; ++i) totals_[i] = 0;
    kinds_ = 0;
  }

  __device__ static unsigned lane() { return threadIdx.x % kWarpSize; }

  /// Adds an element, or two.
  template <typename... More>
  __device__ void add(Element x, More... more) {
    B::add(memory_, first_ + lane() * static_cast<unsigned>(sizeof(typename B::Bin)), x, more..., kinds_);
  }

  /// Every lane calls it before it has added more than B::kAdditions elements since the last call. Lanes share out the
  /// bins; each goes through its columns in an order of its own, so that no two meet in a bank. kLast: no element
  /// follows, so that bins need not be made empty.
  template <bool kLast>
  __device__ void merge() {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      const int b = bin_of(i);
      if (b >= B::kBins) break;
      typename B::Total part[4] = {B::empty(), B::empty(), B::empty(), B::empty()};  // so that additions overlap
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        typename B::Bin* p = bin(b, lane() % kLanesABin * kColumns + (lane() + j) % kColumns);
        part[j % 4] += *p;
        if (!kLast) *p = B::empty();
      }
      typename B::Total total = (part[0] + part[1]) + (part[2] + part[3]);
      if constexpr (kLanesABin == 2) total += __shfl_xor_sync(kFullWarp, total, 1);
      totals_[i] += B::units(b, total, kinds_);
    }
    __syncwarp();
  }

  /// After merge(): the totals of the bins in memory, bin b's at [b]. The bins are lost.
  __device__ int64_t* totals() {
    int64_t* result = reinterpret_cast<int64_t*>(memory_ + first_);
#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      if (bin_of(i) < B::kBins && lane() % kLanesABin == 0) result[bin_of(i)] = totals_[i];
    }
    __syncwarp();
    return result;
  }

  /// Bits of Kind, of the whole warp.
  __device__ unsigned kinds() const { return __reduce_or_sync(kFullWarp, kinds_); }

 private:
  static constexpr int kLanesABin = B::kBins < kWarpSize ? 2 : 1;
  static constexpr int kColumns = kWarpSize / kLanesABin;
  static constexpr int kTotals = (B::kBins * kLanesABin + kWarpSize - 1) / kWarpSize;

  __device__ static int bin_of(int i) { return (i * kWarpSize + lane()) / kLanesABin; }
  __device__ typename B::Bin* bin(int b, int column) const {
    return reinterpret_cast<typename B::Bin*>(memory_ + first_ + b * B::kRow) + column;
  }

  char* memory_;
  unsigned first_;
  int64_t totals_[kTotals];
  unsigned kinds_;
};

/// Adds, to the bins of a warp, its share of the run of n elements at `row`, which `warps` warps add up, this one being
/// number `number`: every so manyth chunk of kLoads groups of 16 bytes a lane and, if it is the last one, what is left.
/// The groups of the next chunk are in flight while one is added: without that, warps that add and warps that wait for
/// memory alternate too slowly (H200, 2^28 float32: 248.7 us instead of 240.3; bfloat16: 183 instead of 129).
template <int kLoads, typename In>
__device__ void add_run(Warp<In>& warp, const In* row, int64_t n, unsigned number, unsigned warps) {
  using Element = typename Warp<In>::Element;
  constexpr int kPerLoad = 16 / static_cast<int>(sizeof(In));
  constexpr int kChunk = kLoads * kWarpSize;  // groups
  constexpr int kAChunk = kLoads * kPerLoad;  // additions of a lane
  static_assert(2 * kAChunk + 2 <= Bins<In>::kAdditions, "what is left and a chunk need no merge between them");
  const int lane = warp.lane();
  const auto add_group = [&warp](const uint4& group) {
    In x[kPerLoad];
    memcpy(x, &group, sizeof group);
#pragma unroll
    for (int i = 0; i < kPerLoad; i += 2) warp.add(convert<Element>(x[i]), convert<Element>(x[i + 1]));
  };

  const auto head = static_cast<int>(min(n, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(row) % 16 / sizeof(In))));
  const uint4* groups = reinterpret_cast<const uint4*>(row + head) + lane;
  const auto count = static_cast<int64_t>(static_cast<uint64_t>(n - head) / kPerLoad);
  const auto chunks = static_cast<unsigned>(static_cast<uint64_t>(count) / kChunk);
  const uint4* p = groups + int64_t{number} * kChunk;
  unsigned chunk = number;
  uint4 load[kLoads] = {};
  if (chunk < chunks) {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) load[u] = load_once(p + u * kWarpSize);
  }
  warp.clear();  // while the first loads are on their way

  int room = Bins<In>::kAdditions;
  if (number == warps - 1) {  // before the loop, which then keeps nothing of it in registers
    const uint4* behind = groups + int64_t{chunks} * kChunk;
    const auto rest = static_cast<int>(static_cast<uint64_t>(count) % kChunk);
    const auto tail = static_cast<int>(static_cast<uint64_t>(n - head) % kPerLoad);
    In first{}, last{};
    if (lane < head) first = row[lane];
    if (lane < tail) last = row[n - tail + lane];
    uint4 left[kLoads] = {};
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      if (lane + u * kWarpSize < rest) left[u] = load_once(behind + u * kWarpSize);
    }
    if (lane < head) warp.add(convert<Element>(first));
    if (lane < tail) warp.add(convert<Element>(last));
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      if (lane + u * kWarpSize < rest) add_group(left[u]);
    }
    room -= kAChunk + 2;
  }
  if (chunk >= chunks) return;
  for (;;) {
    chunk += warps;
    p += int64_t{warps} * kChunk;
    const bool more = chunk < chunks;
    uint4 next[kLoads] = {};
    if (more) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) next[u] = load_once(p + u * kWarpSize);
    }
    // Or ptxas puts these loads off until some of the additions are done (H200, float32 2^24: 20.4 us instead of 19.9;
    // bfloat16 2^24: 16.0 instead of 14.5; float64 2^27: 299 instead of 284).
    __syncwarp();
#pragma unroll
    for (int u = 0; u < kLoads; ++u) add_group(load[u]);
    if (!more) return;
#pragma unroll
    for (int u = 0; u < kLoads; ++u) load[u] = next[u];
    room -= kAChunk;
    if (room < kAChunk) {
      warp.template merge<false>();
      room = Bins<In>::kAdditions;
    }
  }
}

/// One or more blocks an output: gridDim.x segments, gridDim.y outputs. Where there is more than one segment, slots,
/// which are empty before and after. kBatched: there may be more than one output.
template <typename In, int kLoads, bool kBatched>
__global__ void __launch_bounds__(run_warps(kTerms<In>) * kWarpSize, run_blocks(kTerms<In>))
    exact_run(const In* __restrict__ data, int64_t n, void* slot_memory, const __grid_constant__ Result result,
              const __grid_constant__ sum::Strides kept, const __grid_constant__ sum::Strides places) {
  using B = Bins<In>;
  using State = typename B::State;
  extern __shared__ char memory[];
  __shared__ unsigned kinds_of_warp[kWarpSize];
  const int output = kBatched ? blockIdx.y : 0;
  const int lane = threadIdx.x % kWarpSize;
  const int wid = threadIdx.x / kWarpSize;
  const int warps = blockDim.x / kWarpSize;

  Warp<In> warp(memory);
  wait_for_stream();
  add_run<kLoads>(warp, kBatched ? data + kept.offset(output) : data, n, blockIdx.x * warps + wid, gridDim.x * warps);
  warp.template merge<true>();
  const int64_t* totals = warp.totals();
  unsigned kinds = warp.kinds();
  if (lane == 0) kinds_of_warp[wid] = kinds;
  __syncthreads();

  const Slots slots(slot_memory, 0, 0);
  const unsigned first = output * gridDim.x * kSlotsASegment<State>;
  Digits<State> digits;
  if (wid == 0) {
    int64_t* sums = reinterpret_cast<int64_t*>(memory);  // where the totals of this warp are
    for (int b = lane; b < B::kBins; b += kWarpSize) {
      int64_t total = 0;
#pragma unroll 8
      for (int w = 0; w < warps; ++w) total += totals[b + w * (B::kBytes / 8)];
      sums[b] = total;
    }
    kinds = __reduce_or_sync(kFullWarp, lane < warps ? kinds_of_warp[lane] : 0);
    __syncwarp();
    digits = Digits<State>([sums](int k) { return k < State::kLimbs ? limb_of<B>(sums, 1, k) : 0; });
    if (gridDim.x > 1) publish<State>(slots, first + blockIdx.x * kSlotsASegment<State>, digits, kinds);
  }
  if (blockIdx.x != gridDim.x - 1) return;
  if (gridDim.x > 1) {
    __syncthreads();  // the memory is free again
    collect<State>(slots, first, kSlotsASegment<State>, gridDim.x, 1, memory, [&](int, const Collected<State>& all) {
      digits = all.digits();
      kinds = all.kinds();
    });
  }
  if (wid == 0) write<State>(result, kBatched ? places.offset(output) : 0, digits, kinds);
}

/// A warp an output, or several, one after the other.
template <typename In>
__global__ void __launch_bounds__(run_warps(kTerms<In>) * kWarpSize, run_blocks(kTerms<In>))
    exact_rows(const In* __restrict__ data, const __grid_constant__ sum::Strides kept,
               const __grid_constant__ sum::Strides places, int64_t outputs, int64_t n,
               const __grid_constant__ Result result) {
  using B = Bins<In>;
  using State = typename B::State;
  extern __shared__ char memory[];
  const int64_t warps = blockDim.x / kWarpSize;
  Warp<In> warp(memory);
  wait_for_stream();
  for (int64_t i = blockIdx.x * warps + threadIdx.x / kWarpSize; i < outputs; i += gridDim.x * warps) {
    add_run<kRowLoads>(warp, data + kept.offset(i), n, 0, 1);
    warp.template merge<true>();
    const unsigned kinds = warp.kinds();
    const int64_t* totals = warp.totals();
    const Digits<State> digits([totals](int k) { return k < State::kLimbs ? limb_of<B>(totals, 1, k) : 0; });
    write<State>(result, places.offset(i), digits, kinds);
  }
}

}  // namespace reduce_ops::exact
