// From a plan to a launch: which kernel, how many blocks, and its arguments.

#include <algorithm>
#include <bit>

#include "device/arguments.cuh"
#include "sum/column_order.h"
#include "sum/sum_kernels.h"

namespace reduce_ops::sum {
namespace {

/// Blocks of a launch, before it is known whether CUDA has a grid of so many.
struct Grid {
  int64_t x;
  int64_t y = 1;
  int64_t z = 1;

  bool fits() const { return x <= kMaxGridX && y <= kMaxGridY && z <= kMaxGridY; }
};

bool has_16_bits(Type type) { return type == Type::float16 || type == Type::bfloat16; }

/// The types of the kernel. Integers that are added as int64 are so in uint64, which wraps by definition, where a
/// signed overflow would be undefined. Kernels that round to 16 bits also store sums as they are (Results).
Instance instance_of(Template of, const Launch& l) {
  const bool wraps = l.accumulate == Type::int64 && l.op == Operator::sum;
  const Type accumulate = wraps ? Type::uint64 : l.accumulate;
  const Type in = wraps && l.in == Type::int64 ? Type::uint64 : l.in;
  const Type out = l.accumulate == Type::float32 && has_16_bits(l.in) ? l.in : has_16_bits(l.out) ? l.out : accumulate;
  Instance i{of, static_cast<uint8_t>(in), static_cast<uint8_t>(accumulate), static_cast<uint8_t>(out)};
  i.op = l.op;
  return i;
}

class Launcher {
 public:
  Launcher(const Launch& launch, const Start& start) : l_(launch), p_(launch.plan), start_(start) {}

  cudaError_t run() const {
    switch (p_.family) {
      case Family::rows:
        return rows();
      case Family::tiny_rows:
        return tiny_rows();
      case Family::small_rows:
        return small_rows();
      case Family::staged_rows:
        return staged_rows();
      case Family::columns:
        return columns();
      case Family::few_rows:
        return few_rows();
      case Family::narrow_columns:
        return narrow_columns();
      case Family::lines:
        return lines();
      case Family::word_tiles:
        return word_tiles();
      case Family::staged_tiles:
        return staged_tiles();
      case Family::tiles:
        return tiles();
      case Family::boxes:
        return boxes();
    }
    return cudaErrorInvalidValue;
  }

 private:
  // ---- rows.cuh: outputs of many elements

  cudaError_t rows() const {
    if (p_.width == kWarpSize) return warp();
    const bool one_block = p_.segments == 1 && p_.tiles == 1 && p_.width == 0;
    if (one_block && block_threads(false) > 0) return block(false);
    if (one_block && block_threads(true) > 0) return block(true);
    if (small_grid_threads() > 0) return small_grid();
    return grid();
  }

  bool is_run() const { return p_.layout == Layout::aligned || p_.layout == Layout::shifted; }

  /// Whether rows are summed in the order of memory, which is not that of the outputs.
  bool has_places() const { return is_run() && l_.problem.kept.dims > 1; }

  /// Threads that sum_block is compiled for, if it takes the plan: as many as it has, in one run that is one output's;
  /// otherwise, batched, up to so many. 0 if it does not.
  int block_threads(bool batched) const {
    if (has_places() && !can_permute(p_.loads)) return 0;
    if (!batched) {
      if (!is_run() || l_.problem.outputs > 1) return 0;
      const auto is = [this](int threads, int loads) { return p_.threads == threads && p_.loads == loads; };
      const bool one_of =
          is(32, 1) || is(32, 2) || is(128, 1) || is(256, 1) || is(256, 2) || is(256, 4) || is(512, 4) || is(1024, 4);
      return one_of ? p_.threads : 0;
    }
    int threads = 0;
    if (is_run()) {
      const int most = grid_loads(p_.layout, accumulate_size());
      if (p_.loads == 2 || p_.loads == 4 || p_.loads == most) threads = 512;
    } else if (p_.layout == Layout::pitched) {
      const int most = grid_loads(p_.layout, accumulate_size());
      if (p_.loads == most || p_.loads == most_block_loads(accumulate_size())) threads = 256;
      if (p_.loads == 4 && (threads == 0 || p_.threads > threads)) threads = 1024;
    } else if (p_.loads == 4) {
      threads = 1024;
    }
    return p_.threads <= threads ? threads : 0;
  }

  /// Of sum_small_grid, the same.
  int small_grid_threads() const {
    const bool one = l_.problem.outputs == 1;
    if (!is_run() || p_.tiles != 1 || p_.segments == 1) return 0;
    if (p_.threads != 128 && !(one && p_.threads == 256)) return 0;
    if (p_.segments > most_small_blocks(p_.threads, one)) return 0;
    const int loads = small_grid_loads(p_.layout, element_size(), accumulate_size(), l_.problem.ordered, one);
    return p_.loads == loads ? p_.threads : 0;
  }

  /// One output's shifted run may be summed by a kernel that knows how many words it skips.
  Source source_of_shifted(bool one_output, bool little) const {
    const bool knows = little ? knows_shift_of_little(element_size(), accumulate_size(), l_.problem.ordered)
                              : knows_shift(element_size(), accumulate_size(), l_.problem.ordered);
    if (!one_output || !knows) return Source::shifted;
    const auto words = static_cast<int>(reinterpret_cast<uintptr_t>(l_.data) % kLoadBytes / 4);
    return static_cast<Source>(static_cast<int>(Source::shifted_by_0) + words);
  }

  /// Where rows of several outputs, or of one in many blocks, get their elements from.
  Source source(bool one_output, bool little = false) const {
    switch (p_.layout) {
      case Layout::aligned:
        return Source::aligned;
      case Layout::shifted:
        return source_of_shifted(one_output, little);
      case Layout::runs:
        return Source::runs;
      case Layout::split:
        return Source::split;
      case Layout::pitched:
        return Source::pitched;
      case Layout::strided:
        return Source::strided;
    }
    return Source::none;
  }

  /// At most one chunk: a warp an output.
  cudaError_t warp() const {
    Instance i = instance_of(Template::warp, l_);
    i.source = p_.layout == Layout::pitched ? Source::stepped : source(false);
    i.number[0] = kWarpThreads;
    i.places = can_permute(p_.loads);
    return with_source(i, {ceil_div(l_.problem.outputs, kWarpThreads / kWarpSize)}, kWarpThreads,
                       [this](const auto& source, const auto& where, const auto& go) {
                         return go(source, l_.problem.outputs, l_.problem.n, where, p_.prefetching, results());
                       });
  }

  cudaError_t block(bool batched) const {
    Instance i = instance_of(Template::block, l_);
    i.number[0] = static_cast<int16_t>(block_threads(batched));
    i.number[1] = batched;
    i.places = batched && can_permute(p_.loads);
    if (p_.layout == Layout::shifted && !batched) {
      i.source = p_.threads * p_.loads <= 512 ? Source::shifted_little : Source::shifted_in_block;
    } else if (p_.layout == Layout::pitched && i.number[0] == 256) {
      i.source = Source::stepped;
    } else {
      i.source = source(false);
    }
    const int64_t outputs = l_.problem.outputs;
    return with_source(i, {std::min(outputs, kMaxGridX), ceil_div(outputs, kMaxGridX)}, p_.threads,
                       [this](const auto& source, const auto& where, const auto& go) {
                         return go(source, l_.problem.outputs, l_.problem.n, where, p_.prefetching, results());
                       });
  }

  /// Of several outputs of at most 2^20 loads, 2049 an output and more (plan_rows): so outputs fit in gridDim.y.
  cudaError_t small_grid() const {
    const bool one = l_.problem.outputs == 1;
    Instance i = instance_of(Template::small_grid, l_);
    i.number[0] = static_cast<int16_t>(p_.threads);
    i.number[1] = !one;
    i.source = source(one, /*little=*/true);
    i.places = !one && can_permute(p_.loads);
    return with_source(i, {p_.segments, l_.problem.outputs}, p_.threads,
                       [this](const auto& source, const auto& where, const auto& go) {
                         return go(source, l_.problem.n, l_.slots, where, p_.prefetching, p_.let_next, results());
                       });
  }

  cudaError_t grid() const {
    const bool one = is_run() && l_.problem.outputs == 1 && p_.segments > 1;
    Instance i = instance_of(Template::grid, l_);
    i.number[0] = static_cast<int16_t>(p_.threads);
    i.number[1] = !one;
    i.source = source(one);
    i.places = !one && can_permute(p_.loads);
    const int64_t outputs = l_.problem.outputs;
    const Grid grid{p_.segments, std::min<int64_t>(outputs, kMaxGridY), ceil_div(outputs, kMaxGridY)};
    return with_source(i, grid, p_.threads, [this](const auto& source, const auto& where, const auto& go) {
      return go(source, l_.problem.outputs, l_.problem.n, p_.tiles, l_.slots, where, p_.prefetching, p_.let_next,
                results());
    });
  }

  /// call(source, where, go): go(arguments...) starts the kernel.
  template <typename Call>
  cudaError_t with_source(Instance& i, Grid grid, int threads, const Call& call) const {
    i.loads = static_cast<uint8_t>(p_.loads);
    const auto go = [&](const auto&... arguments) { return go_with(i, grid, dim3(threads), 0, arguments...); };
    const auto with = [&](const auto& source) {
      if (!i.places) return call(source, InPlace{}, go);
      if (has_places()) return call(source, Places{l_.problem.places}, go);
      Places in_place{};
      in_place.strides.dims = 1;
      return call(source, in_place, go);
    };
    const Problem& p = l_.problem;
    switch (i.source) {
      case Source::runs:
        return with(StridedRows<Near<2>>{l_.data, p.kept, Near<2>(p.reduced)});
      case Source::split:
        return with(StridedRows<NearStrides>{l_.data, p.kept, NearStrides(p.reduced)});
      case Source::stepped:
        return with(StridedRows<NearSteps>{l_.data, p.kept, NearSteps(p.reduced)});
      case Source::pitched:
        return with(StridedRows<Near<2>>{l_.data, p.kept, Near<2>(p.reduced)});
      case Source::strided:
        return with(StridedRows<AnyStrides>{l_.data, p.kept, AnyStrides(p.reduced)});
      default:  // of which OneRow is the beginning
        return with(PitchedRows{l_.data, has_places() ? p.rows.stride[0] : p.kept.stride[0]});
    }
  }

  // ---- short_rows.cuh

  cudaError_t tiny_rows() const {
    Instance i = instance_of(Template::tiny_rows, l_);
    i.number[0] = static_cast<int16_t>(p_.width);
    const int items = tiny_items(p_.width, element_size(), size_of(static_cast<Type>(i.out)));
    const Grid grid{ceil_div(l_.problem.outputs, p_.threads * items * whole_rows(p_.width, element_size()).rows)};
    return go_with(i, grid, p_.threads, 0, short_rows());
  }

  cudaError_t small_rows() const {
    Instance i = instance_of(Template::small_rows, l_);
    i.number[0] = static_cast<int16_t>(p_.width);
    const Grid grid{ceil_div(l_.problem.outputs, p_.threads / p_.width * std::min(p_.width, 4))};
    return go_with(i, grid, p_.threads, 0, short_rows(), Places{l_.problem.places});
  }

  cudaError_t staged_rows() const {
    Instance i = instance_of(Template::staged_rows, l_);
    i.number[0] = static_cast<int16_t>(p_.width);
    i.places = l_.problem.kept.dims > 1;
    const Grid grid{ceil_div(l_.problem.outputs, p_.tiles)};
    if (!i.places) return go_with(i, grid, p_.threads, 0, short_rows(), InPlace{});
    return go_with(i, grid, p_.threads, 0, short_rows(), Places{l_.problem.places});
  }

  ShortRows short_rows() const {
    const Problem& p = l_.problem;
    return {l_.data, p.outputs, p.rows.stride[0], static_cast<int>(p.n), p_.tiles, p_.prefetching, results()};
  }

  // ---- columns.cuh, narrow_columns.cuh

  cudaError_t columns() const {
    const bool one_dim = l_.problem.reduced.dims == 1;
    const bool straight = p_.anywhere ? p_.loads == anywhere_rows(element_size(), 1)
                                      : p_.loads == kColumnRows || p_.loads == most_column_rows(1, element_size());
    Instance i = instance_of(Template::columns, l_);
    i.number[0] = static_cast<int16_t>(p_.vector);
    i.number[1] = static_cast<int16_t>(p_.loads);
    i.number[2] = one_dim && straight;
    i.number[3] = p_.anywhere;
    const Columns columns = matrix();
    const Grid grid{ceil_div(columns.order.count, int64_t{p_.width} * p_.vector), p_.segments};
    return go_with(i, grid, dim3(p_.width, p_.threads / p_.width), counter_bytes(p_.vector, p_.width, p_.tiles),
                   columns);
  }

  cudaError_t few_rows() const {
    const Problem& p = l_.problem;
    FewRows rows{.data = l_.data,
                 .results = results(),
                 .n = static_cast<int>(p.n),
                 .offset = {},
                 .part = p_.loads * p.reduced.stride[0],
                 .anywhere = p_.anywhere,
                 .order = column_order(p, p_)};
    for (int row = 0; row < p_.loads; ++row) rows.offset[row] = p.reduced.offset_of_large(row);
    const int parts = kWarpSize / p_.width;
    Instance i = instance_of(Template::few_rows, l_);
    i.number[0] = static_cast<int16_t>(p_.vector);
    i.number[1] = static_cast<int16_t>(p_.loads);
    i.number[2] = static_cast<int16_t>(parts);
    i.number[3] = p.columns.dims == 1 && p.columns.stride[0] == 1;
    return go_with(i, {ceil_div(rows.order.count * parts, int64_t{p_.threads} * p_.vector)}, p_.threads, 0, rows);
  }

  cudaError_t narrow_columns() const {
    const int width = narrow_width(p_.width);
    Instance i = instance_of(Template::narrow_columns, l_);
    i.number[0] = static_cast<int16_t>(p_.width);
    const Grid grid{p_.segments, l_.problem.outputs / p_.width};
    const int tiles = std::min(p_.tiles, narrow_tiles(p_.width, accumulate_size()));
    const size_t sums = size_t(tiles) * (p_.threads / kWarpSize) * p_.width * accumulate_size();
    return go_with(i, grid, dim3(width, p_.threads / width), std::max(sums, counter_bytes(1, width, 1)), matrix());
  }

  Columns matrix() const {
    const Problem& p = l_.problem;
    return {.data = l_.data,
            .results = results(),
            .n = p.n,
            .slots = l_.slots,
            .batches = p_.tiles,
            .prefetching = p_.prefetching,
            .let_next = p_.let_next,
            .order = column_order(p, p_),
            .reduced = AnyStrides(p.reduced)};
  }

  /// Bytes of the counters of a block of columns so wide, of `vector` columns a thread: for the batches of a thread,
  /// and for the segments that a part of the last block folds.
  size_t counter_bytes(int vector, int width, int batches) const {
    const int parts = p_.threads / width;
    const int segments = 2 * ((p_.segments + parts - 1) / parts) / segments_at_once(vector, accumulate_size());
    const int levels = std::bit_width(static_cast<unsigned>(std::max(batches, segments)));
    return size_t(levels) * p_.threads * vector * accumulate_size();
  }

  // ---- across.cuh and what follows it: the order runs across memory

  cudaError_t lines() const {
    const Across a = across();
    Strides every, lines;
    Places places;
    if (!lines_of_all(l_.problem, p_.line, every)) return cudaErrorInvalidValue;
    order_by_stride(every, lines, places.strides);
    const auto all = Divisor::of(count(every, 0, every.dims));
    const int loads = line_loads(element_size());
    Instance i = instance_of(Template::lines, l_);
    i.number[0] = a.reduced.far.size[0].value >= loads;
    static_assert(4 * kMinWindow > line_loads(1), "an output has more elements than a turn");
    int64_t turn = a.reduced.far.size[0].value;
    int turn_dims = 1;
    while (turn * a.reduced.far.size[turn_dims].value < loads) turn *= a.reduced.far.size[turn_dims++].value;
    const Grid grid{ceil_div(all.value * ceil_div(a.length, a.at_once), kLineThreads)};
    return go_with(i, grid, kLineThreads, 0, a, all, lines, places, Divisor::of(turn), turn_dims);
  }

  cudaError_t tiles() const {
    const Across a = across();
    Instance i = instance_of(Template::tiles, l_);
    i.number[0] = p_.line == 1 && a.length >= kMinDown;
    const int64_t windows = ceil_div(int64_t{a.at_once} * a.length, a.window);
    const auto bytes = static_cast<size_t>(tile_bytes(windows * a.window, element_size()));
    return go_with(i, {l_.problem.outputs * ceil_div(a.lines, a.at_once)}, p_.threads, bytes, a, l_.problem.columns,
                   l_.problem.places, p_.gap);
  }

  cudaError_t word_tiles() const {
    const Problem& p = l_.problem;
    const Across a = across();
    const auto tiles = ceil_div(a.lines, a.at_once);
    Instance i = instance_of(Template::word_tiles, l_);
    i.number[0] = static_cast<int16_t>(p_.loads);
    const size_t bytes = word_tile_nodes(p_, a.lines, a.length) * accumulate_size();
    return go_with(i, {p.outputs * tiles}, p_.threads, bytes, a, p.columns, p.places, Divisor::of(tiles),
                   whole_results());
  }

  cudaError_t staged_tiles() const {
    const Problem& p = l_.problem;
    const Across a = across();
    const auto tiles = ceil_div(a.lines, a.at_once);
    const int64_t places = places_of_staged(a.at_once, a.length);
    const Staging staging{.tiles = Divisor::of(tiles),
                          .words = Divisor::of(p_.width),
                          .pitch = p_.pitch,
                          .turn_gap = p_.turn_gap,
                          .bytes = static_cast<unsigned>(staged_bytes(a.length, p_.pitch)),
                          .tabulated = places > 0,
                          .end = end()};
    Instance i = instance_of(Template::staged_tiles, l_);
    i.number[0] = p_.turn_gap > 0;
    return go_with(i, {p.outputs * tiles}, p_.threads, static_cast<size_t>(staging.bytes + places), a, p.columns,
                   p.places, staging);
  }

  cudaError_t boxes() const {
    const Problem& p = l_.problem;
    const Box& box = p_.box;
    Boxes b{.data = l_.data,
            .end = end(),
            .nodes = l_.result,
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
      b.dim[i] = box_dim(box.order[i]);
      blocks *= b.dim[i].ranges.value;
    }
    for (int d = 0; d < p_.line; ++d) {
      const auto ends = static_cast<unsigned>(p.reduced.size[d].value * box.pitch[d]);
      b.turn[d] = {Divisor::of(count(p.reduced, 0, d + 1)), box.pitch[d + 1] - ends};
    }
    return go_with(instance_of(Template::boxes, l_), {blocks}, p_.threads, static_cast<size_t>(box.shared), b,
                   p_.loads);
  }

  /// Dimension d of those of Problem::reduced and then of `kept`.
  BoxDim box_dim(int d) const {
    const Problem& p = l_.problem;
    const Box& box = p_.box;
    const int of_kept = d - p.reduced.dims;
    const bool kept = of_kept >= 0;
    const int64_t size = kept ? p.kept.size[of_kept].value : p.reduced.size[d].value;
    const int64_t range = box.range[d];
    const int64_t copied = range + (d == p_.line ? box.halo : 0);
    return {.ranges = Divisor::of(ceil_div(size, range)),
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
  }

  Across across() const {
    const Problem& p = l_.problem;
    const int64_t length = count(p.reduced, 0, p_.line);
    return {.data = l_.data,
            .nodes = l_.result,
            .windows = p_.window > 0 ? nodes_of(p, p_.window) : 0,
            .n = static_cast<unsigned>(p.n),
            .lines = static_cast<unsigned>(p.n / length),
            .length = static_cast<unsigned>(length),
            .window = static_cast<unsigned>(p_.window),
            .at_once = static_cast<unsigned>(p_.tiles),
            .reduced = AnyStrides(p.reduced)};
  }

  /// Behind the last element of all outputs.
  const void* end() const {
    const int64_t elements = reach(l_.problem.kept) + reach(l_.problem.reduced) + 1;
    return static_cast<const char*>(l_.data) + elements * element_size();
  }

  // ---- all of them

  int element_size() const { return l_.problem.element_size; }
  int accumulate_size() const { return l_.problem.accumulate_size; }

  Results results() const { return {l_.result, l_.count, l_.out != l_.accumulate}; }

  /// Where tiles of words that are an output each store its sum; nowhere if they are parts, which leave nodes.
  Results whole_results() const { return p_.window > 0 ? Results{} : results(); }

  template <typename... Arguments>
  cudaError_t go_with(const Instance& instance, Grid grid, dim3 block, size_t bytes,
                      const Arguments&... arguments) const {
    if (!grid.fits()) return cudaErrorInvalidConfiguration;
    const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    return start_(instance, {blocks, block, bytes}, pointers);
  }

  const Launch& l_;
  const Plan& p_;
  const Start& start_;
};

}  // namespace

cudaError_t start(const Launch& launch, const Start& start) { return Launcher(launch, start).run(); }

cudaError_t launch(const Launch& launch, cudaStream_t stream) {
  static auto* const table = new jit::Table(/*waits=*/true);
  return start(launch, [stream](const Instance& instance, const jit::Geometry& geometry, void** arguments) {
    jit::Kernel& kernel = table->get(std::bit_cast<jit::Key>(instance), [&] { return name_of(instance); });
    return jit::launch(kernel, geometry, {kCounterBytes}, stream, arguments);
  });
}

}  // namespace reduce_ops::sum
