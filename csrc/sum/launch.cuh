// From run-time types and plans to kernels. The kernels of each accumulate type are instantiated in a file of their
// own, and so are those of float32 that read 16-bit floats and those of int64 that read bytes: they compile side by
// side.

#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "early_start.cuh"
#include "sum/across.cuh"
#include "sum/boxes.cuh"
#include "sum/columns.cuh"
#include "sum/narrow_columns.cuh"
#include "sum/odd_word_tiles.cuh"
#include "sum/rows.cuh"
#include "sum/short_rows.cuh"
#include "sum/sum_kernels.h"
#include "sum/tiles.cuh"
#include "sum/word_tiles.cuh"

namespace reduce_ops::sum {

inline int64_t blocks_for(int64_t work, int64_t a_block) { return (work + a_block - 1) / a_block; }

/// Blocks of a launch, before it is known whether CUDA has a grid of so many.
struct Grid {
  int64_t x;
  int64_t y = 1;
  int64_t z = 1;

  bool fits() const { return x <= kMaxGridX && y <= kMaxGridY && z <= kMaxGridY; }
};

/// ShiftedBy, as sources are given to kernels.
template <int kWords>
struct By {
  template <typename In, typename Acc, int kLoads>
  using Source = ShiftedBy<In, Acc, kLoads, kWords, Behind::whole>;
};

/// Plans as kernels, for one triple of types. Each function launches if the plan asks for its kernel.
template <typename In, typename Acc, typename Out>
class Launcher {
 public:
  Launcher(const Launch& launch, cudaStream_t stream) : l_(launch), p_(launch.plan), stream_(stream) {}

  /// What the launch said, if one of the kernels was the plan's.
  cudaError_t status(bool launched) const { return launched ? error_ : cudaErrorInvalidValue; }

  /// Where rows of kLoads loads a lane belong.
  template <bool kBatched, int kLoads>
  using Where = std::conditional_t<kBatched && can_permute(kLoads), Places, InPlace>;

  /// sum_warp.
  template <template <typename, typename, int> typename Source, int kLoads>
  bool warp() const {
    if (p_.width != kWarpSize || p_.loads != kLoads) return false;
    if (has_places() && !can_permute(kLoads)) return false;
    const int64_t outputs = l_.problem.outputs;
    start(sum_warp<kWarpThreads, Source<In, Acc, kLoads>, Where<true, kLoads>, Out>,
          {blocks_for(outputs, kWarpThreads / kWarpSize)}, kWarpThreads, 0, source<Source, kLoads>(), outputs,
          l_.problem.n, where<Where<true, kLoads>>(), p_.prefetching, results());
    return true;
  }

  /// sum_block: of kThreads threads or, if batched, up to as many.
  template <template <typename, typename, int> typename Source, int kThreads, int kLoads, bool kBatched>
  bool block() const {
    if (p_.segments != 1 || p_.tiles != 1 || p_.width != 0 || p_.loads != kLoads) return false;
    if (kBatched ? p_.threads > kThreads : p_.threads != kThreads || l_.problem.outputs > 1) return false;
    if (has_places() && !can_permute(kLoads)) return false;
    const int64_t outputs = l_.problem.outputs;
    const Grid grid{std::min(outputs, kMaxGridX), blocks_for(outputs, kMaxGridX)};
    start(sum_block<kThreads, kBatched, Source<In, Acc, kLoads>, Where<kBatched, kLoads>, Out>, grid, p_.threads, 0,
          source<Source, kLoads>(), outputs, l_.problem.n, where<Where<kBatched, kLoads>>(), p_.prefetching, results());
    return true;
  }

  /// sum_small_grid. Batched, of at most 2^20 loads, 2049 an output and more (plan_rows): so outputs fit in gridDim.y.
  template <template <typename, typename, int> typename Source, int kThreads, int kLoads, bool kBatched>
  bool small_grid() const {
    if (p_.threads != kThreads || p_.loads != kLoads || p_.tiles != 1) return false;
    if (p_.segments == 1 || p_.segments > most_small_blocks(kThreads, !kBatched)) return false;
    if (!kBatched && l_.problem.outputs > 1) return false;
    const int64_t outputs = l_.problem.outputs;
    start(sum_small_grid<kThreads, kBatched, Source<In, Acc, kLoads>, Where<kBatched, kLoads>, Out>,
          {p_.segments, outputs}, kThreads, 0, source<Source, kLoads>(), l_.problem.n, l_.slots,
          where<Where<kBatched, kLoads>>(), p_.prefetching, p_.let_next, results());
    return true;
  }

  /// sum_grid.
  template <template <typename, typename, int> typename Source, int kThreads, int kLoads, bool kBatched>
  bool grid() const {
    if (p_.threads != kThreads || p_.loads != kLoads) return false;
    if (!kBatched && (l_.problem.outputs > 1 || p_.segments == 1)) return false;
    const int64_t outputs = l_.problem.outputs;
    const Grid grid{p_.segments, std::min<int64_t>(outputs, kMaxGridY), blocks_for(outputs, kMaxGridY)};
    start(sum_grid<kThreads, kBatched, Source<In, Acc, kLoads>, Where<kBatched, kLoads>, Out>, grid, kThreads, 0,
          source<Source, kLoads>(), outputs, l_.problem.n, p_.tiles, l_.slots, where<Where<kBatched, kLoads>>(),
          p_.prefetching, p_.let_next, results());
    return true;
  }

  /// The shapes of rows of more than one run, and of any where there are few kernels.
  template <Layout kLayout, template <typename, typename, int> typename Source>
  bool common_rows() const {
    if (block<Source, 1024, 4, true>()) return true;
    if constexpr (kLayout == Layout::runs) {
      if (warp<Source, 2>() || warp<Source, 4>() || grid<Source, 256, 4, true>()) return true;
    }
    return grid<Source, grid_threads(kLayout), grid_loads(kLayout, sizeof(Acc)), true>();
  }

  /// The shapes of one output, in one run, that a block takes. LeastSource: of up to 512 loads.
  template <template <typename, typename, int> typename Source,
            template <typename, typename, int> typename LeastSource = Source>
  bool run_block() const {
    return block<LeastSource, 32, 1, false>() || block<LeastSource, 32, 2, false>() ||
           block<LeastSource, 128, 1, false>() || block<LeastSource, 256, 1, false>() ||
           block<LeastSource, 256, 2, false>() || block<Source, 256, 4, false>() || block<Source, 512, 4, false>() ||
           block<Source, 1024, 4, false>();
  }

  /// Those of one output, in one run, that takes more, but not much.
  template <Layout kLayout, template <typename, typename, int> typename Source>
  bool run_small_grid() const {
    constexpr int kLoads = small_grid_loads(kLayout, sizeof(In), sizeof(Acc), kOrdered, true);
    return small_grid<Source, 128, kLoads, false>() || small_grid<Source, 256, kLoads, false>();
  }

  /// That of one output, in one run, of much.
  template <Layout kLayout, template <typename, typename, int> typename Source>
  bool run_grid() const {
    return grid<Source, grid_threads(kLayout), grid_loads(kLayout, sizeof(Acc)), false>();
  }

  /// Those two of a run that begins kWords * 4 bytes, or of smaller elements somewhat more, behind a multiple of 16.
  template <int kWords>
  bool shifted_by() const {
    if constexpr (kWords * 4 % sizeof(In) != 0 || (kWords == 0 && sizeof(In) >= 4)) {
      return false;  // no run does
    } else {
      if constexpr (knows_shift_of_little(sizeof(In), sizeof(Acc), kOrdered)) {
        if (run_small_grid<Layout::shifted, By<kWords>::template Source>()) return true;
      }
      return run_grid<Layout::shifted, By<kWords>::template Source>();
    }
  }

  /// The same of any shifted run.
  bool shifted_run() const {
    if constexpr (!knows_shift_of_little(sizeof(In), sizeof(Acc), kOrdered)) {
      if (run_small_grid<Layout::shifted, Shifted>()) return true;
    }
    if constexpr (knows_shift(sizeof(In), sizeof(Acc), kOrdered)) {
      switch (reinterpret_cast<uintptr_t>(data()) % kLoadBytes / 4) {
        case 0:
          return shifted_by<0>();
        case 1:
          return shifted_by<1>();
        case 2:
          return shifted_by<2>();
        default:
          return shifted_by<3>();
      }
    } else {
      return run_grid<Layout::shifted, Shifted>();
    }
  }

  /// The shapes of several rows of one run.
  template <Layout kLayout, template <typename, typename, int> typename Source>
  bool run_rows() const {
    constexpr int kLoads = grid_loads(kLayout, sizeof(Acc));
    constexpr int kSmall = small_grid_loads(kLayout, sizeof(In), sizeof(Acc), kOrdered, false);
    return warp<Source, 2>() || warp<Source, 4>() || warp<Source, 8>() || block<Source, 512, 2, true>() ||
           block<Source, 512, 4, true>() || block<Source, 512, kLoads, true>() ||
           small_grid<Source, 128, kSmall, true>() || grid<Source, grid_threads(kLayout), kLoads, true>();
  }

  template <int kN>
  bool tiny_rows() const {
    if (p_.family != Family::tiny_rows || p_.width != kN) return false;
    start(sum_tiny_rows<kN, In, Acc, Out>,
          {blocks_for(l_.problem.outputs, p_.threads * kTinyItems<kN, In, Out> * kWholeRows<kN, sizeof(In)>.rows)},
          p_.threads, 0, short_rows());
    return true;
  }

  template <int kLanes>
  bool small_rows() const {
    if (p_.family != Family::small_rows || p_.width != kLanes) return false;
    start(sum_small_rows<kLanes, In, Acc, Out>,
          {blocks_for(l_.problem.outputs, p_.threads / kLanes * std::min(kLanes, 4))}, p_.threads, 0, short_rows(),
          Places{l_.problem.places});
    return true;
  }

  template <int kLanes>
  bool staged_rows() const {
    if (p_.family != Family::staged_rows || p_.width != kLanes) return false;
    const Grid grid{blocks_for(l_.problem.outputs, p_.tiles)};
    if (l_.problem.kept.dims == 1) {
      start(sum_staged_rows<kLanes, InPlace, In, Acc, Out>, grid, p_.threads, 0, short_rows(), InPlace{});
    } else {
      start(sum_staged_rows<kLanes, Places, In, Acc, Out>, grid, p_.threads, 0, short_rows(),
            Places{l_.problem.places});
    }
    return true;
  }

  template <int kVector, int kRows, bool kOneStride, bool kAnywhere = false>
  bool columns() const {
    if (p_.family != Family::columns || p_.vector != kVector || p_.loads != kRows) return false;
    if (p_.anywhere != kAnywhere) return false;
    if (kOneStride && l_.problem.reduced.dims > 1) return false;
    const dim3 block(p_.width, p_.threads / p_.width);
    const auto columns = matrix();
    const Grid grid{blocks_for(columns.order.count, int64_t{p_.width} * kVector), p_.segments};
    const auto kernel = sum_columns<kVector, kRows, kOneStride, kAnywhere, In, Acc, Out>;
    const size_t bytes = counter_bytes<kVector>(p_.width, p_.tiles);
    start(kernel, grid, block, bytes, columns);
    return true;
  }

  template <int kVector, int kRows, int kParts>
  bool few_rows() const {
    if (p_.family != Family::few_rows || p_.vector != kVector || p_.loads != kRows) return false;
    if (p_.width != kWarpSize / kParts) return false;
    const Problem& p = l_.problem;
    FewRows<In, Acc, Out> rows{.data = data(),
                               .results = results(),
                               .n = static_cast<int>(p.n),
                               .offset = {},
                               .part = kRows * p.reduced.stride[0],
                               .anywhere = p_.anywhere,
                               .order = column_order(p, p_)};
    for (int row = 0; row < kRows; ++row) rows.offset[row] = p.reduced.offset_of_large(row);
    const bool side_by_side = p.columns.dims == 1 && p.columns.stride[0] == 1;
    const auto kernel = side_by_side ? sum_few_rows<kVector, kRows, kParts, true, In, Acc, Out>
                                     : sum_few_rows<kVector, kRows, kParts, false, In, Acc, Out>;
    start(kernel, {blocks_for(rows.order.count * kParts, int64_t{p_.threads} * kVector)}, p_.threads, 0, rows);
    return true;
  }

  bool lines() const {
    if (p_.family != Family::lines) return false;
    const Across<In, Acc> a = across();
    Strides every, lines;
    Places places;
    if (!lines_of_all(l_.problem, p_.line, every)) return false;
    order_by_stride(every, lines, places.strides);
    const auto all = Divisor::of(count(every, 0, every.dims));
    const bool straight = a.reduced.far.size[0].value >= kLineLoads<sizeof(In)>;
    static_assert(4 * kMinWindow > kLineLoads<sizeof(In)>, "an output has more elements than a turn");
    int64_t turn = a.reduced.far.size[0].value;
    int turn_dims = 1;
    while (turn * a.reduced.far.size[turn_dims].value < kLineLoads<sizeof(In)>) {
      turn *= a.reduced.far.size[turn_dims++].value;
    }
    const auto kernel = straight ? sum_lines<true, In, Acc> : sum_lines<false, In, Acc>;
    start(kernel, {blocks_for(all.value * blocks_for(a.length, a.at_once), kLineThreads)}, kLineThreads, 0, a, all,
          lines, places, Divisor::of(turn), turn_dims);
    return true;
  }

  bool tiles() const {
    if (p_.family != Family::tiles) return false;
    const Across<In, Acc> a = across();
    const auto kernel = p_.line == 1 && a.length >= kMinDown ? sum_tiles<true, In, Acc> : sum_tiles<false, In, Acc>;
    const int64_t windows = blocks_for(int64_t{a.at_once} * a.length, a.window);
    const auto bytes = static_cast<size_t>(tile_bytes(windows * a.window, sizeof(In)));
    start(kernel, {l_.problem.outputs * blocks_for(a.lines, a.at_once)}, p_.threads, bytes, a, l_.problem.columns,
          l_.problem.places, p_.gap);
    return true;
  }

  template <int kRows>
  bool word_tiles() const {
    if constexpr (sizeof(In) >= kLoadBytes) {
      return false;  // a word has no columns
    } else {
      if (p_.family != Family::word_tiles || p_.loads != kRows) return false;
      const Problem& p = l_.problem;
      const Across<In, Acc> a = across();
      const auto tiles = blocks_for(a.lines, a.at_once);
      const size_t bytes = word_tile_nodes(p_, a.lines, a.length, kRows) * sizeof(Acc);
      const auto kernel = sum_word_tiles<kRows, In, Acc, Out>;
      start(kernel, {p.outputs * tiles}, p_.threads, bytes, a, p.columns, p.places, Divisor::of(tiles),
            whole_results());
      return true;
    }
  }

  template <int kRest>
  bool odd_word_tiles() const {
    if constexpr (sizeof(In) != kOddWordElement) {
      return false;
    } else {
      const Problem& p = l_.problem;
      if (p_.family != Family::odd_word_tiles || count(p.reduced, 0, p_.line) % kPerLoad<In> != kRest) return false;
      const Across<In, Acc> a = across();
      const auto tiles = blocks_for(a.lines, a.at_once);
      const auto room = static_cast<unsigned>(word_tile_nodes(p_, a.lines, a.length, kPerLoad<In>));
      const size_t bytes = (room + parts_begun(kPerLoad<In>) * p_.threads) * sizeof(Acc);
      const auto kernel = sum_odd_word_tiles<kRest, In, Acc, Out>;
      start(kernel, {p.outputs * tiles}, p_.threads, bytes, a, p.columns, p.places, Divisor::of(tiles), whole_results(),
            room);
      return true;
    }
  }

  bool staged_tiles() const {
    if (p_.family != Family::staged_tiles) return false;
    const Problem& p = l_.problem;
    const Across<In, Acc> a = across();
    const auto tiles = blocks_for(a.lines, a.at_once);
    const int64_t places = places_of_staged(a.at_once, a.length);
    const Staging<In> staging{.tiles = Divisor::of(tiles),
                              .words = Divisor::of(p_.width),
                              .pitch = p_.pitch,
                              .turn_gap = p_.turn_gap,
                              .bytes = static_cast<unsigned>(staged_bytes(a.length, p_.pitch)),
                              .tabulated = places > 0,
                              .end = data() + reach(p.kept) + reach(p.reduced) + 1};
    const auto bytes = static_cast<size_t>(staging.bytes + places);
    const auto kernel = p_.turn_gap > 0 ? sum_staged_tiles<true, In, Acc> : sum_staged_tiles<false, In, Acc>;
    start(kernel, {p.outputs * tiles}, p_.threads, bytes, a, p.columns, p.places, staging);
    return true;
  }

  bool boxes() const {
    if (p_.family != Family::boxes) return false;
    const Problem& p = l_.problem;
    const Box& box = p_.box;
    Boxes<In, Acc> b{.data = data(),
                     .end = data() + reach(p.kept) + reach(p.reduced) + 1,
                     .nodes = static_cast<Acc*>(l_.result),
                     .windows = nodes_of(p, p_.window),
                     .n = static_cast<unsigned>(p.n),
                     .window = static_cast<unsigned>(p_.window),
                     .bytes = static_cast<unsigned>(box.bytes),
                     .runs = static_cast<unsigned>(box.runs),
                     .chunks = static_cast<unsigned>(box.sequences * box.chunks),
                     .words = Divisor::of((box.run + 15 + 15) / 16),
                     .per_sequence = Divisor::of(box.chunks),
                     .length = Divisor::of(count(p.reduced, 0, p_.line)),
                     .step = static_cast<unsigned>(box.pitch[0]),
                     .across = static_cast<unsigned>(box.pitch[p_.line]),
                     .dims = p.reduced.dims + p.kept.dims,
                     .turns = p_.line,
                     .dim = {},
                     .turn = {},
                     .reduced = p.reduced};
    int64_t blocks = 1;
    for (int i = 0; i < b.dims; ++i) {
      const int d = box.order[i];
      const int of_kept = d - p.reduced.dims;
      const bool kept = of_kept >= 0;
      const int64_t size = kept ? p.kept.size[of_kept].value : p.reduced.size[d].value;
      const int64_t range = box.range[d];
      const int64_t copied = range + (d == p_.line ? box.halo : 0);
      b.dim[i] = {.ranges = Divisor::of(blocks_for(size, range)),
                  .copies = Divisor::of(box.in_run[d] ? 1 : copied),
                  .picks = Divisor::of(d <= p_.line ? 1 : range),
                  .stride = kept ? p.kept.stride[of_kept] : p.reduced.stride[d],
                  .outputs = kept ? count(p.kept, 0, of_kept) : 0,
                  .leaves = kept ? 0 : static_cast<unsigned>(count(p.reduced, 0, d)),
                  .size = static_cast<unsigned>(size),
                  .range = static_cast<unsigned>(range),
                  .copied = static_cast<unsigned>(copied),
                  .pitch = static_cast<unsigned>(box.pitch[d]),
                  .in_run = box.in_run[d],
                  .across = d == p_.line};
      blocks *= b.dim[i].ranges.value;
    }
    for (int d = 0; d < p_.line; ++d) {
      const auto ends = static_cast<unsigned>(p.reduced.size[d].value * box.pitch[d]);
      b.turn[d] = {Divisor::of(count(p.reduced, 0, d + 1)), box.pitch[d + 1] - ends};
    }
    static_assert(sizeof(Chunk<In, Acc>) == kChunkBytes && sizeof(uint2) == kRunBytes &&
                  sizeof(unsigned) == kPlaceBytes);
    const auto kernel = sum_boxes<In, Acc>;
    const auto bytes = static_cast<size_t>(box.shared);
    start(kernel, {blocks}, p_.threads, bytes, b, p_.loads);
    return true;
  }

  template <int kColumns>
  bool narrow_columns() const {
    if constexpr (!is_narrow(kColumns, sizeof(In))) {
      return false;
    } else {
      if (p_.family != Family::narrow_columns || p_.width != kColumns) return false;
      constexpr int kWidth = Narrow<kColumns, In>::kWidth;
      const Grid grid{p_.segments, l_.problem.outputs / kColumns};
      const size_t sums =
          std::min(p_.tiles, kNarrowTiles<kColumns, Acc>) * (p_.threads / kWarpSize) * kColumns * sizeof(Acc);
      const size_t bytes = std::max(sums, counter_bytes<1>(kWidth, 1));
      start(sum_narrow_columns<kColumns, In, Acc, Out>, grid, dim3(kWidth, p_.threads / kWidth), bytes, matrix());
      return true;
    }
  }

 private:
  static constexpr bool kOrdered = !std::is_integral_v<Acc>;  // as Problem::ordered

  /// What CUDA said is for status() to tell, and is not left behind as the last error: the next one to ask for that is
  /// not us.
  template <typename... Parameters, typename... Arguments>
  void start(void (*kernel)(Parameters...), Grid grid, dim3 block, size_t bytes, const Arguments&... arguments) const {
    error_ = grid.fits() ? allow_shared(kernel, bytes) : cudaErrorInvalidConfiguration;
    if (error_ == cudaSuccess) {
      const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
      error_ = launch_early(kernel, blocks, block, bytes, stream_, arguments...);
    }
    if (error_ != cudaSuccess) cudaGetLastError();
  }

  /// More than 48 KiB of shared memory have to be asked for: always as much as any plan needs, so that threads that
  /// launch different plans of a kernel at the same time agree.
  template <typename... Parameters>
  static cudaError_t allow_shared(void (*kernel)(Parameters...), size_t bytes) {
    if (bytes <= 48 << 10) return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kCounterBytes);
  }

  /// Bytes of the counters of a block of columns so wide, of kVector columns a thread: for the batches of a thread, and
  /// for the segments that a part of the last block folds.
  template <int kVector>
  size_t counter_bytes(int width, int batches) const {
    const int parts = p_.threads / width;
    const int segments = 2 * ((p_.segments + parts - 1) / parts) / kSegmentsAtOnce<kVector, sizeof(Acc)>;
    return std::bit_width(static_cast<unsigned>(std::max(batches, segments))) * p_.threads * kVector * sizeof(Acc);
  }

  const In* data() const { return static_cast<const In*>(l_.data); }
  bool rounds() const { return l_.out != l_.accumulate; }

  template <template <typename, typename, int> typename Source, int kLoads>
  Source<In, Acc, kLoads> source() const {
    return {data(), has_places() ? l_.problem.rows : l_.problem.kept, l_.problem.reduced};
  }

  /// Whether rows are summed in the order of memory, which is not that of the outputs.
  bool has_places() const {
    return (p_.layout == Layout::aligned || p_.layout == Layout::shifted) && l_.problem.kept.dims > 1;
  }

  template <typename W>
  W where() const {
    if constexpr (std::is_same_v<W, InPlace>) {
      return {};
    } else {
      if (has_places()) return {l_.problem.places};
      Strides in_place{};
      in_place.dims = 1;
      return {in_place};
    }
  }

  Results<Acc, Out> results() const {
    if constexpr (sizeof(Out) < sizeof(Acc)) {
      return {l_.result, rounds()};
    } else {
      return {static_cast<Out*>(l_.result)};
    }
  }

  ShortRows<In, Acc, Out> short_rows() const {
    const Problem& p = l_.problem;
    return {data(), p.outputs, p.rows.stride[0], static_cast<int>(p.n), p_.tiles, p_.prefetching, results()};
  }

  Across<In, Acc> across() const {
    const Problem& p = l_.problem;
    const int64_t length = count(p.reduced, 0, p_.line);
    return {.data = data(),
            .nodes = static_cast<Acc*>(l_.result),
            .windows = p_.window > 0 ? nodes_of(p, p_.window) : 0,
            .n = static_cast<unsigned>(p.n),
            .lines = static_cast<unsigned>(p.n / length),
            .length = static_cast<unsigned>(length),
            .window = static_cast<unsigned>(p_.window),
            .at_once = static_cast<unsigned>(p_.tiles),
            .reduced = AnyStrides(p.reduced)};
  }

  /// Where tiles of words that are an output each store its sum; nowhere if they are parts, which leave nodes.
  Results<Acc, Out> whole_results() const { return p_.window > 0 ? Results<Acc, Out>{} : results(); }

  Columns<In, Acc, Out> matrix() const {
    const Problem& p = l_.problem;
    return {.data = data(),
            .results = results(),
            .n = p.n,
            .slots = l_.slots,
            .batches = p_.tiles,
            .prefetching = p_.prefetching,
            .let_next = p_.let_next,
            .order = column_order(p, p_),
            .reduced = AnyStrides(p.reduced)};
  }

  const Launch& l_;
  const Plan& p_;
  cudaStream_t stream_;
  mutable cudaError_t error_ = cudaSuccess;
};

/// Family::columns of all but Kernels::few.
template <typename In, typename Acc, typename Out>
cudaError_t launch_columns(const Launch& l, cudaStream_t stream) {
  const Launcher<In, Acc, Out> kernel(l, stream);
  constexpr int kVector = column_vector(sizeof(In));
  return kernel.status(kernel.template columns<kVector, kColumnRows, true>() ||
                       kernel.template columns<kVector, strides_rows(kVector, sizeof(In)), false>() ||
                       kernel.template columns<1, most_column_rows(1, sizeof(In)), true>() ||
                       (kVector > 1 && kernel.template columns<1, kColumnRows, true>()) ||
                       (kVector > 1 && kernel.template columns<1, strides_rows(1, sizeof(In)), false>()));
}

/// Order across memory: the nodes, whose rows are the sums. Kernels::rows stands for every, which has the same ones.
template <Kernels kKernels, typename In, typename Acc, typename Out>
cudaError_t launch_across(const Launch& l, cudaStream_t stream) {
  const Launcher<In, Acc, Out> kernel(l, stream);
  if constexpr (std::is_integral_v<Acc> || (kKernels == Kernels::few && sizeof(Out) < sizeof(Acc))) {
    return cudaErrorInvalidValue;  // integers wrap, and so have no order; sums that are rounded last lie in a row
  } else if constexpr (have_tiles(kKernels, sizeof(In))) {
    return kernel.status(kernel.template word_tiles<2>() || kernel.template word_tiles<4>() ||
                         kernel.template word_tiles<kWordLoads>() || kernel.template odd_word_tiles<1>() ||
                         kernel.template odd_word_tiles<3>() || kernel.template odd_word_tiles<5>() ||
                         kernel.template odd_word_tiles<7>() || kernel.lines() || kernel.staged_tiles() ||
                         kernel.boxes() || kernel.tiles());
  } else {
    return kernel.status(kernel.lines());
  }
}

/// Kernels::few.
template <typename In, typename Acc, typename Out = Acc>
cudaError_t launch_few(const Launch& l, cudaStream_t stream) {
  if (is_across(l.plan.family)) return launch_across<Kernels::few, In, Acc, Out>(l, stream);
  const Launcher<In, Acc, Out> kernel(l, stream);
  if (l.plan.family == Family::columns) return kernel.status(kernel.template columns<1, kFewKernelsRows, false>());
  if (l.plan.layout == Layout::aligned) return kernel.status(kernel.template common_rows<Layout::aligned, Aligned>());
  return kernel.status(kernel.template common_rows<Layout::strided, Strided>());
}

/// Kernels::rows.
template <typename In, typename Acc, typename Out = Acc>
cudaError_t launch_rows(const Launch& l, cudaStream_t stream) {
  if (is_across(l.plan.family)) return launch_across<Kernels::rows, In, Acc, Out>(l, stream);
  const Launcher<In, Acc, Out> kernel(l, stream);
  if (l.plan.family == Family::columns) return launch_columns<In, Acc, Out>(l, stream);
  switch (l.plan.layout) {
    case Layout::aligned:
      return kernel.status(
          kernel.template run_block<Aligned>() || kernel.template run_small_grid<Layout::aligned, Aligned>() ||
          kernel.template run_grid<Layout::aligned, Aligned>() || kernel.template run_rows<Layout::aligned, Aligned>());
    case Layout::shifted:
      if constexpr (sizeof(In) <= kLargestShifted) {
        return kernel.status(kernel.template run_block<ShiftedInBlock, ShiftedLittle>() || kernel.shifted_run() ||
                             kernel.template run_rows<Layout::shifted, Shifted>());
      }
      break;
    case Layout::runs:
      return kernel.status(kernel.template common_rows<Layout::runs, Runs>());
    case Layout::split:
      if constexpr (sizeof(In) < kLoadBytes) {
        return kernel.status(kernel.template common_rows<Layout::split, SplitRuns>());
      }
      break;
    case Layout::strided:
      return kernel.status(kernel.template common_rows<Layout::strided, Strided>());
    case Layout::pitched:  // launch_pitched
      break;
  }
  return cudaErrorInvalidValue;
}

/// Layout::pitched, which Kernels::every alone has.
template <typename In, typename Acc, typename Out>
cudaError_t launch_pitched(const Launch& l, cudaStream_t stream) {
  const Launcher<In, Acc, Out> kernel(l, stream);
  constexpr int kLoads = grid_loads(Layout::pitched, sizeof(Acc));
  return kernel.status(kernel.template warp<Stepped, kLoads / 2>() || kernel.template warp<Stepped, kLoads>() ||
                       kernel.template block<Stepped, 256, kLoads, true>() ||
                       kernel.template block<Stepped, 256, most_block_loads(sizeof(Acc)), true>() ||
                       kernel.template common_rows<Layout::pitched, Pitched>());
}

/// Columns whose neighbours begin anywhere, which Kernels::every of floating-point types alone has.
template <typename In, typename Acc, typename Out>
cudaError_t launch_anywhere(const Launch& l, cudaStream_t stream) {
  const Launcher<In, Acc, Out> kernel(l, stream);
  constexpr int kVector = column_vector(sizeof(In));
  if constexpr (std::is_integral_v<Acc>) {
    return cudaErrorInvalidValue;
  } else {
    if (kernel.template columns<kVector, anywhere_rows(sizeof(In), 1), true, true>()) return kernel.status(true);
    if constexpr (sizeof(In) <= 4) {
      return kernel.status(kernel.template columns<kVector, anywhere_rows(sizeof(In), 2), false, true>());
    }
    return kernel.status(false);
  }
}

/// Kernels::every.
template <typename In, typename Acc, typename Out = Acc>
cudaError_t launch_every(const Launch& l, cudaStream_t stream) {
  const Launcher<In, Acc, Out> kernel(l, stream);
  constexpr int kVector = column_vector(sizeof(In));
  switch (l.plan.family) {
    case Family::rows:
    case Family::columns:
    case Family::lines:
    case Family::word_tiles:
    case Family::odd_word_tiles:
    case Family::staged_tiles:
    case Family::tiles:
    case Family::boxes:
      if (l.plan.layout == Layout::pitched) return launch_pitched<In, Acc, Out>(l, stream);
      if (l.plan.anywhere) return launch_anywhere<In, Acc, Out>(l, stream);
      return launch_rows<In, Acc, Out>(l, stream);
    case Family::tiny_rows:
      return kernel.status(kernel.template tiny_rows<2>() || kernel.template tiny_rows<3>() ||
                           kernel.template tiny_rows<4>() || kernel.template tiny_rows<5>() ||
                           kernel.template tiny_rows<6>() || kernel.template tiny_rows<8>());
    case Family::small_rows:
      return kernel.status(kernel.template small_rows<1>() || kernel.template small_rows<2>() ||
                           kernel.template small_rows<4>() || kernel.template small_rows<8>() ||
                           kernel.template small_rows<16>() || kernel.template small_rows<32>());
    case Family::staged_rows:
      return kernel.status(kernel.template staged_rows<1>() || kernel.template staged_rows<2>() ||
                           kernel.template staged_rows<4>() || kernel.template staged_rows<8>() ||
                           kernel.template staged_rows<16>() || kernel.template staged_rows<32>());
    case Family::few_rows:
      return kernel.status(kernel.template few_rows<kVector, 2, 1>() || kernel.template few_rows<kVector, 4, 1>() ||
                           kernel.template few_rows<kVector, 8, 1>() || kernel.template few_rows<1, 2, 1>() ||
                           kernel.template few_rows<1, 4, 1>() || kernel.template few_rows<1, 8, 1>() ||
                           kernel.template few_rows<1, 8, 2>() || kernel.template few_rows<1, 8, 4>() ||
                           kernel.template few_rows<1, 8, 8>());
    case Family::narrow_columns:
      return kernel.status(kernel.template narrow_columns<2>() || kernel.template narrow_columns<3>() ||
                           kernel.template narrow_columns<4>() || kernel.template narrow_columns<5>() ||
                           kernel.template narrow_columns<6>() || kernel.template narrow_columns<7>() ||
                           kernel.template narrow_columns<8>() || kernel.template narrow_columns<12>() ||
                           kernel.template narrow_columns<16>() || kernel.template narrow_columns<32>());
  }
  return cudaErrorInvalidValue;
}

// One of these for each sum_kernels_<type>.cu.
cudaError_t launch_float16(const Launch& l, cudaStream_t stream);  // from or to float16 and bfloat16
cudaError_t launch_float32(const Launch& l, cudaStream_t stream);
cudaError_t launch_float64(const Launch& l, cudaStream_t stream);
cudaError_t launch_int64(const Launch& l, cudaStream_t stream);
cudaError_t launch_int8(const Launch& l, cudaStream_t stream);  // bool, int8 and uint8 to int64
cudaError_t launch_complex(const Launch& l, cudaStream_t stream);

}  // namespace reduce_ops::sum
