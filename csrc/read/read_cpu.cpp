#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>

#include "read/read_op.h"

namespace reduce_ops {

namespace {

using Line = std::array<uint64_t, 8>;

#if defined(__x86_64__)
#define FOR_EVERY_X86 __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_X86
#endif

/// All words of so many lines, mixed. More than L2 holds is read ahead, as sums do it: 2^26 floats at 18 GB/s instead
/// of 10 (one core of a Xeon with AVX-512).
FOR_EVERY_X86 uint64_t mix_of(const Line* lines, int64_t count) {
  constexpr int64_t kPage = 64;  // lines
  const int64_t ahead = count > 1 << 14 ? 2 * kPage : 0;
  Line mix{};
  for (int64_t i = 0; i < count; ++i) {
    __builtin_prefetch(lines + i + ahead);
    if (i % kPage == 0) __builtin_prefetch(lines + i + 2 * ahead);
    for (size_t word = 0; word < mix.size(); ++word) mix[word] ^= lines[i][word];
  }
  uint64_t all = 0;
  for (const uint64_t word : mix) all ^= word;
  return all;
}

}  // namespace

at::Tensor read_cpu(const at::Tensor& self) {
  TORCH_CHECK(self.is_contiguous(), "_read: self must be contiguous");
  const at::Tensor out = at::detail::empty_cpu({1}, at::kInt);
  int* never_written = static_cast<int*>(out.mutable_data_ptr());
  const auto* lines = static_cast<const Line*>(self.const_data_ptr());
  const int64_t count = static_cast<int64_t>(self.nbytes() / sizeof(Line));
  at::parallel_for(0, count, /*grain_size=*/4096, [lines, never_written](int64_t begin, int64_t end) {
    if (mix_of(lines + begin, end - begin) == 0x9e3779b97f4a7c15u) *never_written = 1;  // keeps the loop alive
  });
  return out;
}

}  // namespace reduce_ops
