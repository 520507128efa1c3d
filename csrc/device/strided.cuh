// Sources (sources.cuh) of elements at strides, in runs or one by one.

#pragma once

#include "device/sources.cuh"

namespace reduce_ops::sum {

// Offsets: where the elements of an output lie. from() has loads() done with a cursor that says where the element of a
// lane lies, after next() the one kWarpSize on, and so on, for the `count` elements of a warp from `first` on.

/// Of elements in one turn of the innermost dimension.
class Straight {
 public:
  template <int kDims>
  __device__ Straight(const Near<kDims>& near, int64_t i)
      : offset_(near.offset(static_cast<uint32_t>(i))), step_(uint32_t{kWarpSize} * near.stride) {}
  __device__ int offset() const { return static_cast<int>(offset_); }
  __device__ void next() { offset_ += step_; }

 private:
  uint32_t offset_;  // wraps past the last element
  uint32_t step_;
};

/// By a division a turn for each element, unless they are straight.
template <int kDims>
struct Divisions : Near<kDims> {
  using Argument = Near<kDims>;

  template <typename Loads>
  __device__ void from(int64_t first, int count, unsigned lane, const Loads& loads) const {
    if (this->straight(static_cast<uint32_t>(first), count)) {
      loads(Straight(*this, first + lane));
    } else {
      loads(Cursor(*this, first + lane));
    }
  }

  class Cursor {
   public:
    __device__ Cursor(const Near<kDims>& near, int64_t i) : near_(near), i_(static_cast<uint32_t>(i)) {}
    __device__ int offset() const { return near_.offset(i_); }
    __device__ void next() { i_ += kWarpSize; }

   private:
    const Near<kDims>& near_;
    uint32_t i_;
  };
};

/// In two dimensions, by one division for all loads of a lane (NearSteps).
/// Faster where all warps find all their loads at once, as those of sum_block do (H200, (128, 512, 7, 7) over
/// dimensions 0, 2 and 3: 5.3 us, with divisions 5.9), slower in a loop ((64, 3, 225, 225): 14.6 instead of 14.2).
struct Steps : NearSteps {
  using Argument = NearSteps;

  template <typename Loads>
  __device__ void from(int64_t first, int, unsigned lane, const Loads& loads) const {
    loads(Cursor(*this, first + lane));
  }

  class Cursor {
   public:
    __device__ Cursor(const Steps& steps, int64_t i) : steps_(steps) {
      const auto index = static_cast<uint32_t>(i);
      const uint32_t turn = steps.length[0].divide(index);
      to_turn_ = static_cast<int>(index - turn * length()) - static_cast<int>(length());
      offset_ = index * steps.stride + turn * steps.jump[0];
    }
    __device__ int offset() const { return static_cast<int>(offset_); }
    __device__ void next() {
      to_turn_ += steps_.left;
      offset_ += steps_.step;
      if (to_turn_ >= 0) {
        to_turn_ -= static_cast<int>(length());
        offset_ += steps_.jump[0];
      }
    }

   private:
    __device__ uint32_t length() const { return static_cast<uint32_t>(steps_.length[0].value); }

    const Steps& steps_;
    int to_turn_;      // how far, below 0, the next turn begins
    uint32_t offset_;  // wraps on the way, as a jump may be longer than any offset, and past the last element
  };
};

/// In any number of dimensions.
struct Anywhere : AnyStrides {
  using Argument = AnyStrides;

  class Cursor {
   public:
    __device__ Cursor(const Strides& strides, int64_t i) : cursor_(strides, i) {}
    __device__ int64_t offset() const { return cursor_.offset(); }
    __device__ void next() { cursor_.next(kWarpSize); }

   private:
    Strides::Cursor cursor_;
  };

  template <typename Loads>
  __device__ void from(int64_t first, int count, unsigned lane, const Loads& loads) const {
    const int64_t i = first + lane;
    if (near && in_more.straight(static_cast<uint32_t>(first), count)) {
      loads(Straight(in_more, i));
    } else if (few) {
      loads(Divisions<3>::Cursor(in_few, i));
    } else if (near) {
      loads(Divisions<5>::Cursor(in_more, i));
    } else {
      loads(Cursor(far, i));
    }
  }
};

/// Runs of an output, found by 32-bit divisions. Offsets: Near or NearStrides, where an element lies. Derived: where a
/// group is loaded from.
template <typename Derived, typename In, typename Acc, int kLoads, typename Offsets>
struct ManyRuns : Groups<Derived, In, Acc, kLoads>, StridedRows<Offsets> {
  static constexpr int kSlack = 0;
  using Row = const In*;
  using Argument = StridedRows<Offsets>;

  __device__ Row row(int64_t i) const { return static_cast<const In*>(this->data) + this->kept.offset(i); }
  __device__ const In* at(Row row, int64_t i) const { return row + this->reduced.offset(static_cast<uint32_t>(i)); }
  __device__ static int whole(Row, int m) { return m / kPerLoad<In>; }
};

/// Runs of a multiple of 16 bytes, each starting at a multiple of 16 bytes, such as the planes of one channel.
template <typename In, typename Acc, int kLoads>
struct Runs : ManyRuns<Runs<In, Acc, kLoads>, In, Acc, kLoads, Near<2>> {
  __device__ uint4 group(const In* row, int64_t g) const {
    return load_once(reinterpret_cast<const uint4*>(this->at(row, g * kPerLoad<In>)));
  }
};

/// Runs of a group at least that start anywhere, in up to five dimensions: a group lies in one of them or in two. So
/// where its elements lie takes a division a turn, or two, instead of one for each element.
template <typename In, typename Acc, int kLoads>
struct SplitRuns : ManyRuns<SplitRuns<In, Acc, kLoads>, In, Acc, kLoads, NearStrides> {
  __device__ uint4 group(const In* row, int64_t g) const {
    const auto i = static_cast<uint32_t>(g * kPerLoad<In>);
    const Divisor& length = this->reduced.in_more.length[0];
    const uint32_t left = (length.divide(i) + 1) * static_cast<uint32_t>(length.value) - i;  // of the run
    const In* const first = this->at(row, i);
    const In* const second = left < kPerLoad<In> ? this->at(row, i + left) - left : first;
    return load_each<In>([&](unsigned k) { return (k < left ? first : second) + k; });
  }
};

/// Elements one by one, one a lane and load, in the row-major order of their index. Coalesced as far as the innermost
/// stride allows. Offsets: one of those above.
template <typename InT, typename AccT, int kLoads, typename Offsets>
struct Elements : StridedRows<Offsets> {
  using In = InT;
  using Acc = AccT;
  using Row = const In*;
  using Argument = StridedRows<typename Offsets::Argument>;
  static constexpr int64_t kChunk = int64_t{kLoads} * kWarpSize;
  static constexpr int kSlack = 0;

  __device__ Row row(int64_t i) const { return static_cast<const In*>(this->data) + this->kept.offset(i); }
  __device__ void prefetch(Row, int64_t, int64_t, unsigned) const {}  // nobody asks: Plan::prefetching is 0
  __device__ Acc chunk(Row row, int64_t first, int64_t, unsigned lane) const {
    In element[kLoads];
    this->reduced.from(first, static_cast<int>(kChunk), lane, [&](auto cursor) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u, cursor.next()) element[u] = row[cursor.offset()];
    });
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) x[u] = convert<Acc>(element[u]);
    return fold_exchange(x, lane);
  }

  __device__ Acc ragged_chunk(Row row, int64_t first, int64_t n, unsigned lane) const {
    const int left = static_cast<int>(min(n - first, kChunk));
    // Converted behind all loads: one that may be left out is a branch, of 2 bytes at least, and what is done with it
    // there waits for it. (5995, 1019)[:, ::2] of bfloat16 took 23.8 us (H200).
    In element[kLoads] = {};
    this->reduced.from(first, left, lane, [&](auto cursor) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u, cursor.next()) {
        if (u * kWarpSize + static_cast<int>(lane) < left) element[u] = row[cursor.offset()];
      }
    });
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      x[u] = select(u * kWarpSize + static_cast<int>(lane) < left, convert<Acc>(element[u]), identity<Acc>());
    }
    return fold_exchange(x, lane);
  }
};

/// In two dimensions at most: planes of any size, rows of every other element.
template <typename In, typename Acc, int kLoads>
using Pitched = Elements<In, Acc, kLoads, Divisions<2>>;

/// The same with one division a lane.
template <typename In, typename Acc, int kLoads>
using Stepped = Elements<In, Acc, kLoads, Steps>;

/// At any strides.
template <typename In, typename Acc, int kLoads>
using Strided = Elements<In, Acc, kLoads, Anywhere>;

}  // namespace reduce_ops::sum
