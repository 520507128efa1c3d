// Runs the kernels of reduce::sum without PyTorch, for compute-sanitizer and for tests/emulator: every family and
// layout with some types and operators, over allocations that end with the last element. Exits with 1 on a result that
// has other bits than the tree's, a slot that was not left empty, or a family that a type did not run.
//
//   sum_driver [LARGEST [sums|others [EVERY]]]: of up to so many elements, only of the operator sum, or only of the
//   others; of one shape in EVERY by all plans that are legal, not only by the one that is chosen

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sum/sum_kernels.h"

namespace {

using namespace reduce_ops;
using namespace reduce_ops::sum;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

enum class Over { rows, columns, outer_and_columns, everything };
enum class Held { in_order, turned, rows_side_by_side, rows_around };

/// A matrix for each of `outer` indices, summed over some of its dimensions: element (a, r, c) lies at offset + (a *
/// (rows + gap) + r) * (columns + gap) * step + c * step; held turned, at offset + (c * (rows + gap) + r) * (outer +
/// gap) * step + a * step; with rows side by side, at offset + (c * outer + a) * (rows + gap) * step + r * step; with
/// rows around, at offset + (r * outer + a) * (columns + gap) * step + c * step.
struct Shape {
  int64_t outer, rows, columns;
  Over over;
  int64_t offset, step, gap;
  int multiprocessors = 132;  // that the plan is for
  Held held = Held::in_order;
  bool needed = false;  // also where the largest are left out, for no smaller one has its kernels

  bool reduces(int64_t d) const {
    if (over == Over::everything) return true;
    return over == Over::rows ? d == 1 : d == 2 || (d == 0 && over == Over::outer_and_columns);
  }
};

/// Values of many sizes, so that the order shows. Those of 16 bits are all of about one size, and of both signs: each
/// one shows in a sum of which 11 bits are left, of which an order would not.
template <typename T>
T value(int64_t i) {
  const uint32_t hash = static_cast<uint32_t>(i + 1) * 2654435761u;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(hash >> 8);
  } else if constexpr (std::is_same_v<T, __half>) {
    const float magnitude = 1 + std::ldexp(static_cast<float>(hash >> 22), -10);
    return __float2half_rn(hash & 16 ? -magnitude : magnitude);
  } else if constexpr (std::is_same_v<T, __nv_fp8_e4m3> || std::is_same_v<T, __nv_fp8_e5m2>) {
    T x;
    x.__x = static_cast<uint8_t>(hash >> 24);  // any byte
    return std::isfinite(static_cast<float>(x)) ? x : T(1.0f);
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return {value<float>(2 * i), value<float>(2 * i + 1)};
  } else {
    return static_cast<T>(std::ldexp(hash >> 8, -static_cast<int>(hash % 32)));
  }
}

template <typename Acc, typename In>
Acc widened(In x) {
  if constexpr (std::is_same_v<In, __half>) {
    return __half2float(x);
  } else {
    return static_cast<Acc>(x);
  }
}

template <typename Out, typename Acc>
Out rounded(Acc x) {
  if constexpr (std::is_same_v<Out, __half>) {
    return __float2half_rn(x);
  } else {
    return x;
  }
}

// Operators as device/operators.cuh defines them, and elements that show what is wrong with one.

template <typename Acc>
struct SumOf {
  [[maybe_unused]] static constexpr Operator kOperator = Operator::sum;
  template <typename In>
  static In element(int64_t i) {
    return value<In>(i);
  }
  static Acc leaf(Acc x) { return x; }
  static Acc combine(Acc left, Acc right) { return left + right; }
  static Acc finish(Acc x, int64_t) { return x; }
};

template <typename Acc>
struct MeanOf : SumOf<Acc> {
  [[maybe_unused]] static constexpr Operator kOperator = Operator::mean;
  static Acc finish(Acc x, int64_t n) {
    if constexpr (std::is_floating_point_v<Acc>) {
      return x / static_cast<Acc>(n);
    } else {  // not by an operator of std::complex, which would divide by a complex number
      const auto parts = static_cast<typename Acc::value_type>(n);
      return {x.real() / parts, x.imag() / parts};
    }
  }
};

template <typename Acc>
struct SumOfSquaresOf : SumOf<Acc> {
  [[maybe_unused]] static constexpr Operator kOperator = Operator::sum_of_squares;
  static Acc leaf(Acc x) { return x * x; }
};

template <typename Acc>
struct NormOf : SumOfSquaresOf<Acc> {
  [[maybe_unused]] static constexpr Operator kOperator = Operator::norm;
  static Acc finish(Acc x, int64_t) { return std::sqrt(x); }
};

/// All elements are less than 0, so that a missing one taken as 0 would show as the largest.
template <typename Acc>
struct MaxOf : SumOf<Acc> {
  [[maybe_unused]] static constexpr Operator kOperator = Operator::max;
  template <typename In>
  static In element(int64_t i) {
    if constexpr (std::is_integral_v<In>) {
      const In x = value<In>(i);
      return x < 0 ? x : ~x;
    } else {
      return -value<In>(i);
    }
  }
  static Acc combine(Acc left, Acc right) { return left < right ? right : left; }
};

/// All elements are more than 0.
template <typename Acc>
struct MinOf : SumOf<Acc> {
  [[maybe_unused]] static constexpr Operator kOperator = Operator::min;
  static Acc combine(Acc left, Acc right) { return right < left ? right : left; }
};

/// All elements are -0.0, but for a few that are 0.0.
struct MaxOfZeros : MaxOf<float> {
  template <typename In>
  static In element(int64_t i) {
    return static_cast<In>(i % 37 == 5 ? 0.0f : -0.0f);
  }
  static float combine(float left, float right) { return std::signbit(left) ? right : left; }
};

/// As docs/order.md defines it.
template <typename Op, typename T>
void fold(std::vector<T>& x) {
  for (; x.size() > 1; x.resize((x.size() + 1) / 2)) {
    for (size_t i = 0; i < x.size(); i += 2) x[i / 2] = i + 1 < x.size() ? Op::combine(x[i], x[i + 1]) : x[i];
  }
}

/// Of elements at such strides, summed where is_reduced(dimension).
template <typename IsReduced>
Problem describe(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, const IsReduced& is_reduced,
                 size_t element_size, size_t accumulate_size, int misalignment, bool ordered) {
  Problem p{};
  p.n = 1;
  p.outputs = 1;
  for (size_t d = 0; d < sizes.size(); ++d) (is_reduced(d) ? p.n : p.outputs) *= sizes[d];
  collapse(sizes, strides, is_reduced, p.reduced);
  p.ordered = ordered;
  if (!p.ordered) p.reduced = in_order_of_memory(p.reduced);
  collapse(sizes, strides, [&](int64_t d) { return !is_reduced(d); }, p.kept);
  order_by_stride(p.kept, p.columns, p.places);
  p.rows = in_order_of_memory(p.kept);
  p.element_size = static_cast<int>(element_size);
  p.accumulate_size = static_cast<int>(accumulate_size);
  p.misalignment = misalignment;
  p.result_aligned = true;
  return p;
}

/// What has run: which operator, from which type to which, and whether with Plan::anywhere.
std::set<std::tuple<Operator, Type, Type, Family, bool>> seen;

/// Whether the launch, and one of the nodes that it may leave, have these results.
template <typename Out>
bool has_results(Launch l, const Gpu& gpu, const std::vector<Out>& wanted) {
  const int64_t outputs = l.problem.outputs;
  const auto size = static_cast<size_t>(l.problem.accumulate_size);
  const int64_t nodes = l.plan.window == 0 ? 0 : nodes_of(l.problem, l.plan.window);  // of an output
  const size_t result_bytes = wanted.size() * sizeof(Out);
  void* result_memory = nullptr;
  void* node_memory = nullptr;
  check(cudaMalloc(&result_memory, result_bytes), "cudaMalloc");
  check(cudaMalloc(&node_memory, outputs * nodes * size), "cudaMalloc");
  l.result = nodes > 0 ? node_memory : result_memory;
  const Operator op = l.op;
  if (nodes > 0) l.op = of_parts(op);
  check(launch(l, nullptr), "launch");
  if (nodes > 0) {
    l.problem =
        describe({outputs, nodes}, {nodes, 1}, [](int64_t d) { return d == 1; }, size, size, 0, l.problem.ordered);
    l.plan = make_plan(l.problem, gpu).value();
    l.in = l.accumulate;
    l.op = of_nodes(op);
    l.data = node_memory;
    l.result = result_memory;
    check(launch(l, nullptr), "launch of nodes");
  }
  std::vector<Out> results(wanted.size());
  check(cudaMemcpy(results.data(), result_memory, result_bytes, cudaMemcpyDeviceToHost), "kernel");
  check(cudaFree(result_memory), "cudaFree");
  check(cudaFree(node_memory), "cudaFree");
  return std::memcmp(results.data(), wanted.data(), result_bytes) == 0;
}

/// Whether all legal plans run.
bool by_all_plans = false;

template <typename In, typename Acc, typename Out = Acc, typename Op = SumOf<Acc>>
int run(Type in, Type accumulate, Type out, const Shape& s, void* slots) {
  const std::vector<int64_t> sizes = {s.outer, s.rows, s.columns};
  const auto strides_of = [&s, &sizes](int outermost, int middle, int innermost) {
    std::vector<int64_t> strides(3);
    strides[innermost] = s.step;
    strides[middle] = (sizes[innermost] + s.gap) * s.step;
    strides[outermost] = strides[middle] * (sizes[middle] + (middle == 1 ? s.gap : 0));
    return strides;
  };
  const auto strides = s.held == Held::in_order            ? strides_of(0, 1, 2)
                       : s.held == Held::turned            ? strides_of(2, 1, 0)
                       : s.held == Held::rows_side_by_side ? strides_of(2, 0, 1)
                                                           : strides_of(1, 0, 2);
  int64_t length = s.offset + 1;
  for (int d = 0; d < 3; ++d) length += (sizes[d] - 1) * strides[d];

  Launch l{};
  const bool wraps = std::is_integral_v<Acc> && Op::kOperator == Operator::sum;
  l.problem = describe(
      sizes, strides, [&s](int64_t d) { return s.reduces(d); }, sizeof(In), sizeof(Acc),
      static_cast<int>(s.offset * sizeof(In) % 16), !wraps);
  const Problem p = l.problem;
  std::vector<In> host(length);
  for (int64_t i = 0; i < length; ++i) host[i] = Op::template element<In>(i);
  std::vector<std::vector<Acc>> leaves(p.outputs);
  for (int64_t a = 0; a < sizes[0]; ++a) {
    for (int64_t r = 0; r < sizes[1]; ++r) {
      for (int64_t c = 0; c < sizes[2]; ++c) {
        int64_t output = 0;
        if (!s.reduces(0)) output = a;
        if (!s.reduces(1)) output = output * sizes[1] + r;
        if (!s.reduces(2)) output = output * sizes[2] + c;
        const In element = host[s.offset + a * strides[0] + r * strides[1] + c * strides[2]];
        leaves[output].push_back(Op::leaf(widened<Acc>(element)));
      }
    }
  }
  std::vector<Out> wanted(p.outputs);
  for (size_t i = 0; i < wanted.size(); ++i) {
    fold<Op>(leaves[i]);
    wanted[i] = rounded<Out>(Op::finish(leaves[i][0], p.n));
  }
  In* data = nullptr;
  check(cudaMalloc(&data, length * sizeof(In)), "cudaMalloc");
  check(cudaMemcpy(data, host.data(), length * sizeof(In), cudaMemcpyHostToDevice), "cudaMemcpy");
  l.in = in;
  l.accumulate = accumulate;
  l.out = out;
  l.op = Op::kOperator;
  l.count = p.n;
  l.data = data + s.offset;
  l.slots = slots;
  const Gpu gpu = gpu_of(s.multiprocessors);
  std::vector<Plan> plans = candidates(p, gpu);
  seen.emplace(Op::kOperator, in, out, plans.at(0).family, plans[0].anywhere);
  if (!by_all_plans) plans.resize(1);
  int failed = 0;
  for (const Plan& plan : plans) {
    l.plan = plan;
    const bool right = has_results(l, gpu, wanted);
    static std::vector<char> left(kSlotBytes);
    static const std::vector<char> nothing(kSlotBytes);
    check(cudaMemcpy(left.data(), slots, kSlotBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    const bool empty = left == nothing;
    if (right && empty) continue;
    ++failed;
    std::fprintf(stderr,
                 "operator %d type %d family %d (%lld, %lld, %lld) over %d, offset %lld step %lld gap %lld: wrong %s\n",
                 static_cast<int>(Op::kOperator), static_cast<int>(in), static_cast<int>(plan.family),
                 static_cast<long long>(s.outer), static_cast<long long>(s.rows), static_cast<long long>(s.columns),
                 static_cast<int>(s.over), static_cast<long long>(s.offset), static_cast<long long>(s.step),
                 static_cast<long long>(s.gap), right ? "slots" : "results");
  }
  check(cudaFree(data), "cudaFree");
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t largest = argc > 1 ? std::atoll(argv[1]) : 3000001;
  const bool sums = argc < 3 || std::strcmp(argv[2], "sums") == 0;
  const bool others = argc < 3 || std::strcmp(argv[2], "others") == 0;
  const size_t every = argc > 3 ? std::atoll(argv[3]) : 0;
  void* slots = nullptr;
  check(cudaMalloc(&slots, kSlotBytes), "cudaMalloc");
  check(cudaMemset(slots, 0, kSlotBytes), "cudaMemset");

  std::vector<Shape> shapes;
  for (const int64_t n :
       {1, 3, 31, 127, 129, 511, 513, 1024, 1025, 4095, 4097, 16385, 32769, 70001, 1000003, 3000001}) {
    for (const int64_t offset : {0, 1, 2, 3, 7}) {
      shapes.push_back({1, 1, n, Over::columns, offset, 1, 0});  // one run
      shapes.push_back({1, 1, n, Over::columns, offset, 2, 0});
      shapes.push_back({3, 1, n, Over::columns, offset, 1, 0});
      shapes.push_back({300, 1, n, Over::columns, offset, 1, 1});
    }
  }
  for (const int64_t rows : {1, 2, 4, 7, 8, 9, 17, 33, 1025, 40001}) {
    for (const int64_t columns : {2, 3, 5, 6, 7, 8, 9, 12, 16, 32, 33, 40, 64, 65, 257, 1000}) {
      for (const Over over : {Over::rows, Over::columns, Over::outer_and_columns}) {
        shapes.push_back({1, rows, columns, over, 0, 1, 0});
        shapes.push_back({3, rows, columns, over, 0, 1, 0});
        shapes.push_back({1, rows, columns, over, 3, 1, 0});
        shapes.push_back({3, rows, columns, over, 0, 1, 2});
        shapes.push_back({3, rows, columns, over, 1, 2, 1});
      }
    }
  }
  const size_t grid = shapes.size();
  shapes.push_back({1, 1, 3000001, Over::columns, 5, 1, 0});  // of 2 bytes an element, two words off
  shapes.push_back({1, 8, 65552, Over::rows, 0, 1, 0});       // few rows, but not of little data
  for (const int64_t offset : {0, 1}) {                       // waves of a GPU so small, whose first blocks prefetch
    for (const auto [outer, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, 2000001},
                                                                                {3, 200001},
                                                                                {300, 3001},
                                                                                {300, 12001},
                                                                                {3000, 128},
                                                                                {40001, 32},
                                                                                {100001, 3},
                                                                                {100001, 8}}) {
      shapes.push_back({outer, 1, columns, Over::columns, offset, 1, 0, /*multiprocessors=*/1});
    }
    for (const auto [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{520, 128}, {600, 256}, {40001, 8}, {20001, 32}}) {
      shapes.push_back({1, rows, columns, Over::rows, offset, 1, 0, /*multiprocessors=*/1});
    }
  }
  for (const auto [outer, rows, columns] : std::vector<std::array<int, 3>>{{3, 400, 4}, {2, 300, 8}, {4, 240, 5}}) {
    shapes.push_back({outer, rows, columns, Over::rows, 0, 1, 0, /*multiprocessors=*/1});  // too many for little rows
  }
  for (const int64_t offset : {0, 1, 3}) {  // few chunks in some blocks an output, a warp or a whole block collects
    for (const auto [outer, columns] : std::vector<std::pair<int64_t, int64_t>>{{1, 70001}, {3, 70001}, {1, 140001}}) {
      shapes.push_back({outer, 1, columns, Over::columns, offset, 1, 0, 132, Held::in_order, /*needed=*/true});
    }
    shapes.push_back(
        {2, 1, 270001, Over::columns, offset, 1, 0, /*multiprocessors=*/1, Held::in_order, true});  // tiles
  }
  for (const auto [outer, rows, columns, multiprocessors] :  // waves of columns
       std::vector<std::array<int, 4>>{{1, 1024, 64, 1},
                                       {1, 2100, 33, 1},
                                       {1, 2040, 264, 2},
                                       {1, 8000, 64, 2},
                                       {1, 16001, 33, 2},
                                       {9, 1000, 60, 8},
                                       {1, 2000, 128, 8},
                                       {5, 300, 200, 2}}) {
    shapes.push_back({outer, rows, columns, Over::rows, 0, 1, 0, multiprocessors});
  }
  for (const int64_t offset : {0, 3}) {  // many single columns, for such GPUs
    shapes.push_back({3, 150, 257, Over::rows, offset, 1, 0, /*multiprocessors=*/1});
    shapes.push_back({5, 1300, 255, Over::rows, offset, 1, 0, /*multiprocessors=*/2});
    shapes.push_back({1, 72, 1001, Over::rows, offset, 1, 0, /*multiprocessors=*/1});
  }
  for (const int64_t offset : {0, 1}) {  // neighbours that begin anywhere
    shapes.push_back({1701, 40, 2, Over::rows, offset, 1, 0, /*multiprocessors=*/1, Held::turned, /*needed=*/true});
    shapes.push_back({3, 501, 16, Over::outer_and_columns, offset, 1, offset, 1, Held::rows_side_by_side, true});
    for (const auto [outer, rows, columns] : std::vector<std::array<int, 3>>{
             {1, 40, 10001}, {1, 300, 1003}, {1, 4000, 258}, {1, 9001, 129}, {30, 50, 201}, {2, 1500, 65}}) {
      shapes.push_back({outer, rows, columns, Over::rows, offset, 1, 0, /*multiprocessors=*/1});
    }
    for (const auto [outer, rows, columns] :
         std::vector<std::array<int, 3>>{{3, 1001, 40}, {9, 301, 31}, {2, 2503, 17}, {30, 101, 200}}) {
      shapes.push_back({outer, rows, columns, Over::outer_and_columns, offset, 1, offset, 1, Held::rows_side_by_side});
    }
  }
  for (const int64_t outer : {3, 21, 41, 84}) {  // planes of channels that are many for such a GPU
    for (const int64_t plane : {25, 49, 64}) {
      shapes.push_back({outer, 16, plane, Over::outer_and_columns, 0, 1, 0, /*multiprocessors=*/8});
    }
  }
  for (const auto [lines, length] : std::vector<std::pair<int64_t, int64_t>>{
           {600, 3}, {3, 600}, {9, 129}, {150, 15}, {33, 300}, {600, 1100}, {33, 701}, {9, 2600}, {3, 8000}}) {
    for (const int multiprocessors : {1, 132}) {  // across memory; what is little for so many is summed as rows
      shapes.push_back({lines, 3, length, Over::outer_and_columns, 1, 1, 0, multiprocessors, Held::turned});
      shapes.push_back({lines, 2, length, Over::outer_and_columns, 0, 2, 1, multiprocessors, Held::turned});
    }
  }
  for (const auto [lines, length] :
       std::vector<std::pair<int64_t, int64_t>>{{100, 9}, {300, 20}, {33, 31}, {70, 100}, {5, 3000}}) {
    shapes.push_back({lines, 3, length, Over::outer_and_columns, 0, 1, 0, 132, Held::rows_side_by_side});
    shapes.push_back({lines, 4, length, Over::outer_and_columns, 1, 1, 0, 132, Held::rows_side_by_side});
    shapes.push_back({lines, 40, length, Over::outer_and_columns, 0, 1, 0, 132, Held::rows_side_by_side});
  }
  for (const auto [rows, length] : std::vector<std::pair<int64_t, int64_t>>{{33, 7}, {11, 5}, {9, 2}}) {
    for (const int64_t lines : {40, 300, 3000}) {  // that turn often
      for (const int multiprocessors : {1, 132}) {
        shapes.push_back({lines, rows, length, Over::everything, 0, 1, 0, multiprocessors, Held::turned});
        shapes.push_back({lines, rows, length, Over::everything, 1, 2, 1, multiprocessors, Held::turned});
      }
    }
  }
  for (const auto [rows, length] : std::vector<std::pair<int64_t, int64_t>>{{119, 3}, {33, 5}, {32, 3}, {31, 3}}) {
    shapes.push_back({70, rows, length, Over::everything, 0, 1, 1, /*multiprocessors=*/8, Held::rows_side_by_side});
  }
  for (const int64_t length : {36, 40, 42}) {   // whose parts of 4, 8 and 2 elements are nodes: tiles of words
    for (const int multiprocessors : {1, 9}) {  // of all of an output, and of parts of it
      shapes.push_back({5, 24, length, Over::everything, 0, 1, 8, multiprocessors, Held::rows_side_by_side});
    }
    shapes.push_back({72, 5, 7 * length, Over::outer_and_columns, 0, 1, 0, /*multiprocessors=*/1, Held::turned});
  }
  for (const int64_t length : {65, 67, 69, 71}) {  // odd ones, which are walked along, staged or boxed
    shapes.push_back({5, 24, length, Over::everything, 0, 1, 8, /*multiprocessors=*/1, Held::rows_side_by_side, true});
    shapes.push_back({5, 240, length, Over::everything, 0, 1, 8, /*multiprocessors=*/9, Held::rows_side_by_side, true});
    shapes.push_back({72, 5, 7 * length, Over::outer_and_columns, 0, 1, 0, /*multiprocessors=*/1, Held::turned});
  }
  for (const auto [lines, rows, length] : std::vector<std::array<int, 3>>{
           {45, 9, 3}, {131, 6, 5}, {17, 21, 10}, {700, 7, 3}, {41, 4, 6}, {260, 3, 17}, {5, 33, 2}, {1500, 3, 4}}) {
    constexpr int kOne = 1;  // multiprocessor, or it is too little data for boxes
    shapes.push_back({lines, rows, length, Over::everything, 1, 1, 0, kOne, Held::turned});
    shapes.push_back({lines, rows, length, Over::everything, 0, 1, 3, kOne, Held::rows_around});
    shapes.push_back({lines, rows, length, Over::everything, 3, 2, 0, kOne, Held::rows_side_by_side});
    shapes.push_back({lines, rows, length, Over::outer_and_columns, 0, 1, 0, kOne, Held::rows_side_by_side});
    shapes.push_back({lines, rows, length, Over::outer_and_columns, 3, 1, 1, kOne, Held::turned});
  }
  for (const int64_t offset : {0, 3}) {  // boxes where outputs share sectors, float32 and float64
    shapes.push_back({200, 100, 2, Over::outer_and_columns, offset, 1, 1, /*multiprocessors=*/1});
    shapes.push_back({500, 60, 3, Over::outer_and_columns, offset, 1, 0, /*multiprocessors=*/1});
    shapes.push_back({22, 500, 20, Over::outer_and_columns, offset, 1, 1, /*multiprocessors=*/1, Held::turned});
  }
  for (const int64_t offset : {0, 3}) {  // boxes of two bytes an element
    constexpr int kOne = 1;
    shapes.push_back({135, 9, 6, Over::outer_and_columns, offset, 1, 0, kOne, Held::rows_side_by_side});
    shapes.push_back({167, 5, 9, Over::outer_and_columns, offset, 1, 1, kOne, Held::rows_side_by_side});
    shapes.push_back({132, 5, 10, Over::everything, offset, 1, 1, kOne, Held::rows_side_by_side, /*needed=*/true});
    shapes.push_back({24, 114, 3, Over::everything, offset, 2, 0, kOne, Held::rows_around});
    shapes.push_back({8, 441, 2, Over::everything, offset, 2, 1, kOne, Held::rows_around});
  }
  for (const auto [outer, rows, length] : std::vector<std::array<int, 3>>{
           {40, 3, 37}, {7, 5, 131}, {300, 4, 9}, {5, 3, 1025}, {20, 3, 131}, {90, 11, 257}, {300, 30, 17}}) {
    for (const int64_t offset : {0, 1}) {  // split runs
      shapes.push_back({outer, rows, length, Over::everything, offset, 1, 3, 132, Held::rows_around});
      shapes.push_back({outer, rows, length, Over::everything, offset, 1, 0, 8, Held::rows_around});
      shapes.push_back({outer, rows, length, Over::outer_and_columns, offset, 1, 0});
    }
  }
  for (const auto [outer, columns] : std::vector<std::pair<int64_t, int64_t>>{{20, 8}, {60, 8}, {20, 16}}) {
    shapes.push_back({outer, 300, columns, Over::outer_and_columns, 0, 1, 0});  // runs, a warp an output
  }
  for (const auto [outer, rows, columns] :
       std::vector<std::array<int, 3>>{{2, 3001, 3}, {4, 256, 2}, {2, 40004, 4}}) {  // few rows in two dimensions
    shapes.push_back({outer, rows, columns, Over::outer_and_columns, 0, 1, 0, 132, Held::rows_side_by_side});
    shapes.push_back({outer, rows, columns, Over::outer_and_columns, 1, 1, 1, 132, Held::rows_side_by_side});
    shapes.push_back({outer, rows, columns, Over::outer_and_columns, 0, 2, 0, 132, Held::rows_side_by_side});
  }
  shapes.push_back({3000, 5, 20, Over::outer_and_columns, 0, 1, 0, /*multiprocessors=*/1, Held::rows_side_by_side});
  for (const int64_t length : {3, 9, 32, 33, 100, 128, 257, 1000, 1300, 5000}) {  // a permuted batch of rows
    shapes.push_back({7, 15, length, Over::columns, 0, 1, 0, 132, Held::rows_around});
    shapes.push_back({40, 15, length, Over::columns, 1, 1, 2, 132, Held::rows_around});
  }
  for (const int64_t outer : {9, 15, 17, 31, 33, 48, 40001}) {  // columns that are no neighbours in the result
    for (const int64_t n : {2, 5, 9}) {
      shapes.push_back({outer, 7, n, Over::columns, 0, 1, 0, 132, Held::turned});
      shapes.push_back({outer, 6, n, Over::columns, 1, 1, 1, 132, Held::turned});
      shapes.push_back({outer, 5, n, Over::columns, 3, 2, 1, 132, Held::turned});
    }
  }
  int runs = 0;
  int wrong = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape& s = shapes[i];
    if (s.outer * s.rows * s.columns > largest && !s.needed) continue;
    by_all_plans = every > 0 && i % every == every / 2;
    const bool some = i >= grid || i % 4 == 0;  // a part of the grid has every family, in less time
    const bool few = some && i % 16 == 0;
    const auto count = [&](int failed) {
      ++runs;
      wrong += failed;
    };
    if (sums) {
      count(run<float, float>(Type::float32, Type::float32, Type::float32, s, slots));
      count(run<double, double>(Type::float64, Type::float64, Type::float64, s, slots));
      count(run<int8_t, int64_t>(Type::int8, Type::int64, Type::int64, s, slots));
      count(run<int16_t, int64_t>(Type::int16, Type::int64, Type::int64, s, slots));
    }
    if (sums && some) {
      count(run<__half, float, __half>(Type::float16, Type::float32, Type::float16, s, slots));
      count(run<__half, float>(Type::float16, Type::float32, Type::float32, s, slots));
      count(run<std::complex<float>, std::complex<float>>(Type::complex64, Type::complex64, Type::complex64, s, slots));
    }
    if (sums && few) {
      count(run<float, double>(Type::float32, Type::float64, Type::float64, s, slots));
      count(run<int32_t, float>(Type::int32, Type::float32, Type::float32, s, slots));
      count(run<__nv_fp8_e4m3, float>(Type::float8_e4m3fn, Type::float32, Type::float32, s, slots));
      count(run<__nv_fp8_e5m2, float>(Type::float8_e5m2, Type::float32, Type::float32, s, slots));
    }
    if (others && some) {
      count(run<__half, float, __half, MeanOf<float>>(Type::float16, Type::float32, Type::float16, s, slots));
      count(run<float, float, float, MaxOf<float>>(Type::float32, Type::float32, Type::float32, s, slots));
      count(run<__half, float, __half, SumOfSquaresOf<float>>(Type::float16, Type::float32, Type::float16, s, slots));
    }
    if (others && few) {
      count(run<float, float, float, MeanOf<float>>(Type::float32, Type::float32, Type::float32, s, slots));
      count(run<std::complex<float>, std::complex<float>, std::complex<float>, MeanOf<std::complex<float>>>(
          Type::complex64, Type::complex64, Type::complex64, s, slots));
      count(run<double, double, double, NormOf<double>>(Type::float64, Type::float64, Type::float64, s, slots));
      count(run<float, float, float, MinOf<float>>(Type::float32, Type::float32, Type::float32, s, slots));
      count(run<float, float, float, MaxOfZeros>(Type::float32, Type::float32, Type::float32, s, slots));
      count(run<int16_t, int64_t, int64_t, MaxOf<int64_t>>(Type::int16, Type::int64, Type::int64, s, slots));
      count(
          run<__nv_fp8_e4m3, float, float, NormOf<float>>(Type::float8_e4m3fn, Type::float32, Type::float32, s, slots));
    }
  }
  check(cudaFree(slots), "cudaFree");
  int unseen = 0;
  const auto must_have = [&unseen](Operator op, Type in, Type out, Family family, bool anywhere) {
    if (seen.count({op, in, out, family, anywhere}) > 0) return;
    ++unseen;
    std::fprintf(stderr, "operator %d type %d to %d: none of family %d%s\n", static_cast<int>(op), static_cast<int>(in),
                 static_cast<int>(out), static_cast<int>(family), anywhere ? " that begins anywhere" : "");
  };
  const auto must_have_all = [&must_have](Operator op, Type in, Type out) {
    for (int family = 0; family <= static_cast<int>(Family::boxes); ++family) {
      const auto f = static_cast<Family>(family);
      must_have(op, in, out, f, false);
      if (f == Family::columns || f == Family::few_rows) must_have(op, in, out, f, true);
    }
  };
  if (sums) {
    must_have_all(Operator::sum, Type::float16, Type::float16);
    must_have_all(Operator::sum, Type::float16, Type::float32);
    must_have_all(Operator::sum, Type::float32, Type::float32);
    must_have_all(Operator::sum, Type::float64, Type::float64);
    must_have_all(Operator::sum, Type::complex64, Type::complex64);
    for (const Type in : {Type::float8_e4m3fn, Type::float8_e5m2, Type::int32}) {
      for (const Family family : {Family::rows, Family::columns, Family::lines}) {
        must_have(Operator::sum, in, Type::float32, family, false);
      }
    }
  }
  if (others) {
    must_have_all(Operator::mean, Type::float16, Type::float16);
    must_have_all(Operator::max, Type::float32, Type::float32);
    must_have_all(Operator::sum_of_squares, Type::float16, Type::float16);
  }
  std::printf("%d results, %d wrong\n", runs, wrong);
  return wrong == 0 && unseen == 0 ? 0 : 1;
}
