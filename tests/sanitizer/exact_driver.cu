// Runs the kernels of reduce::sum_exact and vector_norm_exact without PyTorch, for compute-sanitizer and for
// tests/emulator: every family with each kind of bins, over allocations that end with the last element. Exits with 1 on
// a wrong state, one that is rounded otherwise than on a CPU, or a slot that was not left empty.
//
//   exact_driver [LARGEST [EVERY]]: of up to so many elements; one shape in EVERY

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "exact/exact_kernels.h"
#include "plan/plan.h"

namespace {

using namespace reduce_ops;
using namespace reduce_ops::exact;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// Element i of an input: of any exponent, subnormal or not, so that sums of a few have most of their limbs in use.
template <typename In>
In element(int64_t i) {
  const uint64_t bits = (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  if constexpr (sizeof(In) == 8) return std::bit_cast<double>(bits & ~(uint64_t{1} << 62));
  if constexpr (std::is_same_v<In, __half>) return __ushort_as_half(bits >> 48 & ~(1u << 14));
  const float x = std::bit_cast<float>(static_cast<uint32_t>(bits >> 32) & ~(1u << 30));
  if constexpr (sizeof(In) == 4) return x;
  return In(x);
}

template <typename State, typename In>
void add(int64_t* limbs, In element, Term term) {
  constexpr int kFraction = sizeof(In) == 8 ? 52 : 23;
  int64_t bits;
  if constexpr (sizeof(In) == 8) {
    bits = std::bit_cast<int64_t>(element);
  } else {
    bits = std::bit_cast<int32_t>(static_cast<float>(element));
  }
  const int field = static_cast<int>(bits >> kFraction & (sizeof(In) == 8 ? 0x7ff : 0xff));
  const int64_t fraction = (bits & ((int64_t{1} << kFraction) - 1)) | (field > 0 ? int64_t{1} << kFraction : 0);
  const int position = std::max(field, 1);
  if (term != Term::square) return add_at(limbs, bits < 0 && term == Term::element ? -fraction : fraction, position);
  auto square = static_cast<unsigned __int128>(fraction) * static_cast<unsigned __int128>(fraction);
  for (int part = 0; square != 0; ++part, square >>= 32) {
    add_at(limbs, static_cast<int64_t>(static_cast<uint32_t>(square)), 2 * position + 32 * part);
  }
}

/// How many states are not rounded to what the CPU makes of them.
template <typename State, typename Float>
int64_t rounded_otherwise(const std::vector<int64_t>& states, const void* on_device, Type type, Finish finish) {
  const size_t count = states.size() / State::kWords;
  Result result{nullptr, type, finish};
  check(cudaMalloc(&result.data, count * sizeof(Float)), "cudaMalloc");
  check(launch_round(static_cast<const int64_t*>(on_device), State::kWords, count, result, nullptr), "launch_round");
  std::vector<Float> results(count);
  check(cudaMemcpy(results.data(), result.data, count * sizeof(Float), cudaMemcpyDeviceToHost), "exact_round");
  check(cudaFree(result.data), "cudaFree");
  int64_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    std::array<int64_t, State::kWords> words;
    std::copy_n(&states[i * State::kWords], State::kWords, words.begin());
    const auto expected = round_state<State, Float>(words.data(), finish);
    wrong += std::memcmp(&results[i], &expected, sizeof expected) != 0;
  }
  return wrong;
}

/// Of a matrix for each of `outer` indices: element (a, r, c) lies at offset + (a * rows + r) * (columns + gap) + c.
/// Sums over rows, or over columns.
struct Shape {
  int64_t outer, rows, columns;
  bool over_rows;
  int64_t offset, gap;
};

template <typename In, typename State>
int run(Type in, Term term, const Shape& s, const Gpu& gpu, void* slots) {
  const std::array<int64_t, 3> sizes = {s.outer, s.rows, s.columns};
  const std::array<int64_t, 3> strides = {s.rows * (s.columns + s.gap), s.columns + s.gap, 1};
  const auto is_reduced = [&s](int64_t d) { return d == (s.over_rows ? 1 : 2); };
  Launch l{};
  Problem& p = l.problem;
  sum::Strides kept;
  sum::collapse(sizes, strides, is_reduced, p.reduced);
  sum::collapse(sizes, strides, [&](int64_t d) { return !is_reduced(d); }, kept);
  sum::order_by_stride(kept, p.kept, p.places);
  p.n = s.over_rows ? s.rows : s.columns;
  p.outputs = s.outer * s.rows * s.columns / p.n;
  l.in = in;
  l.term = term;
  l.gpu = gpu;
  l.plan = make_plan(p, l.terms(), gpu);

  std::vector<In> host(s.offset + (s.outer * s.rows - 1) * (s.columns + s.gap) + s.columns);
  for (size_t i = 0; i < host.size(); ++i) host[i] = element<In>(static_cast<int64_t>(i));
  std::vector<int64_t> expected(p.outputs * State::kWords);
  std::vector<char> other(p.outputs);  // whether there is anything but -0.0
  for (int64_t a = 0; a < s.outer; ++a) {
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < s.columns; ++c) {
        const int64_t output = s.over_rows ? a * s.columns + c : a * s.rows + r;
        const In x = host[s.offset + a * strides[0] + r * strides[1] + c];
        add<State>(&expected[output * State::kWords + kFirstLimb], x, term);
        const auto value = static_cast<double>(x);
        other[output] |= term != Term::element || value != 0 || !std::signbit(value);
      }
    }
  }
  for (int64_t i = 0; i < p.outputs; ++i) {
    write_fresh<State>(&expected[i * State::kWords], {false, false, false, other[i] != 0});
  }

  In* data = nullptr;
  check(cudaMalloc(&data, host.size() * sizeof(In)), "cudaMalloc");
  check(cudaMalloc(&l.result.data, expected.size() * sizeof(int64_t)), "cudaMalloc");
  check(cudaMemcpy(data, host.data(), host.size() * sizeof(In), cudaMemcpyHostToDevice), "cudaMemcpy");
  l.data = data + s.offset;
  l.slots = slots;
  l.result.type = Type::int64;
  check(launch(l, nullptr), "launch");
  std::vector<int64_t> states(expected.size());
  check(cudaMemcpy(states.data(), l.result.data, states.size() * sizeof(int64_t), cudaMemcpyDeviceToHost), "kernel");
  std::vector<char> left(sum::kSlotBytes);
  check(cudaMemcpy(left.data(), slots, left.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  int64_t otherwise = 0;
  for (const bool root : {false, true}) {
    if (root && term != Term::square) continue;
    for (const int64_t divisor : {int64_t{1}, root ? int64_t{1} : p.n}) {
      otherwise +=
          rounded_otherwise<State, double>(expected, l.result.data, Type::float64, {Rounding::nearest, root, divisor});
      otherwise +=
          rounded_otherwise<State, float>(expected, l.result.data, Type::float32, {Rounding::odd, root, divisor});
    }
  }
  check(cudaFree(data), "cudaFree");
  check(cudaFree(l.result.data), "cudaFree");
  const bool empty = std::all_of(left.begin(), left.end(), [](char byte) { return byte == 0; });
  if (states == expected && empty && otherwise == 0) return 0;
  std::fprintf(stderr, "type %d term %d family %d (%lld, %lld, %lld) over %s, offset %lld gap %lld: wrong %s\n",
               static_cast<int>(in), static_cast<int>(term), static_cast<int>(l.plan.family),
               static_cast<long long>(s.outer), static_cast<long long>(s.rows), static_cast<long long>(s.columns),
               s.over_rows ? "rows" : "columns", static_cast<long long>(s.offset), static_cast<long long>(s.gap),
               states != expected ? "states"
               : empty            ? "roundings"
                                  : "slots");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t largest = argc > 1 ? std::atoll(argv[1]) : 3000001;
  const int every = argc > 2 ? std::atoi(argv[2]) : 1;
  void* slots = nullptr;
  check(cudaMalloc(&slots, sum::kSlotBytes), "cudaMalloc");
  check(cudaMemset(slots, 0, sum::kSlotBytes), "cudaMemset");

  std::vector<Shape> shapes;
  for (const int64_t n : {1, 3, 64, 65, 127, 511, 513, 1025, 4097, 16385, 70001, 1000003, 3000001}) {
    for (const int64_t offset : {0, 1, 3, 7}) {
      shapes.push_back({1, 1, n, false, offset, 0});
      shapes.push_back({3, 1, n, false, offset, 1});
    }
    shapes.push_back({2500, 1, n, false, 1, 0});
  }
  // Where there is but one multiprocessor: a warp an output, and so many elements a lane that bins are emptied.
  shapes.push_back({40, 1, 100, false, 1, 0});
  shapes.push_back({17, 1, 34000, false, 1, 0});
  shapes.push_back({1, 1, 550000, false, 1, 0});
  for (const int64_t rows : {1, 7, 33, 1025, 40001}) {
    for (const int64_t columns : {2, 3, 8, 31, 33, 257}) {
      shapes.push_back({1, rows, columns, true, 0, 0});
      shapes.push_back({3, rows, columns, true, 1, 2});
    }
  }
  int runs = 0;
  int wrong = 0;
  int shape = 0;
  for (const Shape& s : shapes) {
    if (s.outer * s.rows * s.columns > largest || shape++ % every != 0) continue;
    for (const Gpu& gpu : {Gpu{132, 227 << 10}, Gpu{188, 99 << 10}, Gpu{1, 163 << 10}}) {  // an H200 and others
      runs += 12;
      for (const Term term : {Term::element, Term::magnitude}) {
        wrong += run<__half, Layout32>(Type::float16, term, s, gpu, slots);
        wrong += run<__nv_bfloat16, Layout32>(Type::bfloat16, term, s, gpu, slots);
        wrong += run<float, Layout32>(Type::float32, term, s, gpu, slots);
        wrong += run<double, Layout64>(Type::float64, term, s, gpu, slots);
      }
      wrong += run<__half, SquaresLayout32>(Type::float16, Term::square, s, gpu, slots);
      wrong += run<__nv_bfloat16, SquaresLayout32>(Type::bfloat16, Term::square, s, gpu, slots);
      wrong += run<float, SquaresLayout32>(Type::float32, Term::square, s, gpu, slots);
      wrong += run<double, SquaresLayout64>(Type::float64, Term::square, s, gpu, slots);
    }
  }
  check(cudaFree(slots), "cudaFree");
  std::printf("%d exact sums, %d wrong\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}
