// Operators other than the sum in the CPU's kernels, for vectors of VECTOR_BYTES: every path of kernels_cpu.inc, over
// allocations that begin and end with the elements. Exits with 1 on a result that has other bits than the tree's.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "isa_cpu.h"
#include "sum/tree_cpu.h"
#include "transform/formula_cpu.h"

namespace reduce_ops::sum {
namespace {

constexpr int kVectorBytes = VECTOR_BYTES;
struct HalfVectors {
  static constexpr bool kNative = false;
};
#include "sum/kernels_cpu.inc"

int runs = 0;
int wrong = 0;

/// Values of many sizes, so that the order shows; all less than 0, so that a missing one taken as 0 would show as the
/// largest.
template <typename In>
In value(int64_t i) {
  const uint32_t hash = static_cast<uint32_t>(i + 1) * 2654435761u;
  if constexpr (std::is_same_v<In, Float16>) {
    return {static_cast<uint16_t>(0x8000 | (hash >> 18 & 0x3fff) | 0x400)};
  } else if constexpr (std::is_integral_v<In>) {
    return static_cast<In>(hash >> 8 | uint64_t{1} << (8 * sizeof(In) - 1));
  } else {
    return static_cast<In>(-std::ldexp(hash >> 8, -static_cast<int>(hash % 32)));
  }
}

enum class Combine { sum, largest, smallest };

/// An operator: what an element counts as, and how these combine.
struct Operation {
  Map map;
  Combine combine;
};

template <typename Leaf>
Leaf counts_as(Map map, Leaf x) {
  switch (map) {
    case Map::none:
      return x;
    case Map::nan_to_zero:
      return std::isnan(static_cast<double>(x)) ? Leaf(0) : x;
    case Map::nonzero:
      return static_cast<Leaf>(x != 0);
    case Map::abs:
      return std::signbit(static_cast<double>(x)) ? -x : x;
    case Map::square:
      return x * x;
  }
  return x;
}

/// The tree that docs/order.md defines, of leaves that are numbers other than 0, or integers as int64_t.
template <typename Leaf>
Leaf tree(Combine combine, std::vector<Leaf> x) {
  const auto of = [combine](Leaf left, Leaf right) {
    if (combine == Combine::sum) return left + right;
    return (combine == Combine::largest) == (left < right) ? right : left;
  };
  for (; x.size() > 1; x.resize((x.size() + 1) / 2)) {
    for (size_t i = 0; i < x.size(); i += 2) x[i / 2] = i + 1 == x.size() ? x[i] : of(x[i], x[i + 1]);
  }
  return x[0];
}

/// Sizes and strides in elements, the innermost dimension first: of each of `count` sums, which lie `apart` elements
/// apart.
struct Shape {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t count = 1;
  int64_t apart = 0;
};

template <typename Leaf, typename In>
void run(Type type, Operation operation, const Shape& s, bool negate = false) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(In));
  using Value = std::conditional_t<std::is_integral_v<Leaf>, int64_t, Leaf>;
  int64_t length = 1 + (s.count - 1) * s.apart;
  int64_t n = 1;
  Elements e{};
  e.type = type;
  e.changes.negate_real = negate;
  e.changes.map = operation.map;
  e.dims = static_cast<int>(s.sizes.size());
  for (int d = 0; d < e.dims; ++d) {
    length += (s.sizes[d] - 1) * s.strides[d];
    n *= s.sizes[d];
    e.sizes[d] = s.sizes[d];
    e.strides[d] = s.strides[d] * kSize;
  }
  const std::unique_ptr<In[]> data(new In[length]);
  for (int64_t i = 0; i < length; ++i) data[i] = value<In>(i);
  e.data = reinterpret_cast<const std::byte*>(data.get());
  e.bytes = n * s.count * kSize;
  std::vector<Leaf> results(s.count);
  const Sequences sequences{s.count, s.apart * kSize};
  if (operation.combine == Combine::sum) {
    sums(e, 0, n, sequences, results.data());
  } else {
    extremes(operation.combine == Combine::largest, e, 0, n, sequences, results.data());
  }
  for (int64_t c = 0; c < s.count; ++c) {
    std::vector<Value> leaves;
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = c * s.apart;
      for (int64_t d = 0, rest = i; d < e.dims; rest /= s.sizes[d++]) at += rest % s.sizes[d] * s.strides[d];
      const Value x = convert<Value>(data[at]);
      leaves.push_back(counts_as(operation.map, negate ? -x : x));
    }
    const Value wanted = tree(operation.combine, leaves);
    ++runs;
    if (std::memcmp(&wanted, &results[c], sizeof wanted) == 0) continue;
    ++wrong;
    std::fprintf(stderr, "type %d, map %d, combine %d, %lld elements in %d dimensions, output %lld of %lld: wrong\n",
                 static_cast<int>(type), static_cast<int>(operation.map), static_cast<int>(operation.combine),
                 static_cast<long long>(n), e.dims, static_cast<long long>(c), static_cast<long long>(s.count));
  }
}

template <typename Leaf, typename In>
void run_all(Type type, Operation operation) {
  std::vector<Shape> shapes;
  for (const int64_t n : {1, 2, 3, 5, 8, 13, 31, 33, 64, 100, 255, 256, 257, 1024, 1025, 4097}) {
    shapes.push_back({{n}, {1}});
    shapes.push_back({{n}, {2}});
    shapes.push_back({{n}, {3}, 3, 1});  // columns between others
    shapes.push_back({{n}, {7}, 7, 1});  // columns side by side
    shapes.push_back({{n}, {1}, 9, n});  // rows
    shapes.push_back({{n}, {1}, 5, n + 3});
    shapes.push_back({{n, 40}, {40, 1}});  // across memory
    shapes.push_back({{70, n}, {1, 75}});  // runs
    shapes.push_back({{n, 3, 5}, {5, 5 * n, 1}});
    if (n > 64) continue;
    shapes.push_back({{n}, {300}, 300, 1});
    shapes.push_back({{n, 70}, {71, 1}, 2, 71 * n});
  }
  shapes.push_back({{1 << 18}, {1}});
  shapes.push_back({{1030, 90}, {90, 1}});  // long columns
  shapes.push_back({{1031, 37}, {80, 2}});
  shapes.push_back({{700, 301}, {1, 700}});
  for (const Shape& s : shapes) run<Leaf, In>(type, operation, s);
}

/// NaN wins, wherever it is; 0.0 is larger than -0.0.
void run_special() {
  for (const bool largest : {true, false}) {
    const float zero = largest ? -0.0f : 0.0f;
    for (const int64_t n : {2, 3, 17, 64, 257}) {
      for (const int64_t stride : {1, 2}) {
        for (int64_t at = 0; at < n; ++at) {
          for (const float special : {-zero, std::nanf("")}) {
            std::vector<float> x(n * stride, zero);
            x[at * stride] = special;
            Elements e{};
            e.data = reinterpret_cast<const std::byte*>(x.data());
            e.type = Type::float32;
            e.bytes = n * stride * 4;
            e.dims = 1;
            e.sizes[0] = n;
            e.strides[0] = 4 * stride;
            float result;
            extremes(largest, e, 0, n, Sequences{1, 0}, &result);
            ++runs;
            const bool right =
                special == special ? result == 0 && std::signbit(result) == std::signbit(special) : std::isnan(result);
            if (!right) ++wrong, std::fprintf(stderr, "%f among %lld\n", special, static_cast<long long>(n));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reduce_ops::sum

int main() {
  using namespace reduce_ops;
  using namespace reduce_ops::sum;
  constexpr Operation kSquares{Map::square, Combine::sum}, kLargest{Map::none, Combine::largest};
  constexpr Operation kSmallestAbs{Map::abs, Combine::smallest};
  run_all<float, float>(Type::float32, kSquares);
  run_all<float, float>(Type::float32, kLargest);
  run_all<float, Float16>(Type::float16, {Map::abs, Combine::sum});
  run_all<float, Float16>(Type::float16, kSmallestAbs);
  run_all<std::uint64_t, std::int16_t>(Type::int16, kLargest);
  run_all<std::uint64_t, std::int64_t>(Type::int64, {Map::none, Combine::smallest});
  for (const Map map : {Map::nan_to_zero, Map::nonzero, Map::abs, Map::square}) {
    for (const int64_t n : {1, 100, 4097}) {
      run<float, float>(Type::float32, {map, Combine::sum}, {{n}, {1}});
      run<float, float>(Type::float32, {map, Combine::sum}, {{n}, {2}, 3, 1});
      run<float, float>(Type::float32, {map, Combine::sum}, {{n}, {1}}, /*negate=*/true);
    }
  }
  run<float, float>(Type::float32, kLargest, {{1000}, {1}}, /*negate=*/true);
  run_special();
  std::printf("%d results, %d wrong\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}
