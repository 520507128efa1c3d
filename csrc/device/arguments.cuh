// What kernels are given: plain structs without element types, which the host fills (sum/launch_cuda.cpp) and a kernel
// of any types reads. A kernel gets one as a __grid_constant__, so that it stays in constant memory.

#pragma once

#include "device/strides.cuh"
#include "device/tuning.cuh"
#ifdef __CUDACC__
#include "device/numeric.cuh"
#endif

namespace reduce_ops::sum {

/// Where sums go, rounded to Out. Where that is narrower than Acc, the same kernels also store sums as they are, for
/// `dtype=float32` of 16-bit elements.
struct Results {
  void* sums;
  int64_t count;  // of the elements of an output, not of what an earlier launch left of them
  bool rounded;
  double freedom = 0;  // degrees, of variances

#ifdef __CUDACC__
  /// What becomes of the last value of an output, before it is rounded.
  template <typename Acc>
  __device__ Acc finish(Acc sum) const {
    if constexpr (requires { Operator<Acc>::finish(sum.value, count, freedom); }) {
      return {Operator<Acc>::finish(sum.value, count, freedom)};
    } else if constexpr (is_node<Acc>) {
      return {Operator<Acc>::finish(sum.value, count)};
    } else {
      return sum;
    }
  }

  /// store(sums), which converts what it stores.
  template <typename Acc, typename Out, typename Store>
  __device__ void visit(Store store) const {
    if constexpr (sizeof(Out) < sizeof(Acc)) {
      if (rounded) {
        store(static_cast<Out*>(sums));
      } else {
        store(static_cast<ValueOf<Acc>*>(sums));
      }
    } else {
      store(static_cast<Out*>(sums));
    }
  }

  template <typename Out, typename Acc>
  __device__ void store(int64_t i, Acc last) const {
    const Acc sum = finish(last);
    visit<Acc, Out>([=]<typename To>(To* result) { result[i] = convert<To>(sum); });
  }
#endif
};

// Where the elements of long runs lie, for the sources of sources.cuh.

/// One run of all outputs that is one output's.
struct OneRow {
  const void* data;
};

/// One run an output, `pitch` elements apart.
struct PitchedRows {
  const void* data;
  int64_t pitch;
};

/// Outputs begin where `kept` says, elements of one lie where `reduced` says: Near<2>, NearStrides, NearSteps or
/// AnyStrides.
template <typename Offsets>
struct StridedRows {
  const void* data;
  Strides kept;
  Offsets reduced;
};

/// Rows of n elements, `pitch` elements apart, in the order of memory.
struct ShortRows {
  const void* data;
  int64_t rows;
  int64_t pitch;
  int n;
  int tile_rows;    // of sum_staged_rows: as many as fit kTileBytes, with the line that the tile begins in
  int prefetching;  // Plan::prefetching
  Results results;
};

/// The order in which threads take columns (column_order.h). Columns count in the order in which they are taken.
struct ColumnOrder {
  int64_t count;    // those that are taken twice count twice
  Strides columns;  // where they begin
  Strides places;   // where their sums belong
  Divisor turn;     // so many take the innermost dimension once, all of its chunks,
  int64_t last;     // of which columns from here on are of the last chunk,
  int64_t overlap;  // which begins so many columns earlier, to end with the dimension

#ifdef __CUDACC__
  __device__ int64_t offset(int64_t column) const { return columns.offset(column) - back(column, columns); }
  __device__ int64_t place(int64_t column) const { return places.offset(column) - back(column, places); }

 private:
  __device__ int64_t back(int64_t column, const Strides& s) const {
    if (turn.value < count) {  // which is less than 2^31
      const auto index = static_cast<uint32_t>(column);
      column = index - turn.divide(index) * static_cast<uint32_t>(turn.value);
    }
    return column < last ? 0 : overlap * s.stride[0];
  }
#endif
};

/// What a launch of columns works on.
struct Columns {
  const void* data;
  Results results;
  int64_t n;
  void* slots;      // a sum for each segment of each column, where there is more than one segment
  int batches;      // of a thread, a power of two
  int prefetching;  // Plan::prefetching
  LetNext let_next;
  ColumnOrder order;
  AnyStrides reduced;
};

/// What a launch of few rows works on.
struct FewRows {
  const void* data;
  Results results;
  int n;
  int64_t offset[kFewRows];  // of the rows that a thread takes
  int64_t part;              // from these to those of the column's next part
  bool anywhere;             // Plan::anywhere
  ColumnOrder order;
};

/// Numbers of a formula, as the type has them that it is computed in.
struct Constants {
  uint64_t bits[kMaxConstants];

#ifdef __CUDACC__
  template <typename T>
  __device__ T get(int i) const {
    if constexpr (sizeof(T) == 4) {
      return __builtin_bit_cast(T, static_cast<uint32_t>(bits[i]));
    } else {
      return __builtin_bit_cast(T, bits[i]);
    }
  }
#endif
};

/// Where the operands of a formula lie (operands.cuh): the outputs of each, in the order in which they are taken, and
/// the leaves of one output. The strides of all have the same sizes.
template <int kInputs>
struct Zipped {
  const void* data[kInputs];
  Strides kept[kInputs];
  Strides reduced[kInputs];
  Constants constants;
};

/// What a launch of rows that stay in registers works on.
struct ResidentRows {
  const void* data;
  void* means;
  Results results;
  int64_t rows;
  int n;
  Strides kept;
};

/// What else a launch of their columns works on.
struct ZippedColumns {
  Results results;
  int64_t columns;
  int64_t n;
  void* slots;
  int batches;  // of a thread, a power of two
  LetNext let_next;
  Strides places;  // where the sums of columns belong
};

/// Of each output, `lines` lines of `length` elements, n < 2^31 in all, and as far as that apart (across.cuh).
struct Across {
  const void* data;
  void* nodes;      // of each output, one for each of its windows
  int64_t windows;  // of an output
  unsigned n;
  unsigned lines;
  unsigned length;
  unsigned window;   // leaves, a power of two
  unsigned at_once;  // sum_lines: elements of a line that a thread takes, whole windows; tiles: lines of one
  AnyStrides reduced;
};

/// How lines lie in shared memory (tiles.cuh): as in memory, but closer. Neighbours lie side by side, with a gap where
/// their dimension turns, and `pitch` bytes lie from element to element of a line. Modulo 16 all distances are what
/// they are in memory, so that runs are copied by words; those of two runs never overlap.
struct Staging {
  Divisor tiles;  // of an output
  Divisor words;  // of a run, at most
  int pitch;
  int turn_gap;     // bytes
  unsigned bytes;   // of all lines in shared memory
  bool tabulated;   // whether it lies behind them where the leaves of short ones lie
  const void* end;  // behind the last element of all outputs
};

/// A dimension of the boxes (boxes.cuh), in the order of memory.
struct BoxDim {
  Divisor ranges;   // that it is cut into
  Divisor copies;   // indices that runs are copied of, with the halo; 1 in a run
  Divisor picks;    // indices that sequences are of; 1 of those within a sequence
  int64_t stride;   // elements
  int64_t outputs;  // from index to index
  unsigned leaves;  // from index to index; 0 from output to output
  unsigned size;
  unsigned range;   // indices of a box
  unsigned copied;  // the same with the halo
  unsigned pitch;   // bytes in shared memory
  bool in_run;
  bool across;  // the one from line to line
};

/// A dimension of the lines: after so many leaves they lie `jump` bytes further on than the dimension within leads to.
struct BoxTurn {
  Divisor leaves;
  unsigned jump;
};

/// Distances in shared memory are what they are in memory, modulo 16 bytes, so that runs are copied by words, and the
/// words of two runs never overlap.
struct Boxes {
  const void* data;
  const void* end;  // behind the last element of all outputs
  void* nodes;      // of each output, one for each of its windows
  int64_t windows;  // of an output
  unsigned n;
  unsigned window;  // leaves, a power of two
  unsigned bytes;   // of the copy, a multiple of 16
  unsigned runs;
  unsigned chunks;       // of all sequences
  Divisor words;         // of a run, at most
  Divisor per_sequence;  // chunks
  Divisor length;        // of a line
  unsigned step;         // bytes from leaf to leaf, but for turns
  unsigned across;       // bytes from line to line
  int dims;
  int turns;
  BoxDim dim[kMaxBoxDims];
  BoxTurn turn[kMaxBoxDims];  // the last one goes from line to line
  Strides reduced;
};

}  // namespace reduce_ops::sum
