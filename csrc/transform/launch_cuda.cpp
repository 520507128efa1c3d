#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

#include "device/arguments.cuh"
#include "plan/families.h"
#include "sum/instance.h"
#include "transform/transform_kernels.h"

namespace reduce_ops::transform {
namespace {

using sum::ceil_div;
using sum::kWarpSize;
using sum::LetNext;
using sum::Plan;
using sum::Strides;

/// As device/operands.cuh has them.
enum class Access { run, pieces, fixed, shared, apart };
constexpr const char* kAccessNames[] = {"run", "pieces", "fixed", "shared", "apart"};

/// So many rows keep a GPU busy where a warp takes several.
constexpr int64_t kManyRows = 2048;

enum class Kernel { short_rows, warp, block, small_grid, grid, columns };

/// What a kernel's name is made of.
struct Instance {
  Kernel kernel;
  int threads = 0;  // kThreads of kernels of rows
  bool batched = false;
  int vector = 1;
  int loads = 1;  // or rows at once
  std::array<Access, kMaxInputs> access{};
};

class Launcher {
 public:
  Launcher(const Launch& launch, const Gpu& gpu, const Start& start) : l_(launch), gpu_(gpu), start_(start) {}

  cudaError_t run() {
    const int largest = largest_operand(l_.layout, l_.operands);
    const bool down = l_.outputs > 1 && are_columns(l_.layout.kept[largest], l_.layout.reduced[largest]);
    switch (l_.operands) {
      case 1:
        return down ? columns<1>(largest) : rows<1>();
      case 2:
        return down ? columns<2>(largest) : rows<2>();
      case 3:
        return down ? columns<3>(largest) : rows<3>();
      case 4:
        return down ? columns<4>(largest) : rows<4>();
      case 5:
        return down ? columns<5>(largest) : rows<5>();
      default:
        return down ? columns<6>(largest) : rows<6>();
    }
  }

 private:
  int accumulate_size() const { return l_.task.formula.is_pair ? 2 * size_of(l_.type) : size_of(l_.type); }

  /// How neighbours along the innermost dimension of `along` are read, if a thread can take several.
  static Access access_of(const Strides& along) {
    const bool one = along.dims == 1;
    if (along.stride[0] == 1) return one ? Access::run : Access::pieces;
    const bool fixed = std::all_of(along.stride, along.stride + along.dims, [](int64_t s) { return s == 0; });
    return fixed ? Access::fixed : along.stride[0] == 0 ? Access::shared : Access::apart;
  }

  /// Neighbours that a thread takes at a time, so that up to 16 bytes of each operand are loaded together; the
  /// operands' strides along which they are neighbours, and the others.
  int vector_of(const Instance& i, const StridesOfEach& along, const StridesOfEach& others) const {
    int64_t vector = 16;
    bool any = false;  // that is loaded so
    for (int k = 0; k < l_.operands; ++k) {
      if (i.access[k] == Access::apart) return 1;
      if (along[k].dims > 1) vector = std::gcd(vector, along[k].size[0].value);  // none beyond a turn
      if (i.access[k] == Access::fixed || i.access[k] == Access::shared) continue;
      any = true;
      const int size = size_of(l_.in[k]);
      vector = std::gcd(std::min<int64_t>(vector, 16 / size),
                        static_cast<int64_t>(reinterpret_cast<uintptr_t>(l_.data[k]) / size));
      for (int d = 1; d < along[k].dims; ++d) vector = std::gcd(vector, along[k].stride[d]);
      for (int d = 0; d < others[k].dims; ++d) vector = std::gcd(vector, others[k].stride[d]);
    }
    return any ? static_cast<int>(vector) : 1;
  }

  /// Of neighbours that are taken one by one, those in pieces or shared are as any that are apart: fewer kernels.
  static void settle(Instance& i) {
    for (Access& access : i.access) {
      if (i.vector == 1 && (access == Access::pieces || access == Access::shared)) access = Access::apart;
    }
  }

  template <int kInputs>
  sum::Zipped<kInputs> zipped(const StridesOfEach& kept) const {
    sum::Zipped<kInputs> z{};
    for (int k = 0; k < kInputs; ++k) {
      z.data[k] = l_.data[k];
      z.kept[k] = kept[k];
      z.reduced[k] = l_.layout.reduced[k];
    }
    const std::vector<double>& constants = l_.task.formula.constants;
    for (size_t c = 0; c < constants.size(); ++c) {
      z.constants.bits[c] = l_.type == Type::float32   ? std::bit_cast<uint32_t>(static_cast<float>(constants[c]))
                            : l_.type == Type::float64 ? std::bit_cast<uint64_t>(constants[c])
                                                       : static_cast<uint64_t>(static_cast<int64_t>(constants[c]));
    }
    return z;
  }

  sum::Results results() const {
    const bool rounded = l_.out != l_.type || l_.task.op != sum::Operator::sum;
    return {l_.result, l_.n, rounded, l_.task.freedom};
  }

  // ---- rows

  /// The plan of a sum of elements that are as many bytes as all operands take together, of which each is read
  /// so: what it says of loads of 16 bytes is then said of `vector` neighbours of each.
  Plan plan_of_rows(const Instance& i) const {
    int bytes = 0;
    for (int k = 0; k < l_.operands; ++k) bytes += i.access[k] == Access::fixed ? 0 : size_of(l_.in[k]);
    const int total = std::bit_ceil(static_cast<unsigned>(std::max(bytes, 1)));
    // Elements of 16 bytes of that sum. Of neighbours that are taken one by one, two, as loads are small, unless that
    // leaves too few blocks: 2^16 + 1 products 1.7 us, by two 2.1; 2^22 + 1 10.8 and 9.8 (H200).
    const bool few = l_.outputs == 1 && l_.n <= int64_t{1} << 20;
    const int a_load = i.vector == 1 ? (few ? 1 : 2) : std::clamp(16 / total, 1, i.vector);
    sum::Problem p{};
    const auto run = [](int64_t size, int64_t stride) {
      Strides s{1, size < (int64_t{1} << 31), {}, {}};
      s.size[0] = sum::Divisor::of(size);
      s.stride[0] = stride;
      return s;
    };
    p.outputs = l_.outputs;
    p.n = l_.n;
    p.reduced = run(l_.n, 1);
    p.kept = p.columns = p.rows = run(l_.outputs, ceil_div(l_.n, 16) * 16);
    p.places = run(l_.outputs, 1);
    p.element_size = 16 / a_load;
    p.accumulate_size = accumulate_size();
    p.ordered = true;
    auto plan = sum::plan_rows(p, gpu_);
    if (!plan) return {};
    sum::set_start(p, *plan, gpu_);
    plan->loads = std::max(1, plan->loads * a_load / i.vector);
    use_fewer_threads(i, *plan);
    return *plan;
  }

  /// Of many rows that a block takes at once, a lane has two loads in flight for each operand, or four, before there
  /// are more warps: (65536, 1024) float32 products 117 us, with one load 133 (H200).
  void use_fewer_threads(const Instance& i, Plan& plan) const {
    const bool at_once = plan.segments == 1 && plan.tiles == 1;
    if (!at_once || i.vector == 1 || l_.outputs == 1 || l_.outputs < gpu_.multiprocessors) return;
    const int64_t groups = ceil_div(l_.n, i.vector);
    const int most = l_.operands <= 2 ? 4 : 2;
    const auto warps_of = [&](int loads) { return ceil_div(groups, int64_t{kWarpSize} * loads); };
    for (const int loads : {most / 2, most}) {
      if (warps_of(loads) > 1) continue;
      plan.loads = loads;
      plan.width = kWarpSize;
      plan.threads = sum::kWarpThreads;
      return;
    }
    for (const int loads : {most / 2, most}) {
      if (warps_of(loads) > 16) continue;
      plan.loads = loads;
      plan.width = 0;
      plan.threads = static_cast<int>(warps_of(loads)) * kWarpSize;
      return;
    }
  }

  template <int kInputs>
  cudaError_t rows() {
    Instance i{};
    for (int k = 0; k < kInputs; ++k) i.access[k] = access_of(l_.layout.reduced[k]);
    i.vector = vector_of(i, l_.layout.reduced, l_.layout.kept);
    settle(i);
    // Of few rows each has a warp: (128, 128) 1.5 us, by fours 1.9 (H200).
    if (l_.outputs >= kManyRows && l_.n <= kWarpSize * i.vector) return short_rows<kInputs>(i);
    const Plan plan = plan_of_rows(i);
    if (plan.threads == 0) return cudaErrorInvalidConfiguration;
    i.loads = plan.loads;
    const sum::Zipped<kInputs> source = zipped<kInputs>(l_.layout.kept);
    const sum::InPlace where{};
    const sum::Results to = results();
    const bool one = l_.outputs == 1;
    const auto threads = static_cast<unsigned>(plan.threads);
    void* const slots = plan.segments > 1 ? l_.slots() : nullptr;
    const auto go = [&](int64_t x, int64_t y, int64_t z, const auto&... arguments) {
      return go_with(i, x, y, z, dim3(threads), 0, arguments...);
    };
    if (plan.width == kWarpSize) {
      i.kernel = Kernel::warp;
      i.threads = sum::kWarpThreads;
      return go(ceil_div(l_.outputs, sum::kWarpThreads / kWarpSize), 1, 1, source, l_.outputs, l_.n, where,
                plan.prefetching, to);
    }
    if (plan.segments == 1 && plan.tiles == 1) {
      i.kernel = Kernel::block;
      i.batched = !one;
      i.threads = one ? plan.threads : plan.threads > 512 ? 1024 : 512;
      const int64_t x = std::min(l_.outputs, sum::kMaxGridX);
      return go(x, ceil_div(l_.outputs, sum::kMaxGridX), 1, source, l_.outputs, l_.n, where, plan.prefetching, to);
    }
    i.batched = !(one && plan.segments > 1);
    i.threads = plan.threads;
    const bool small = plan.tiles == 1 && plan.threads <= 256 && plan.segments > 1 && l_.outputs <= sum::kMaxGridY &&
                       plan.segments <= sum::most_small_blocks(plan.threads, one);
    if (small) {
      i.kernel = Kernel::small_grid;
      return go(plan.segments, l_.outputs, 1, source, l_.n, slots, where, plan.prefetching, plan.let_next, to);
    }
    i.kernel = Kernel::grid;
    return go(plan.segments, std::min<int64_t>(l_.outputs, sum::kMaxGridY), ceil_div(l_.outputs, sum::kMaxGridY),
              source, l_.outputs, l_.n, plan.tiles, slots, where, plan.prefetching, plan.let_next, to);
  }

  template <int kInputs>
  cudaError_t short_rows(Instance& i) {
    i.kernel = Kernel::short_rows;
    i.threads = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(ceil_div(l_.n, i.vector))));  // lanes a row
    i.loads = kInputs <= 2 ? 4 : 2;
    constexpr int kThreads = 256;
    const int64_t a_block = int64_t{kThreads} / i.threads * i.loads;
    return go_with(i, ceil_div(l_.outputs, a_block), 1, 1, dim3(kThreads), 0, zipped<kInputs>(l_.layout.kept),
                   l_.outputs, static_cast<int>(l_.n), results());
  }

  // ---- columns

  /// How the rows of columns are shared: by parts of a block, in batches, and by segments, a block each.
  struct Split {
    int parts;
    int64_t batches;
    int64_t segments;
    size_t bytes;  // of shared memory
  };

  /// Outputs in the order in which the operand `by` lies in memory: where those of each operand begin, and where the
  /// results belong.
  StridesOfEach ordered(int by, Strides& places) const {
    std::array<Strides, kMaxInputs + 1> merged;
    const Strides& s = l_.layout.kept[by];
    std::array<int, sum::kMaxDims> order;
    std::iota(order.begin(), order.begin() + s.dims, 0);
    std::stable_sort(order.begin(), order.begin() + s.dims,
                     [&](int a, int b) { return sum::distance(s.stride[a]) < sum::distance(s.stride[b]); });
    sum::JointMerger merger(merged.data(), l_.operands + 1);
    for (int d = 0; d < s.dims; ++d) {
      merger.add(s.size[order[d]].value, [&](int k) {
        return k < l_.operands ? l_.layout.kept[k].stride[order[d]] : sum::count(s, 0, order[d]);
      });
    }
    merger.finish();
    places = merged[l_.operands];
    StridesOfEach kept;
    std::copy_n(merged.begin(), kMaxInputs, kept.begin());
    return kept;
  }

  template <int kInputs>
  cudaError_t columns(int largest) {
    sum::ZippedColumns c{};
    const StridesOfEach kept = ordered(largest, c.places);
    Instance i{Kernel::columns};
    for (int k = 0; k < kInputs; ++k) {  // all by strides: only whether neighbours lie side by side, or are one, counts
      const int64_t stride = kept[k].stride[0];
      i.access[k] = stride == 1 ? Access::pieces : stride == 0 ? Access::shared : Access::apart;
    }
    i.vector = vector_of(i, kept, l_.layout.reduced);
    i.vector = static_cast<int>(std::gcd<int64_t, int64_t>(i.vector, kept[0].size[0].value));
    i.vector = std::min(i.vector, std::max(1, 16 / accumulate_size()));
    settle(i);
    const auto power = [](int64_t x) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x))); };
    const int64_t at_once = kInputs <= 2 ? 8 : kInputs <= 4 ? 4 : 2;
    i.loads = static_cast<int>(std::min(at_once, power(l_.n)));

    // Blocks are as wide as few rows leave threads for.
    const int64_t side_by_side = l_.outputs / i.vector;
    const int64_t parts_in_use = power(ceil_div(l_.n, i.loads));
    const int64_t widest = std::max<int64_t>(256 / parts_in_use, kWarpSize);
    const int width = static_cast<int>(std::min(power(side_by_side), widest));
    const int64_t blocks = ceil_div(side_by_side, width);
    // As many segments as keep the GPU busy, of an aligned power of two of rows each. Blocks of few segments are large:
    // (65536, 256) products 39 us, of 256 threads 40 to 44 (H200).
    const int64_t wanted = std::max<int64_t>(1, gpu_.multiprocessors / blocks);
    const int64_t most = std::min<int64_t>(sum::max_slots(accumulate_size()) / l_.outputs, 1024);
    const auto split = [&](int threads) {
      Split split{static_cast<int>(std::min<int64_t>(threads / width, parts_in_use)), 1, 0, 0};
      const int64_t a_batch = int64_t{split.parts} * i.loads;
      const auto segments = [&] { return ceil_div(l_.n, a_batch * split.batches); };
      while (segments() > 1 && (segments() > wanted || segments() > most)) split.batches *= 2;
      split.segments = segments();
      const int64_t a_part = 2 * ceil_div(split.segments, split.parts);  // that a part of the last block folds
      const int levels = std::bit_width(static_cast<uint64_t>(std::max(split.batches, a_part)));
      split.bytes = size_t(levels) * width * split.parts * i.vector * accumulate_size();
      return split;
    };
    Split s = split(wanted > 1 && l_.n > int64_t{16} * i.loads ? 512 : 256);
    if (s.bytes > sum::kCounterBytes) s = split(256);
    if (s.bytes > sum::kCounterBytes) return cudaErrorInvalidConfiguration;
    c.results = results();
    c.columns = l_.outputs;
    c.n = l_.n;
    c.batches = static_cast<int>(s.batches);
    c.slots = s.segments > 1 ? l_.slots() : nullptr;
    c.let_next = LetNext::at_end;
    return go_with(i, blocks, s.segments, 1, dim3(width, s.parts), s.bytes, zipped<kInputs>(kept), c);
  }

  // ---- all of them

  std::string name_of(const Instance& i) const {
    const std::string type = reduce_ops::name_of(l_.type);
    const Type wraps = l_.type == Type::int64 ? Type::uint64 : l_.type;
    const bool is_sum = l_.task.op == sum::Operator::sum;
    const Type of_pair = l_.type == Type::float32 ? Type::complex64 : Type::complex128;
    const std::string accumulate =
        is_sum && l_.task.formula.is_pair ? reduce_ops::name_of(of_pair) : sum::accumulate_name(l_.task.op, wraps);
    const std::string out = reduce_ops::name_of(l_.out == Type::int64 ? Type::uint64 : l_.out);
    std::string operands;
    for (int k = 0; k < l_.operands; ++k) {
      operands += std::string(", sum::Operand<") + reduce_ops::name_of(l_.in[k]) +
                  ", sum::Access::" + kAccessNames[static_cast<int>(i.access[k])] + ">";
    }
    const std::string loads = std::to_string(i.loads), threads = std::to_string(i.threads);
    const std::string zip =
        l_.task.formula.type() + ", " + type + ", " + accumulate + ", " + std::to_string(i.vector) + ", ";
    if (i.kernel == Kernel::columns) return "sum::sum_zipped_columns<" + zip + loads + ", " + out + operands + ">";
    const auto source = [&](const std::string& at_once) {
      return ", sum::ZippedRows<" + zip + at_once + operands + ">, ";
    };
    if (i.kernel == Kernel::short_rows) {
      return "sum::sum_zipped_short_rows<" + threads + ", " + loads + source("1") + out + ">";
    }
    constexpr const char* kNames[] = {"sum_warp", "sum_block", "sum_small_grid", "sum_grid"};
    const std::string name = kNames[static_cast<int>(i.kernel) - static_cast<int>(Kernel::warp)];
    const std::string batched = i.kernel == Kernel::warp ? "" : i.batched ? ", true" : ", false";
    return "sum::" + name + "<" + threads + batched + source(loads) + "sum::InPlace, " + out + ">";
  }

  /// All that the name is made of, in 128 bits.
  jit::Key key_of(const Instance& i) const {
    jit::Key key{static_cast<uint64_t>(l_.task.formula.id), 0};
    int used = 0;
    const auto add = [&](uint64_t& word, int value, int bits) {
      word |= static_cast<uint64_t>(value) << used;
      used += bits;
    };
    for (int k = 0; k < l_.operands; ++k) {
      add(key[1], static_cast<int>(l_.in[k]), 5);
      add(key[1], static_cast<int>(i.access[k]), 3);
    }
    used = 48;
    add(key[1], static_cast<int>(l_.type), 5);
    add(key[1], static_cast<int>(l_.out), 5);
    add(key[1], static_cast<int>(l_.task.op), 5);
    add(key[1], i.batched, 1);
    used = 32;
    add(key[0], l_.operands, 3);
    add(key[0], static_cast<int>(i.kernel), 3);
    add(key[0], i.threads, 11);
    add(key[0], i.vector, 5);
    add(key[0], i.loads, 5);
    return key;
  }

  template <typename... Arguments>
  cudaError_t go_with(const Instance& i, int64_t x, int64_t y, int64_t z, dim3 block, size_t bytes,
                      const Arguments&... arguments) const {
    if (x > sum::kMaxGridX || y > sum::kMaxGridY || z > sum::kMaxGridY) return cudaErrorInvalidConfiguration;
    const dim3 grid(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
    return start_(
        key_of(i), [&] { return jit::Name{"device/operands.cuh", name_of(i)}; }, {grid, block, bytes}, pointers);
  }

  const Launch& l_;
  const Gpu& gpu_;
  const Start& start_;
};

/// How rows stay in registers: a warp each, of up to four loads a lane, or a block of as many warps as that takes. (Of
/// eight loads bfloat16 spills 500 bytes.)
struct ResidentShape {
  explicit ResidentShape(const Launch& l) {
    const Strides& kept = l.layout.kept[0];
    const int size = size_of(l.in[0]);
    vector = static_cast<int>(
        std::gcd(int64_t{16 / size}, static_cast<int64_t>(reinterpret_cast<uintptr_t>(l.data[0]) / size)));
    for (int d = 0; d < kept.dims; ++d) vector = static_cast<int>(std::gcd(int64_t{vector}, kept.stride[d]));
    const int64_t a_lane = ceil_div(ceil_div(l.n, vector), kWarpSize);
    loads = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(a_lane, 4))));
    // Of rows that half a warp could load there are kernels that take many at a time, if there are many.
    const bool are_short = l.n <= kWarpSize / 2 * vector && l.outputs >= kManyRows;
    fits = sum::is_run(l.layout.reduced[0]) && a_lane <= 4 * kMostWarps && l.outputs <= sum::kMaxGridX && !are_short;
    warps = static_cast<int>(std::min<int64_t>(ceil_div(a_lane, loads), kMostWarps));
    rows = warps == 1 ? 4 : 1;
    most_threads = warps <= 4 ? 128 : warps <= 16 ? 512 : 1024;
  }

  static constexpr int kMostWarps = 32;

  bool fits;
  int vector;
  int loads;
  int warps;
  int rows;  // of a block
  int most_threads;
};

}  // namespace

bool has_resident_rows(const Launch& l) { return ResidentShape(l).fits; }

cudaError_t start_resident_rows(const Launch& l, void* means, const Start& start) {
  const ResidentShape shape(l);
  const sum::ResidentRows rows{.data = l.data[0],
                               .means = means,
                               .results = {l.result, l.n, true, l.task.freedom},
                               .rows = l.outputs,
                               .n = static_cast<int>(l.n),
                               .kept = l.layout.kept[0]};
  const auto name = [&] {
    const auto number = [](int x) { return std::to_string(x) + ", "; };
    return jit::Name{"device/resident_rows.cuh",
                     "sum::sum_resident_rows<" + number(shape.most_threads) + number(shape.vector) +
                         number(shape.loads) + reduce_ops::name_of(l.in[0]) + ", " + reduce_ops::name_of(l.type) +
                         ", " + sum::accumulate_name(l.task.op, l.type) + ", " + reduce_ops::name_of(l.out) + ">"};
  };
  const auto bits = [](auto value, int at) { return static_cast<uint64_t>(value) << at; };
  const uint64_t key = bits(shape.most_threads, 0) | bits(shape.vector, 11) | bits(shape.loads, 16) |
                       bits(l.in[0], 20) | bits(l.type, 25) | bits(l.task.op, 30) | bits(l.out, 35);
  constexpr uint64_t kResident = ~uint64_t{0};  // no kernel of operands has so many types
  const dim3 blocks(static_cast<unsigned>(ceil_div(l.outputs, shape.rows)));
  const dim3 block(static_cast<unsigned>(shape.warps * kWarpSize), static_cast<unsigned>(shape.rows));
  void* pointers[] = {const_cast<sum::ResidentRows*>(&rows)};
  return start({key, kResident}, name, {blocks, block}, pointers);
}

cudaError_t start(const Launch& launch, const Gpu& gpu, const Start& start) {
  return Launcher(launch, gpu, start).run();
}

}  // namespace reduce_ops::transform
