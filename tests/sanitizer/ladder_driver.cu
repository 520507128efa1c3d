// Runs every rung, block size and type over boundary sizes without PyTorch, for compute-sanitizer: allocations are
// exactly as large as they should be, so that any access past them is seen. Exits with 1 on a wrong sum.
//
//   ladder_driver [largest n]

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device/numeric.cuh"
#include "ladder/ladder_kernels.h"
#include "ladder/types.cuh"

namespace {

using namespace reduce_ops;
using namespace reduce_ops::ladder;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

template <typename T>
T* device_array(int64_t count) {
  void* data = nullptr;
  check(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(data);
}

template <typename T>
__global__ void fill_with_ones(T* data, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) {
    if constexpr (is_complex<T>) {
      data[i] = {1, -1};
    } else {
      data[i] = convert<T>(1.0f);
    }
  }
}

/// n ones, as a sum of type T has them.
template <typename T>
T rounded(int64_t n) {
  if constexpr (is_complex<T>) {
    using Part = decltype(T::real);
    return {static_cast<Part>(n), static_cast<Part>(-n)};
  } else if constexpr (std::is_same_v<T, float16>) {
    return {__half_raw(__float2half_rn(static_cast<float>(n))).x};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {__nv_bfloat16_raw(__float2bfloat16_rn(static_cast<float>(n))).x};
  } else {
    return static_cast<T>(n);
  }
}

template <typename T>
double as_double(T x) {
  if constexpr (is_complex<T>) {
    return x.real == -x.imag ? static_cast<double>(x.real) : -1;
  } else if constexpr (std::is_same_v<T, float16>) {
    return __half2float(__half(__half_raw{x.bits}));
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{x.bits}));
  } else {
    return static_cast<double>(x);
  }
}

/// Sums n ones down to one value, as the operator does, and compares with n.
template <typename In, typename Acc, typename Out>
int run(const Rung& rung, int block_size, int64_t n, Type in_type, Type acc_type, Type out_type) {
  In* input = device_array<In>(n);
  fill_with_ones<<<static_cast<unsigned>((n + 255) / 256), 256>>>(input, n);
  check(cudaGetLastError(), "fill_with_ones");

  std::vector<void*> allocations = {input};
  const void* a = input;
  Type a_type = in_type;
  Grid grid = make_grid<int64_t>(rung, block_size, n);
  int64_t count = n;
  while (grid.blocks > 1) {
    Acc* sums = device_array<Acc>(grid.blocks);
    allocations.push_back(sums);
    check(launch(rung.number, {grid, a, count, a_type, sums, acc_type}, nullptr), "launch");
    a = sums;
    a_type = acc_type;
    count = grid.blocks;
    grid = make_grid<int64_t>(rung, block_size, count);
  }
  Out* result = device_array<Out>(1);
  allocations.push_back(result);
  check(launch(rung.number, {grid, a, count, a_type, result, out_type}, nullptr), "launch");

  Out value;
  check(cudaMemcpy(&value, result, sizeof value, cudaMemcpyDeviceToHost), "kernel");
  for (void* allocation : allocations) check(cudaFree(allocation), "cudaFree");

  const double expected = as_double(rounded<Out>(n));
  if (as_double(value) == expected) return 0;
  std::fprintf(stderr, "v%d block_size %d n %lld: %g\n", rung.number, block_size, static_cast<long long>(n),
               as_double(value));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t largest = argc > 1 ? std::atoll(argv[1]) : 300000;
  int runs = 0;
  int wrong = 0;
  for (const Rung& rung : rungs()) {
    for (const int64_t block_size : rung.block_sizes) {
      for (const int64_t n : {1, 2, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1025, 5000, 262145, 300000}) {
        if (n > largest) continue;
#define PASS(in, acc, out)                                                                                       \
  ++runs;                                                                                                        \
  wrong += run<device::in, device::acc, device::out>(rung, static_cast<int>(block_size), n, Type::in, Type::acc, \
                                                     Type::out);
#include "ladder/types.def"
      }
    }
  }
  std::printf("%d sums, %d wrong\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}
