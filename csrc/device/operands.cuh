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
  run,     // all lie side by side, and begin at a multiple of what a thread takes
  pieces,  // those that a thread takes do
  fixed,   // all are one and the same element
  shared,  // those that a thread takes are
  apart,   // they lie anywhere; a thread takes one
};

/// Whether a thread loads one element for all neighbours that it takes.
constexpr bool is_one(Access access) { return access == Access::fixed || access == Access::shared; }

/// Whether it is found by strides, not by the index alone.
constexpr bool has_strides(Access access) { return access != Access::run && access != Access::fixed; }

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
  Pack<is_one(First::access) ? 1 : kVector, typename First::Element> first;
  Taken<kVector, Others...> others;
};

/// Loads the first `count` of kVector neighbours of each operand, or all if there are more, u steps on:
/// address.operator()<operand, number>(u). (Not a count clamped to kVector: ptxas 13.0 makes one VIMNMX.RELU of
/// max(min(x, 4), 0) == 4, sm_90, whose predicate was false where they are equal, H200.)
template <int kFirst = 0, int kVector, typename First, typename... Others, typename Address>
__device__ void take(Taken<kVector, First, Others...>& taken, int count, const Address& address, int u = 0) {
  using In = typename First::Element;
  using Load = decltype(taken.first);
  const In* const begin = address.template operator()<First, kFirst>(u);
  if constexpr (is_one(First::access) || kVector == 1) {
    taken.first.element[0] = *begin;
  } else if (count >= kVector) {
    taken.first = Load::template load</*kOnce=*/true>(begin);
  } else {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      if (v < count) taken.first.element[v] = begin[v];
    }
  }
  if constexpr (sizeof...(Others) > 0) take<kFirst + 1>(taken.others, count, address, u);
}

/// The v-th of each as T.
template <int kFirst = 0, int kVector, typename First, typename... Others, typename T>
__device__ void widen_each(const Taken<kVector, First, Others...>& taken, int v, T* input) {
  input[kFirst] = convert<T>(taken.first.element[is_one(First::access) ? 0 : v]);
  if constexpr (sizeof...(Others) > 0) widen_each<kFirst + 1>(taken.others, v, input);
}

/// What rows and columns share: where the operands lie, and what is computed of them.
template <typename Formula, typename T, typename AccT, int kVector, typename... Operands>
struct Zip : Zipped<sizeof...(Operands)> {
  static constexpr int kInputs = sizeof...(Operands);
  static constexpr bool kHasStrides = (has_strides(Operands::access) || ...);
  static_assert(kVector == 1 || ((Operands::access != Access::apart) && ...));

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

  /// Whether elements [first, first + count) lie in one turn of the innermost dimension: a fixed distance apart.
  __device__ bool straight(int64_t first, int count) const {
    const Strides& s = this->reduced[0];
    if (s.dims == 1) return true;
    const int64_t size = s.size[0].value;
    const int64_t turn = s.small ? s.size[0].divide(static_cast<uint32_t>(first)) : first / size;
    return first - turn * size + count <= size;
  }

  /// Calls load(address) with a function of how many elements further on than element i, in steps: where these begin.
  /// straight: whether all of them are so, in the same turn.
  template <int kStep, typename Load>
  __device__ void from(const Row& row, int64_t i, bool straight, const Load& load) const {
    if constexpr (!kHasStrides) {
      Row begin;
      for_each_operand<0, Operands...>(
          [&]<typename Op, int k>() { begin.data[k] = row.template at<Op, k>(Op::access == Access::run ? i : 0); });
      load([&]<typename Op, int k>(int u) {
        return begin.template at<Op, k>(Op::access == Access::run ? u * kStep : 0);
      });
    } else if (straight) {
      int64_t first[kInputs], step[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        first[k] = this->reduced[k].offset(i);
        step[k] = kStep * this->reduced[k].stride[0];
      }
      load([&]<typename Op, int k>(int u) {
        if constexpr (has_strides(Op::access)) {
          return row.template at<Op, k>(first[k] + u * step[k]);
        } else {
          return row.template at<Op, k>(Op::access == Access::run ? i + u * kStep : 0);
        }
      });
    } else {
      load([&]<typename Op, int k>(int u) {
        if constexpr (has_strides(Op::access)) {
          return row.template at<Op, k>(this->reduced[k].offset(i + u * kStep));
        } else {
          return row.template at<Op, k>(Op::access == Access::run ? i + u * kStep : 0);
        }
      });
    }
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
  static constexpr int kTaken = kVector;
  static constexpr int kStep = kWarpSize * kVector;  // elements of a warp at a time
  static constexpr int64_t kChunk = int64_t{kLoads} * kStep;

  __device__ Acc chunk(const Row& row, int64_t first, int64_t, unsigned lane) const {
    Load load[kLoads];
    this->template from<kStep>(row, first + lane * kVector, this->straight(first, kChunk), [&](const auto& address) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) take(load[u], kVector, address, u);
    });
    return fold(load, lane, [](int) { return kVector; });
  }

  /// The same where the run ends at n: leaves from n on count as the identity.
  __device__ Acc ragged_chunk(const Row& row, int64_t first, int64_t n, unsigned lane) const {
    Load load[kLoads] = {};
    const int64_t begin = first + lane * kVector;
    const int left = static_cast<int>(min(n - begin, kChunk));
    const auto count = [left](int u) { return left - u * kStep; };
    const bool straight = this->straight(first, static_cast<int>(min(n - first, kChunk)));
    this->template from<kStep>(row, min(begin, n - 1), straight, [&](const auto& address) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        if (count(u) > 0) take(load[u], count(u), address, u);
      }
    });
    return fold(load, lane, count);
  }

  /// `count` neighbours from leaf i on.
  __device__ void load_part(Load& load, const Row& row, int64_t i, int count) const {
    this->template from<1>(row, i, false, [&](const auto& address) { take(load, count, address); });
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
  /// count(u): how many of the neighbours of load u exist, if not all of them; below 1 if none.
  template <typename Count>
  __device__ Acc fold(const Load (&load)[kLoads], unsigned lane, const Count& count) const {
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
};

/// Rows so short that kWidth lanes take all of one at a time, kVector elements each; a warp takes kRows times as many
/// rows as it has lanes for. Each row by a warp, 2^20 rows of 16 float32 products took 207 us instead of 35 (H200).
template <int kWidth, int kRows, typename Source, typename Out>
__global__ void __launch_bounds__(256)
    sum_zipped_short_rows(const __grid_constant__ Source source, int64_t rows, int n, const Results results) {
  using Acc = typename Source::Acc;
  constexpr int kSideBySide = kWarpSize / kWidth;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpSize;
  const unsigned lane = threadIdx.x % kWarpSize;
  const int count = n - static_cast<int>(lane % kWidth) * Source::kTaken;  // or all that a lane takes, or none
  const int64_t first = warp * kSideBySide * kRows + lane / kWidth;
  wait_for_stream();
  let_next_start();
  typename Source::Load load[kRows] = {};
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    const int64_t row = first + k * kSideBySide;
    if (row < rows && count > 0) source.load_part(load[k], source.row(row), lane % kWidth * Source::kTaken, count);
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    Acc leaf[Source::kTaken];
#pragma unroll
    for (int v = 0; v < Source::kTaken; ++v) leaf[v] = select(v < count, source.leaf(load[k], v), identity<Acc>());
    Acc sum = fold_array<Source::kTaken>(leaf);
#pragma unroll
    for (int mask = 1; mask < kWidth; mask *= 2) sum += shuffle_xor(sum, mask);
    const int64_t row = first + k * kSideBySide;
    if (row < rows && lane % kWidth == 0) results.store<Out>(row, sum);
  }
}

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
    // Of kRows rows, or of those that are left, whether they exist is not asked.
    const auto fold = [&](int64_t i, auto rows) {
      typename Source::Load load[kRows] = {};
      zip.template from<1>(row, i, zip.straight(i, rows), [&](const auto& address) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (r < rows) take(load[r], kVector, address, r);
        }
      });
      Sums<kVector, Acc> sum;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        Acc leaf[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) leaf[r] = select(r < rows, zip.leaf(load[r], v), identity<Acc>());
        sum.x[v] = fold_array<kRows>(leaf);
      }
      return sum;
    };
    for (; count < c.batches && first + (count + 1) * kRows <= c.n; ++count) {
      counter.push(fold(first + count * kRows, std::integral_constant<int, kRows>()), count);
    }
    const int64_t i = first + count * kRows;
    if (count < c.batches && i < c.n) counter.push(fold(i, static_cast<int>(c.n - i)), count++);
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
