// Runs the kernels of reduce::sum without PyTorch, for compute-sanitizer: every layout and kernel shape of some types,
// over allocations that end with the last element. Exits with 1 on a wrong sum or a slot that was not left empty.

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sum/sum_kernels.h"

namespace {

using namespace reduce_ops::sum;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// The sum of n ones (for half precision, few enough to be exact), `offset` elements into an allocation, each `step`
/// elements after the other, with 3 elements to a row of `step` * 3 + 1 if `rows`.
template <typename In, typename Out>
int run(Type in, Type accumulate, int accumulate_size, Type out, In one, int64_t n, int64_t offset, int64_t step,
        bool rows, void* slots) {
  const std::array<int64_t, 2> sizes = rows ? std::array<int64_t, 2>{n / 3, 3} : std::array<int64_t, 2>{1, n};
  const std::array<int64_t, 2> strides = {rows ? 3 * step + 1 : 0, step};
  n = sizes[0] * sizes[1];
  const int64_t length = offset + (sizes[0] - 1) * strides[0] + (sizes[1] - 1) * strides[1] + 1;

  std::vector<In> host(length, one);
  In* data = nullptr;
  Out* result = nullptr;
  check(cudaMalloc(&data, length * sizeof(In)), "cudaMalloc");
  check(cudaMalloc(&result, sizeof(Out)), "cudaMalloc");
  check(cudaMemcpy(data, host.data(), length * sizeof(In), cudaMemcpyHostToDevice), "cudaMemcpy");

  Launch l{};
  l.in = in;
  l.accumulate = accumulate;
  l.out = out;
  l.data = data + offset;
  l.n = n;
  l.slots = slots;
  l.result = result;
  collapse(sizes, strides, n, l.strides);
  const bool aligned = offset * sizeof(In) % 16 == 0;
  l.layout = !is_run(l.strides) ? Layout::strided : aligned ? Layout::aligned : Layout::shifted;
  if (is_rows(l.strides, 16 / sizeof(In)) && aligned && !is_run(l.strides)) l.layout = Layout::rows;
  l.plan = make_plan(n, sizeof(In), accumulate_size, l.layout, /*full_choice=*/true, /*multiprocessors=*/132);
  check(launch(l, nullptr), "launch");

  Out sum;
  check(cudaMemcpy(&sum, result, sizeof sum, cudaMemcpyDeviceToHost), "kernel");
  std::vector<char> left(kSlotBytes);
  check(cudaMemcpy(left.data(), slots, kSlotBytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(data), "cudaFree");
  check(cudaFree(result), "cudaFree");
  const bool empty = std::all_of(left.begin(), left.end(), [](char byte) { return byte == 0; });
  if (sum == static_cast<Out>(n) && empty) return 0;
  std::fprintf(stderr, "type %d n %lld offset %lld step %lld: wrong sum or slots\n", static_cast<int>(in),
               static_cast<long long>(n), static_cast<long long>(offset), static_cast<long long>(step));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t largest = argc > 1 ? std::atoll(argv[1]) : 3000001;
  void* slots = nullptr;
  check(cudaMalloc(&slots, kSlotBytes), "cudaMalloc");
  check(cudaMemset(slots, 0, kSlotBytes), "cudaMemset");
  int runs = 0;
  int wrong = 0;
  for (const int64_t n :
       {1, 3, 31, 127, 129, 511, 513, 1024, 1025, 4095, 4097, 16385, 32769, 70001, 1000003, 3000001}) {
    if (n > largest) continue;
    for (const int64_t offset : {0, 1, 2, 3, 7}) {
      for (const int64_t step : {1, 2}) {
        for (const bool rows : {false, true}) {
          if (rows && n < 3) continue;
          runs += 4;
          wrong +=
              run<float, float>(Type::float32, Type::float32, 4, Type::float32, 1.0f, n, offset, step, rows, slots);
          wrong +=
              run<double, double>(Type::float64, Type::float64, 8, Type::float64, 1.0, n, offset, step, rows, slots);
          wrong += run<int8_t, int64_t>(Type::int8, Type::int64, 8, Type::int64, 1, n, offset, step, rows, slots);
          wrong += run<int16_t, int64_t>(Type::int16, Type::int64, 8, Type::int64, 1, n, offset, step, rows, slots);
        }
      }
    }
  }
  check(cudaFree(slots), "cudaFree");
  std::printf("%d sums, %d wrong\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}
