#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>

#include "read/read_op.h"

namespace reduce_ops {

at::Tensor read_cpu(const at::Tensor& self) {
  TORCH_CHECK(self.is_contiguous(), "_read: self must be contiguous");
  const at::Tensor out = at::detail::empty_cpu({1}, at::kInt);
  int* never_written = static_cast<int*>(out.mutable_data_ptr());
  using Line = std::array<uint64_t, 8>;
  const auto* lines = static_cast<const Line*>(self.const_data_ptr());
  const int64_t count = static_cast<int64_t>(self.nbytes() / sizeof(Line));
  at::parallel_for(0, count, /*grain_size=*/4096, [lines, never_written](int64_t begin, int64_t end) {
    Line mix{};
    for (int64_t i = begin; i < end; ++i) {
      for (size_t word = 0; word < mix.size(); ++word) mix[word] ^= lines[i][word];
    }
    uint64_t all = 0;
    for (const uint64_t word : mix) all ^= word;
    if (all == 0x9e3779b97f4a7c15u) *never_written = 1;  // keeps the loop alive
  });
  return out;
}

}  // namespace reduce_ops
