// Runs the kernels of reduce::transform_sum without PyTorch, for compute-sanitizer and for tests/emulator: formulas of
// one to six operands in every way of reading them, over allocations that end with the last element. Exits with 1 on a
// result that has other bits than the tree's, a slot that was not left empty, or a kind of kernel that did not run.
//
//   transform_driver [LARGEST [EVERY]]: of up to so many elements; one shape in EVERY

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "device/tuning.cuh"
#include "jit/kernel.h"
#include "transform/transform_kernels.h"

namespace {

using namespace reduce_ops;
using namespace reduce_ops::transform;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// A matrix for each of `outer` indices, reduced along its columns, its rows, or all of it.
enum class Over { rows, columns, everything };
struct Shape {
  int64_t outer, rows, columns;
  Over over;
  int multiprocessors;

  std::array<int64_t, 3> sizes() const { return {outer, rows, columns}; }
  bool reduces(int d) const { return over == Over::everything || d == (over == Over::rows ? 1 : 2); }
  int64_t outputs() const { return over == Over::everything ? 1 : outer * rows * columns / n(); }
  int64_t n() const { return over == Over::everything ? outer * rows * columns : over == Over::rows ? rows : columns; }
};

/// How an operand lies in memory.
enum class Held { in_order, turned, every_second, same_in_a_row, same_in_a_column, one };

std::array<int64_t, 3> strides_of(const Shape& s, Held held) {
  switch (held) {
    case Held::in_order:
      return {s.rows * s.columns, s.columns, 1};
    case Held::turned:
      return {1, s.outer, s.outer * s.rows};
    case Held::every_second:
      return {2 * s.rows * s.columns, 2 * s.columns, 2};
    case Held::same_in_a_row:
      return {s.rows, 1, 0};
    case Held::same_in_a_column:
      return {s.columns, 0, 1};
    case Held::one:
      return {0, 0, 0};
  }
  return {};
}

float value(int64_t i, int operand) {
  const uint32_t hash = static_cast<uint32_t>(i * 7 + operand + 1) * 2654435761u;
  return std::ldexp(static_cast<float>(hash >> 12), -static_cast<int>(hash % 16)) * (hash & 32 ? -1.0f : 1.0f);
}

/// Elements of an operand on the device: the last one ends the allocation.
template <typename T>
class Memory {
 public:
  Memory(const Shape& s, Held held, int64_t offset, int operand) : strides_(strides_of(s, held)), offset_(offset) {
    int64_t count = offset + 1;
    for (int d = 0; d < 3; ++d) count += (s.sizes()[d] - 1) * strides_[d];
    for (int64_t i = 0; i < count; ++i) host_.push_back(element(value(i, operand)));
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(data_, host_.data(), count * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~Memory() { check(cudaFree(data_), "cudaFree"); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  static T element(float x) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<int64_t>(x));  // wraps
    return static_cast<T>(x);
  }

  const void* data() const { return data_ + offset_; }
  int64_t stride(int d) const { return strides_[d]; }
  float at(int64_t a, int64_t r, int64_t c) const {
    return static_cast<float>(host_[offset_ + a * strides_[0] + r * strides_[1] + c * strides_[2]]);
  }

 private:
  std::array<int64_t, 3> strides_;
  int64_t offset_;
  std::vector<T> host_;
  T* data_ = nullptr;
};

template <typename T>
T tree(std::vector<T> x) {
  while (x.size() > 1) {
    std::vector<T> above;
    for (size_t i = 0; i + 1 < x.size(); i += 2) above.push_back(x[i] + x[i + 1]);
    if (x.size() % 2 == 1) above.push_back(x.back());
    x = above;
  }
  return x[0];
}

void* slots;
std::set<std::string> seen;

/// Launches and compares with expected[output]; returns the number of those that differ. means: of resident rows.
template <typename Out>
int compare(const Shape& s, Launch& l, const std::vector<Out>& expected, void* means = nullptr) {
  void* result = nullptr;
  check(cudaMalloc(&result, expected.size() * sizeof(Out)), "cudaMalloc");
  l.result = result;
  l.slots = [] { return slots; };
  const Gpu gpu = gpu_of(s.multiprocessors);
  static auto* const table = new jit::Table(/*waits=*/true);
  const Start launch = [](const jit::Key& key, const std::function<jit::Name()>& name, const jit::Geometry& geometry,
                          void** arguments) {
    seen.insert(name().expression.substr(0, name().expression.find('<')));
    return jit::launch(table->get(key, name), geometry, {sum::kCounterBytes}, nullptr, arguments);
  };
  const cudaError_t status = means != nullptr ? start_resident_rows(l, means, launch) : start(l, gpu, launch);
  check(status, "launch");
  std::vector<Out> actual(expected.size());
  check(cudaMemcpy(actual.data(), result, actual.size() * sizeof(Out), cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(result), "cudaFree");
  std::vector<char> used(sum::kSlotBytes);
  check(cudaMemcpy(used.data(), slots, used.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  int wrong = std::any_of(used.begin(), used.end(), [](char c) { return c != 0; }) ? 1 : 0;
  for (size_t i = 0; i < actual.size(); ++i) wrong += std::memcmp(&actual[i], &expected[i], sizeof(Out)) != 0;
  if (wrong > 0) {
    std::fprintf(stderr, "%d wrong of (%ld, %ld, %ld) over %d: %s\n", wrong, static_cast<long>(s.outer),
                 static_cast<long>(s.rows), static_cast<long>(s.columns), static_cast<int>(s.over),
                 l.task.formula.text.c_str());
  }
  return wrong;
}

struct LayoutOf {
  Layout layout{};

  template <typename... M>
  explicit LayoutOf(const Shape& s, const M&... memory) {
    const auto strides =
        std::to_array({std::array<int64_t, 3>{memory.stride(0), memory.stride(1), memory.stride(2)}...});
    for (const bool reduced : {false, true}) {
      StridesOfEach& out = reduced ? layout.reduced : layout.kept;
      sum::JointMerger merger(out.data(), sizeof...(memory));
      for (int d = 2; d >= 0; --d) {
        if (s.reduces(d) == reduced) merger.add(s.sizes()[d], [&](int k) { return strides[k][d]; });
      }
      merger.finish();
    }
  }
};

struct Argument {
  const void* data;
  Type type;
};

/// All in float32.
Launch launch_of(const Task& task, const Shape& s, const LayoutOf& layout, const std::vector<Argument>& arguments) {
  Launch l{task,
           static_cast<int>(arguments.size()),
           layout.layout,
           {},
           {},
           Type::float32,
           Type::float32,
           s.outputs(),
           s.n(),
           nullptr,
           {}};
  for (size_t k = 0; k < arguments.size(); ++k) {
    l.data[k] = arguments[k].data;
    l.in[k] = arguments[k].type;
  }
  return l;
}

/// Of differences from a mean, with as many degrees of freedom.
float variance_of(std::vector<float> differences) {
  const auto n = static_cast<float>(differences.size());
  const float total = tree(differences);
  for (float& d : differences) d *= d;
  return std::max(0.0f, tree(differences) - total * total / n) / n;
}

/// For each output, f of each of its elements.
template <typename F>
auto leaves_of(const Shape& s, const F& f) {
  using T = decltype(f(0, 0, 0));
  std::vector<std::vector<T>> leaves(s.outputs());
  for (int64_t a = 0; a < s.outer; ++a) {
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < s.columns; ++c) {
        const int64_t output = s.over == Over::everything ? 0
                               : s.over == Over::rows     ? a * s.columns + c
                                                          : a * s.rows + r;
        leaves[output].push_back(f(a, r, c));
      }
    }
  }
  return leaves;
}

/// x * y + 0.5 of T1 and T2.
template <typename T1, typename T2>
int products(Type one, Type other, const Shape& s, Held held, Held held_other, int64_t offset, int64_t offset_other) {
  const Memory<T1> x(s, held, offset, 0);
  const Memory<T2> y(s, held_other, offset_other, 1);
  const LayoutOf layout(s, x, y);
  const auto formula = formula_of("x0 x1 mul 0.5 add");
  const Task task{*formula};
  Launch l = launch_of(task, s, layout, {{x.data(), one}, {y.data(), other}});
  std::vector<float> expected;
  for (const auto& leaves : leaves_of(s, [&](auto... i) { return x.at(i...) * y.at(i...) + 0.5f; })) {
    expected.push_back(tree(leaves));
  }
  return compare(s, l, expected);
}

/// The variance of x from means y.
int variances(const Shape& s, Held held, int64_t offset) {
  const Memory<float> x(s, held, offset, 0);
  const Memory<float> y(s,
                        s.over == Over::columns ? Held::same_in_a_row
                        : s.over == Over::rows  ? Held::same_in_a_column
                                                : Held::one,
                        0, 1);
  const LayoutOf layout(s, x, y);
  const auto formula = formula_of("x0 x1 sub square x0 x1 sub pair");
  const Task task{*formula, sum::Operator::deviation, static_cast<double>(s.n())};
  Launch l = launch_of(task, s, layout, {{x.data(), Type::float32}, {y.data(), Type::float32}});
  std::vector<float> expected;
  for (const auto& differences : leaves_of(s, [&](auto... i) { return x.at(i...) - y.at(i...); })) {
    expected.push_back(std::sqrt(variance_of(differences)));
  }
  return compare(s, l, expected);
}

/// The same from their own means, of rows that stay in registers; those must be stored, too.
int resident(const Shape& s, Held held, int64_t offset) {
  const Memory<float> x(s, held, offset, 0);
  const LayoutOf layout(s, x);
  const auto formula = formula_of("x0 x1 sub square x0 x1 sub pair");
  const Task task{*formula, sum::Operator::variance, static_cast<double>(s.n())};
  Launch l = launch_of(task, s, layout, {{x.data(), Type::float32}});
  if (!has_resident_rows(l)) return 0;
  std::vector<float> expected, means;
  for (std::vector<float> leaves : leaves_of(s, [&](auto... i) { return x.at(i...); })) {
    means.push_back(tree(leaves) / static_cast<float>(s.n()));
    for (float& leaf : leaves) leaf -= means.back();
    expected.push_back(variance_of(leaves));
  }
  void* stored = nullptr;
  check(cudaMalloc(&stored, means.size() * sizeof(float)), "cudaMalloc");
  const int wrong = compare(s, l, expected, stored);
  std::vector<float> actual(means.size());
  check(cudaMemcpy(actual.data(), stored, actual.size() * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(stored), "cudaFree");
  return wrong + (std::memcmp(actual.data(), means.data(), means.size() * sizeof(float)) != 0);
}

/// The sum of six operands.
int six(const Shape& s, Held held) {
  const Memory<float> a(s, held, 0, 0), b(s, Held::in_order, 1, 1), c(s, Held::same_in_a_row, 0, 2),
      d(s, Held::same_in_a_column, 0, 3), e(s, Held::one, 0, 4);
  const Memory<int8_t> f(s, held, 0, 5);
  const LayoutOf layout(s, a, b, c, d, e, f);
  const auto formula = formula_of("x0 x1 add x2 add x3 add x4 add x5 add");
  const Task task{*formula};
  constexpr Type kFloat = Type::float32;
  Launch l = launch_of(task, s, layout,
                       {{a.data(), kFloat},
                        {b.data(), kFloat},
                        {c.data(), kFloat},
                        {d.data(), kFloat},
                        {e.data(), kFloat},
                        {f.data(), Type::int8}});
  std::vector<float> expected;
  for (const auto& leaves : leaves_of(
           s, [&](auto... i) { return a.at(i...) + b.at(i...) + c.at(i...) + d.at(i...) + e.at(i...) + f.at(i...); })) {
    expected.push_back(tree(leaves));
  }
  return compare(s, l, expected);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t largest = argc > 1 ? std::atoll(argv[1]) : 600000;
  const size_t every = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1;
  check(cudaMalloc(&slots, sum::kSlotBytes), "cudaMalloc");
  check(cudaMemset(slots, 0, sum::kSlotBytes), "cudaMemset");
  std::vector<Shape> shapes;
  for (const Over over : {Over::columns, Over::rows, Over::everything}) {
    for (const auto [outer, rows, columns] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                                 {1, 3, 33},
                                                                                 {1, 1, 1023},
                                                                                 {1, 1, 4097},
                                                                                 {3, 40, 16},
                                                                                 {40, 3, 100},
                                                                                 {2, 5, 1024},
                                                                                 {700, 3, 5},
                                                                                 {2, 1500, 8},
                                                                                 {1, 5000, 3},
                                                                                 {1, 3, 5000},
                                                                                 {5, 31, 32},
                                                                                 {1, 300, 64},
                                                                                 {1, 1, 70000},
                                                                                 {1, 3, 70000},
                                                                                 {1, 4, 600000},
                                                                                 {2, 70000, 2},
                                                                                 {4000, 1, 64},
                                                                                 {2100, 1, 2}}) {
      for (const int multiprocessors : {1, 132}) shapes.push_back({outer, rows, columns, over, multiprocessors});
    }
  }
  int runs = 0, wrong = 0;
  const auto count = [&](int failed) {
    ++runs;
    wrong += failed > 0;
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape& s = shapes[i];
    const bool takes_turn = i % every == every / 2 || s.outputs() > 2047;  // so many short rows have a kernel
    if (s.outer * s.rows * s.columns > largest || !takes_turn) continue;
    count(products<float, float>(Type::float32, Type::float32, s, Held::in_order, Held::in_order, 0, 0));
    count(products<float, float>(Type::float32, Type::float32, s, Held::in_order, Held::in_order, 2, 1));
    count(products<float, int8_t>(Type::float32, Type::int8, s, Held::in_order, Held::turned, 0, 0));
    count(products<int8_t, float>(Type::int8, Type::float32, s, Held::every_second, Held::in_order, 3, 0));
    count(products<float, int16_t>(Type::float32, Type::int16, s, Held::turned, Held::turned, 0, 0));
    count(products<int16_t, int16_t>(Type::int16, Type::int16, s, Held::in_order, Held::in_order, 0, 0));
    for (const Held held : {Held::same_in_a_row, Held::same_in_a_column, Held::one}) {
      count(products<float, float>(Type::float32, Type::float32, s, Held::in_order, held, 0, 0));
    }
    for (const Held held : {Held::in_order, Held::turned, Held::every_second}) {
      count(variances(s, held, 0));
      count(resident(s, held, held == Held::in_order ? 0 : 3));
      count(six(s, held));
    }
  }
  check(cudaFree(slots), "cudaFree");
  int unseen = 0;
  for (const char* kernel : {"sum_warp", "sum_block", "sum_small_grid", "sum_grid", "sum_zipped_short_rows",
                             "sum_zipped_columns", "sum_resident_rows"}) {
    const bool is_large = std::strstr(kernel, "grid") != nullptr;
    if (seen.count(std::string("sum::") + kernel) > 0 || (is_large && largest < 100000)) continue;
    ++unseen;
    std::fprintf(stderr, "none of %s\n", kernel);
  }
  std::printf("%d results, %d wrong\n", runs, wrong);
  return wrong == 0 && unseen == 0 ? 0 : 1;
}
