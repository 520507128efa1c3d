// Exact sums of outputs of any strides, side by side: neighbouring lanes take neighbouring outputs, of which a block
// has up to 32, and where there are fewer, neighbouring elements of each.
//
// A block has gridDim.y-th of the elements of its outputs: each lane adds one element at a time to its own bins
// (bins.cuh), with kColumnLoads of them in flight. Every kAdditions elements the warps' bins are added up, lane by
// lane, and at the end the totals of lanes that share an output. Segments meet as those of a run do (device/slots.cuh).
//
// What limits it: a load of one element instead of 16 bytes, and an offset, for each element.

#pragma once

#include "device/early_start.cuh"
#include "exact/arguments.cuh"
#include "exact/bins.cuh"
#include "exact/segments.cuh"

namespace reduce_ops::exact {

/// kLinear: the elements of an output are one distance apart.
template <typename In, bool kLinear>
__global__ void __launch_bounds__(all_column_warps(kTerms<In>) * kWarpSize, 1)
    exact_columns(const In* __restrict__ data, const __grid_constant__ Problem p, int width, void* slot_memory,
                  const __grid_constant__ Result result) {
  using B = Bins<In>;
  using State = typename B::State;
  using Bin = typename B::Bin;
  using Element = typename B::Element;
  static_assert(all_column_warps(kTerms<In>) <= 32, "the bins of so many add up without rounding");
  static_assert(B::kBins * kWarpSize * sizeof(int64_t) == totals_bytes(kTerms<In>));
  extern __shared__ char memory[];
  __shared__ unsigned kinds_of_lane[kWarpSize];
  const int lane = threadIdx.x % kWarpSize;
  const int wid = threadIdx.x / kWarpSize;
  const int warps = blockDim.x / kWarpSize;
  Bin* bins = reinterpret_cast<Bin*>(memory);
  int64_t* totals = reinterpret_cast<int64_t*>(memory + warps * B::kBytes);  // [bin][lane]

  for (int i = threadIdx.x; i < warps * B::kBins * kWarpSize; i += blockDim.x) bins[i] = B::empty();
  for (int i = threadIdx.x; i < B::kBins * kWarpSize; i += blockDim.x) totals[i] = 0;
  if (wid == 0) kinds_of_lane[lane] = 0;
  wait_for_stream();
  __syncthreads();

  // Lane (row, column) of a warp: the warp takes `rows` elements of each of `width` outputs at once.
  const int rows = kWarpSize / width;
  const int64_t first_output = int64_t{blockIdx.x} * width;
  const int64_t output = first_output + lane % width;
  const bool active = lane < rows * width && output < p.outputs;
  const In* column = data + (active ? p.kept.offset(output) : 0);
  const int64_t step = int64_t{gridDim.y} * warps * rows;
  const unsigned offset = wid * B::kBytes + lane * static_cast<unsigned>(sizeof(Bin));
  unsigned kinds = 0;
  int room = B::kAdditions;

  const auto merge = [&] {
    __syncthreads();
    for (int i = threadIdx.x; i < B::kBins * kWarpSize; i += blockDim.x) {
      typename B::Total total = B::empty();
      for (int w = 0; w < warps; ++w) {
        Bin& bin = bins[w * B::kBins * kWarpSize + i];
        total += bin;
        bin = B::empty();
      }
      unsigned bits = 0;
      totals[i] += B::units(i / kWarpSize, total, bits);
      if (bits != 0) atomicOr(&kinds_of_lane[lane], bits);
    }
    __syncthreads();
  };

  // Every thread of the block goes round equally often, for the sake of merge().
  const int64_t mine = (int64_t{blockIdx.y} * warps + wid) * rows + lane / width;
  const int64_t start = int64_t{blockIdx.y} * warps * rows;
  for (int64_t base = 0; base + start < p.n; base += kColumnLoads * step) {
    In x[kColumnLoads];
#pragma unroll
    for (int u = 0; u < kColumnLoads; ++u) {
      const int64_t i = base + u * step + mine;
      x[u] = missing<In>();
      if (active && i < p.n) x[u] = column[kLinear ? i * p.reduced.stride[0] : p.reduced.offset(i)];
    }
#pragma unroll
    for (int u = 0; u < kColumnLoads; ++u) B::add(memory, offset, convert<Element>(x[u]), kinds);
    room -= kColumnLoads;
    if (room < kColumnLoads) {
      merge();
      room = B::kAdditions;
    }
  }
  merge();
  if (kinds != 0) atomicOr(&kinds_of_lane[lane], kinds);
  __syncthreads();

  // A warp an output.
  const Slots slots(slot_memory, 0, 0);
  const unsigned stride = static_cast<unsigned>(p.outputs) * kSlotsASegment<State>;  // from segment to segment
  const unsigned first = static_cast<unsigned>(first_output) * kSlotsASegment<State>;
  const int columns = static_cast<int>(min(int64_t{width}, p.outputs - first_output));
  for (int c = wid; c < columns; c += warps) {
    const Digits<State> digits([&](int k) {
      int64_t limb = 0;
      for (int r = 0; k < State::kLimbs && r < rows; ++r) limb += limb_of<B>(totals + r * width + c, kWarpSize, k);
      return limb;
    });
    const bool has_it = lane < rows * width && lane % width == c;
    const unsigned kinds_of_c = __reduce_or_sync(kFullWarp, has_it ? kinds_of_lane[lane] : 0);
    if (gridDim.y == 1) {
      write<State>(result, p.places.offset(first_output + c), digits, kinds_of_c);
    } else {
      publish<State>(slots, first + c * kSlotsASegment<State> + blockIdx.y * stride, digits, kinds_of_c);
    }
  }
  if (gridDim.y == 1 || blockIdx.y != gridDim.y - 1) return;
  __syncthreads();  // the memory is free again
  collect<State>(slots, first, stride, gridDim.y, columns, memory, [&](int c, const Collected<State>& all) {
    write<State>(result, p.places.offset(first_output + c), all.digits(), all.kinds());
  });
}

}  // namespace reduce_ops::exact
