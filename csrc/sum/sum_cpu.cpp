#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

#include "sum/sum_op.h"
#include "sum/tree_cpu.h"

namespace reduce_ops::sum {
namespace {

constexpr int64_t kGrain = 32768;    // elements worth a thread of their own, as in PyTorch's own CPU kernels
constexpr int64_t kMinRange = 8192;  // each range costs some 50 ns of its own, the time that 2500 cached floats take
constexpr int64_t kRangesPerThread = 32;
constexpr int64_t kMaxRanges = 1024;  // their sums are kept on the stack, 16 KiB at most

Stored stored_as(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return Stored::boolean;
    case at::kChar:
      return Stored::int8;
    case at::kShort:
      return Stored::int16;
    case at::kInt:
      return Stored::int32;
    case at::kLong:
      return Stored::int64;
    case at::kByte:
      return Stored::uint8;
    case at::kUInt16:
      return Stored::uint16;
    case at::kUInt32:
      return Stored::uint32;
    case at::kUInt64:
      return Stored::uint64;
    case at::kFloat8_e4m3fn:
      return Stored::float8_e4m3fn;
    case at::kFloat8_e5m2:
      return Stored::float8_e5m2;
    case at::kHalf:
    case at::kComplexHalf:
      return Stored::float16;
    case at::kBFloat16:
      return Stored::bfloat16;
    case at::kFloat:
    case at::kComplexFloat:
      return Stored::float32;
    case at::kDouble:
    case at::kComplexDouble:
      return Stored::float64;
    default:
      TORCH_INTERNAL_ASSERT(false, "no sum of ", type);
  }
}

Elements row(const void* data, Stored stored, int64_t size, int64_t stride) {
  Elements e;
  e.data = static_cast<const std::byte*>(data);
  e.stored = stored;
  e.negate_real = e.negate_imag = false;
  e.dims = 1;
  e.sizes[0] = size;
  e.strides[0] = stride;
  return e;
}

Elements elements_of(const at::Tensor& self) {
  const auto element_size = static_cast<int64_t>(self.element_size());
  Elements e = row(self.const_data_ptr(), stored_as(self.scalar_type()), self.numel(), element_size);
  e.negate_real = self.is_neg();
  e.negate_imag = self.is_neg() != self.is_conj();
  if (self.is_contiguous()) return e;
  e.dims = 0;
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const int64_t size = self.size(d);
    const int64_t stride = self.stride(d) * element_size;
    if (size == 1) continue;
    if (e.dims > 0 && stride == e.strides[e.dims - 1] * e.sizes[e.dims - 1]) {
      e.sizes[e.dims - 1] *= size;  // goes on where the inner dimension ends
    } else {
      e.sizes[e.dims] = size;
      e.strides[e.dims] = stride;
      ++e.dims;
    }
  }
  return e;
}

template <typename Leaf>
constexpr Stored kStoredLeaf = sizeof(Leaf) == 4 ? Stored::float32 : Stored::float64;
template <>
constexpr Stored kStoredLeaf<std::uint64_t> = Stored::uint64;
template <>
constexpr Stored kStoredLeaf<Complex<float>> = Stored::float32;

template <typename Leaf>
Leaf sum_of(const at::Tensor& self) {
  const Elements elements = elements_of(self);
  const int64_t n = self.numel();
  const int64_t threads = n <= kGrain || at::in_parallel_region() ? 1 : at::get_num_threads();
  if (threads == 1) return tree_sum<Leaf>(elements, 0, n);

  // Some ranges a thread, so that their number divides evenly enough; which ones is nothing that the bits could tell.
  int64_t length = kMinRange;
  while ((n - 1) / length >= std::min(kMaxRanges, kRangesPerThread * threads)) length *= 2;
  const int64_t ranges = (n - 1) / length + 1;
  std::array<Leaf, kMaxRanges> sums;
  at::parallel_for(0, ranges, std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      sums[r] = tree_sum<Leaf>(elements, r * length, std::min(n, (r + 1) * length));
    }
  });
  return tree_sum<Leaf>(row(sums.data(), kStoredLeaf<Leaf>, ranges, sizeof(Leaf)), 0, ranges);
}

/// SumInto for the CPU: any strides, conjugate and negative bits, without a copy.
void sum_cpu(const at::Tensor& self, at::ScalarType accumulate, const at::Tensor& result) {
  const auto store = [&](auto sum) { *static_cast<decltype(sum)*>(result.mutable_data_ptr()) = sum; };
  switch (accumulate) {
    case at::kFloat: {
      const float sum = sum_of<float>(self);
      if (result.scalar_type() == at::kHalf) return store(static_cast<at::Half>(sum));
      if (result.scalar_type() == at::kBFloat16) return store(static_cast<at::BFloat16>(sum));
      return store(sum);
    }
    case at::kDouble:
      return store(sum_of<double>(self));
    case at::kLong:
      return store(sum_of<std::uint64_t>(self));
    case at::kComplexFloat:
      return store(sum_of<Complex<float>>(self));
    case at::kComplexDouble:
      return store(sum_of<Complex<double>>(self));
    default:
      TORCH_INTERNAL_ASSERT(false, "no sum in ", accumulate);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, CPU, m) { register_sum<sum_cpu>(m); }

}  // namespace reduce_ops::sum
