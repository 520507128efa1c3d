// Sums of a formula of several tensors, the operands: a source of rows.cuh, and the same down columns. An operand is
// read where it lies, whatever its strides are: nothing is copied, and nothing is written but the sums.
//
// Operands have the same dimensions, those of size 1 expanded, so an index of an output or of a leaf is the same for
// all. How each is read is part of the kernel's name; where its elements lie is told by strides.
//
// What limits it: the memory where neighbouring threads read neighbours; elements at other strides take a sector each.

#pragma once

#include "device/arguments.cuh"
#include "device/columns.cuh"
#include "device/early_start.cuh"
#include "device/fold.cuh"
#include "device/formulas.cuh"
#include "device/pack.cuh"
#include "device/rows.cuh"
#include "device/segments.cuh"

namespace reduce_ops::sum {

/// How a thread reads neighbours of an operand, of rows the next elements of an output, of columns the next outputs:
enum class Access {
  run,    // they lie side by side, and begin at a multiple of what a thread takes
  fixed,  // they are one and the same element
  apart,  // they lie anywhere; a thread takes one
};

template <typename In, Access kAccess>
struct Operand {
  using Element = In;
  static constexpr Access access = kAccess;
};

/// What a formula is computed from.
template <typename T, int kInputs>
struct Values {
  T input[kInputs];
  const Constants& constants;

  template <typename Type>
  __device__ Type constant(int i) const {
    return constants.get<Type>(i);
  }
};

/// Calls visit.operator()<operand, its number>() for each.
template <int kFirst, typename First, typename... Others, typename Visit>
__device__ void for_each_operand(const Visit& visit) {
  visit.template operator()<First, kFirst>();
  if constexpr (sizeof...(Others) > 0) for_each_operand<kFirst + 1, Others...>(visit);
}

/// What a thread takes of each operand at a time, in registers: kVector neighbours, or the one that they all are.
template <int kVector, typename... Operands>
struct Taken {};
template <int kVector, typename First, typename... Others>
struct Taken<kVector, First, Others...> {
  Pack<First::access == Access::fixed ? 1 : kVector, typename First::Element> first;
  Taken<kVector, Others...> others;
};

/// Loads the first `count` of kVector neighbours of each operand. address.operator()<operand, number>(): where they
/// begin.
template <int kFirst = 0, int kVector, typename First, typename... Others, typename Address>
__device__ void take(Taken<kVector, First, Others...>& taken, int count, const Address& address) {
  using In = typename First::Element;
  using Load = decltype(taken.first);
  const In* const begin = address.template operator()<First, kFirst>();
  if (First::access == Access::fixed || kVector == 1) {
    taken.first.element[0] = *begin;
  } else if (count == kVector) {
    taken.first = Load::template load</*kOnce=*/true>(begin);
  } else {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      if (v < count) taken.first.element[First::access == Access::fixed ? 0 : v] = begin[v];
    }
  }
  if constexpr (sizeof...(Others) > 0) take<kFirst + 1>(taken.others, count, address);
}

/// The v-th of each as T.
template <int kFirst = 0, int kVector, typename First, typename... Others, typename T>
__device__ void widen_each(const Taken<kVector, First, Others...>& taken, int v, T* input) {
  input[kFirst] = convert<T>(taken.first.element[First::access == Access::fixed ? 0 : v]);
  if constexpr (sizeof...(Others) > 0) widen_each<kFirst + 1>(taken.others, v, input);
}

/// Where the elements of an index lie, of each operand, then those of the one kStep further on, and so on: an addition
/// each, and divisions where a turn of the innermost dimension ends in between.
template <int kInputs, int kStep>
class Cursors {
 public:
  __device__ Cursors(const Strides (&strides)[kInputs], int64_t index) : strides_(strides), index_(index) { find(); }
  __device__ int64_t offset(int k) const { return offset_[k]; }
  __device__ void next() {
    index_ += kStep;
    left_ -= kStep;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) offset_[k] += kStep * strides_[k].stride[0];
    if (left_ <= 0) find();
  }

 private:
  __device__ void find() {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) offset_[k] = strides_[k].offset(index_);
    left_ = kMost;
    const Strides& s = strides_[0];
    if (s.dims == 1) return;
    const int64_t size = s.size[0].value;
    const int64_t turn = s.small ? s.size[0].divide(static_cast<uint32_t>(index_)) : index_ / size;
    left_ = static_cast<int>(min((turn + 1) * size - index_, int64_t{kMost}));
  }

  static constexpr int kMost = 1 << 30;

  const Strides (&strides_)[kInputs];
  int64_t index_;
  int left_;  // of this turn of the innermost dimension, at least
  int64_t offset_[kInputs];
};

/// What rows and columns share: where the operands lie, and what is computed of them.
template <typename Formula, typename T, typename AccT, int kVector, typename... Operands>
struct Zip : Zipped<sizeof...(Operands)> {
  static constexpr int kInputs = sizeof...(Operands);
  static constexpr bool kAnyApart = ((Operands::access == Access::apart) || ...);
  static_assert(kVector == 1 || !kAnyApart);

  using Acc = AccT;
  using Load = Taken<kVector, Operands...>;

  /// Where an output begins.
  struct Row {
    const void* data[kInputs];

    template <typename Op, int k>
    __device__ const typename Op::Element* at(int64_t offset) const {
      return static_cast<const typename Op::Element*>(data[k]) + offset;
    }
  };

  __device__ Row row(int64_t i) const {
    Row row;
    for_each_operand<0, Operands...>([&]<typename Op, int k>() {
      row.data[k] = static_cast<const typename Op::Element*>(this->data[k]) + this->kept[k].offset(i);
    });
    return row;
  }

  /// The leaf of the v-th neighbours.
  __device__ Acc leaf(const Load& load, int v) const {
    Values<T, kInputs> values{{}, this->constants};
    widen_each(load, v, values.input);
    return convert<Acc>(Formula::template of<T>(values));
  }
};

/// A source of rows.cuh.
template <typename Formula, typename T, typename Acc, int kVector, int kLoads, typename... Operands>
struct ZippedRows : Zip<Formula, T, Acc, kVector, Operands...> {
  using Base = Zip<Formula, T, Acc, kVector, Operands...>;
  using typename Base::Load;
  using typename Base::Row;
  using Argument = Zipped<Base::kInputs>;
  static constexpr int kSlack = 0;
  static constexpr int kStep = kWarpSize * kVector;  // elements of a warp at a time
  static constexpr int64_t kChunk = int64_t{kLoads} * kStep;

  __device__ Acc chunk(const Row& row, int64_t first, int64_t, unsigned lane) const {
    Load load[kLoads];
    Position position(*this, row, first + lane * kVector);
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      take(load[u], kVector, position);
      if (u + 1 < kLoads) position.next();
    }
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      Acc leaf[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) leaf[v] = this->leaf(load[u], v);
      x[u] = fold_array<kVector>(leaf);
    }
    return fold_exchange(x, lane);
  }

  /// The same where the run ends at n: leaves from n on count as the identity.
  __device__ Acc ragged_chunk(const Row& row, int64_t first, int64_t n, unsigned lane) const {
    Load load[kLoads] = {};
    const int64_t begin = first + lane * kVector;
    const auto count = [&](int u) {
      return static_cast<int>(max(min(n - begin - u * kStep, int64_t{kVector}), int64_t{0}));
    };
    Position position(*this, row, min(begin, n - 1));
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      if (count(u) == 0) continue;
      if (u > 0) position.next();
      take(load[u], count(u), position);
    }
    Acc x[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      Acc leaf[kVector];
#pragma unroll
      for (int v = 0; v < kVector; ++v) leaf[v] = select(v < count(u), this->leaf(load[u], v), identity<Acc>());
      x[u] = fold_array<kVector>(leaf);
    }
    return fold_exchange(x, lane);
  }

  /// Has L2 load what there is of a chunk of the operands that are runs.
  __device__ void prefetch(const Row& row, int64_t first, int64_t n, unsigned lane) const {
    for_each_operand<0, Operands...>([&]<typename Op, int k>() {
      if constexpr (Op::access == Access::run) {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          const int64_t i = first + u * kStep + lane * kVector;
          if (i < n) reduce_ops::prefetch(row.template at<Op, k>(i));
        }
      }
    });
  }

 private:
  /// Where a lane takes its next neighbours: in runs at their index, elsewhere by cursors.
  class Position {
   public:
    __device__ Position(const ZippedRows& rows, const Row& row, int64_t i) : row_(row), i_(i), cursors_(rows, i) {}
    __device__ void next() {
      i_ += kStep;
      cursors_.next();
    }
    template <typename Op, int k>
    __device__ const typename Op::Element* operator()() const {
      if constexpr (Op::access == Access::apart) {
        return row_.template at<Op, k>(cursors_.offset(k));
      } else {
        return row_.template at<Op, k>(Op::access == Access::run ? i_ : 0);
      }
    }

   private:
    struct None {
      __device__ None(const ZippedRows&, int64_t) {}
      __device__ void next() {}
      __device__ int64_t offset(int) const { return 0; }
    };
    struct Some : Cursors<Base::kInputs, kStep> {
      __device__ Some(const ZippedRows& rows, int64_t i) : Cursors<Base::kInputs, kStep>(rows.reduced, i) {}
    };

    const Row& row_;
    int64_t i_;
    std::conditional_t<Base::kAnyApart, Some, None> cursors_;
  };
};

/// As sum_columns: gridDim.x * blockDim.x * kVector columns, gridDim.y segments, blockDim.y parts, kRows rows at once.
template <typename Formula, typename T, typename Acc, int kVector, int kRows, typename Out, typename... Operands>
__global__ void __launch_bounds__(kWaveThreads)
    sum_zipped_columns(const __grid_constant__ Zip<Formula, T, Acc, kVector, Operands...> zip,
                       const __grid_constant__ ZippedColumns c) {
  using Source = Zip<Formula, T, Acc, kVector, Operands...>;
  extern __shared__ uint4 shared[];
  auto* s = reinterpret_cast<Sums<kVector, Acc>*>(shared);  // the levels of a counter for each thread
  const int64_t column = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kVector;
  const bool active = column < c.columns;
  const int64_t first = (int64_t{blockIdx.y} * blockDim.y + threadIdx.y) * c.batches * kRows;
  wait_for_stream();
  if (c.let_next == LetNext::at_start) let_next_start();
  auto counter = thread_counter(s);
  int count = 0;
  if (active && first < c.n) {
    const auto row = zip.row(column);
    Cursors<Source::kInputs, 1> cursors(zip.reduced, first);
    const auto address = [&]<typename Op, int k>() { return row.template at<Op, k>(cursors.offset(k)); };
    for (; count < c.batches && first + count * kRows < c.n; ++count) {
      const int rows = static_cast<int>(min(c.n - first - count * kRows, int64_t{kRows}));
      typename Source::Load load[kRows] = {};
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= rows) continue;
        if (r > 0 || count > 0) cursors.next();
        take(load[r], kVector, address);
      }
      Sums<kVector, Acc> sum;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        Acc leaf[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) leaf[r] = select(r < rows, zip.leaf(load[r], v), identity<Acc>());
        sum.x[v] = fold_array<kRows>(leaf);
      }
      counter.push(sum, count);
    }
  }
  if (c.let_next == LetNext::when_loaded) let_next_start();
  Sums<kVector, Acc> sum = counter.total(count);
  fold_parts(sum, s);
  if (gridDim.y > 1) {
    const auto columns = static_cast<unsigned>(c.columns);
    const Slots<Acc> slots(c.slots, gridDim.y * columns, 0);
    if (!fold_segments(sum, static_cast<unsigned>(column), columns, blockIdx.y, gridDim.y, slots, s)) return;
  }
  if (active && threadIdx.y == 0) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum.x[v] = c.results.finish(sum.x[v]);
    c.results.visit<Acc, Out>(
        [&](auto* result) { store_apart(result + c.places.offset(column), c.places.stride[0], sum); });
  }
}

}  // namespace reduce_ops::sum
