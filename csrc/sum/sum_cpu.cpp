#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>

#include "sum/sum_op.h"
#include "sum/tree_cpu.h"
#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

constexpr int64_t kGrain = 32768;    // elements worth a thread of their own, as in PyTorch's own CPU kernels
constexpr int64_t kMinRange = 8192;  // each range costs some 50 ns of its own, the time that 2500 cached floats take
constexpr int64_t kTasksPerThread = 32;  // so that their number divides evenly enough
constexpr int64_t kColumns = 64;         // that are worth a range of their own where the order runs across memory
constexpr int64_t kBlock = 1024;         // outputs in work at once: 4 KiB of float32 columns, a page

Elements row(const void* data, Type type, int64_t size, int64_t stride) {
  Elements e;
  e.data = static_cast<const std::byte*>(data);
  e.type = type;
  e.negate_real = e.negate_imag = false;
  e.dims = 1;
  e.sizes[0] = size;
  e.strides[0] = stride;
  return e;
}

/// Where the elements of the first output lie.
Elements elements_of(const at::Tensor& self, DimSet reduced) {
  const auto element_size = static_cast<int64_t>(self.element_size());
  Elements e = row(self.const_data_ptr(), type_of(c10::toRealValueType(self.scalar_type())), 1, element_size);
  e.negate_real = self.is_neg();
  e.negate_imag = self.is_neg() != self.is_conj();
  int dims = 0;
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const int64_t size = self.size(d);
    const int64_t stride = self.stride(d) * element_size;
    if (size == 1 || !reduced[d]) continue;
    if (dims > 0 && stride == e.strides[dims - 1] * e.sizes[dims - 1]) {
      e.sizes[dims - 1] *= size;  // goes on where the inner dimension ends
    } else {
      e.sizes[dims] = size;
      e.strides[dims] = stride;
      ++dims;
    }
  }
  e.dims = std::max(dims, 1);
  return e;
}

/// A dimension that is not summed over.
struct Kept {
  int64_t size;
  int64_t stride;  // of self, in bytes
  int64_t step;    // of the result, in elements
};

/// Innermost first; neighbours that lie as one are one, and there is one at least.
c10::SmallVector<Kept, 6> kept_dims(const at::Tensor& self, DimSet reduced) {
  const auto element_size = static_cast<int64_t>(self.element_size());
  c10::SmallVector<Kept, 6> kept;
  int64_t step = 1;
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const int64_t size = self.size(d);
    const int64_t stride = self.stride(d) * element_size;
    if (size == 1 || reduced[d]) continue;
    if (!kept.empty() && stride == kept.back().stride * kept.back().size) {
      kept.back().size *= size;
    } else {
      kept.push_back({size, stride, step});
    }
    step *= size;
  }
  if (kept.empty()) kept.push_back({1, element_size, 1});
  return kept;
}

/// All sums, and how they are split into tasks: blocks of neighbouring outputs, by ranges of their elements. Which ones
/// is nothing that the bits could tell.
struct Work {
  Elements elements;  // of the first output
  int64_t n;          // for each output
  c10::SmallVector<Kept, 6> outer;
  Kept across;  // outputs along it are summed together
  int64_t block;
  int64_t blocks;  // along `across`
  int64_t outer_size;
  int64_t range;  // a power of two unless there is one only
  int64_t ranges;

  int64_t outputs() const { return outer_size * across.size; }
  int64_t tasks() const { return outer_size * blocks * ranges; }
};

Work work_of(const at::Tensor& self, DimSet reduced, int64_t outputs) {
  Work w;
  w.elements = elements_of(self, reduced);
  w.n = self.numel() / outputs;
  w.outer = kept_dims(self, reduced);
  const auto distance = [](const Kept& dim) { return dim.stride == 0 ? INT64_MAX : dim.stride; };  // expanded ones last
  const auto across = std::min_element(w.outer.begin(), w.outer.end(),
                                       [&](const Kept& a, const Kept& b) { return distance(a) < distance(b); });
  w.across = *across;
  w.outer.erase(across);
  w.outer_size = outputs / w.across.size;

  const int64_t threads = self.numel() <= kGrain || at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t tasks = threads == 1 ? 1 : kTasksPerThread * threads;
  const bool columns = w.across.stride < w.elements.strides[0];
  w.block = std::clamp<int64_t>(columns ? w.across.size : outputs / tasks, 1, std::min(kBlock, w.across.size));
  if (threads == 1) w.block = std::min(kBlock, w.across.size);
  w.blocks = (w.across.size - 1) / w.block + 1;
  w.range = 1;
  if (const int across = closest_dim(w.elements); across != 0) {
    w.range = kColumns;
    for (int d = 0; d < across; ++d) {
      const int64_t size = w.elements.sizes[d];
      w.range = w.range > w.n / size ? w.n : w.range * static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size)));
    }
  }
  while (w.range < w.n && (w.range * w.block < kMinRange || (w.n - 1) / w.range >= tasks / (w.outer_size * w.blocks))) {
    w.range *= 2;
  }
  w.ranges = (w.n - 1) / w.range + 1;
  return w;
}

template <typename Leaf>
constexpr Type kLeafType = sizeof(Leaf) == 4 ? Type::float32 : Type::float64;
template <>
constexpr Type kLeafType<std::uint64_t> = Type::uint64;
template <>
constexpr Type kLeafType<Complex<float>> = Type::float32;

/// Calls store(range, output, sum) for all of them.
template <typename Leaf, typename Store>
void sum_all(const Work& w, const Store& store) {
  const int64_t task_size = w.block * w.range;
  at::parallel_for(0, w.tasks(), std::max<int64_t>(1, kGrain / task_size), [&](int64_t begin, int64_t end) {
    std::array<Leaf, kBlock> sums;
    Elements elements = w.elements;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % w.blocks * w.block;
      const int64_t count = std::min(w.block, w.across.size - first);
      const int64_t range = task / w.blocks % w.ranges;
      int64_t output = first * w.across.step;
      elements.data = w.elements.data + first * w.across.stride;
      int64_t outer = task / w.blocks / w.ranges;
      for (const Kept& dim : w.outer) {
        elements.data += outer % dim.size * dim.stride;
        output += outer % dim.size * dim.step;
        outer /= dim.size;
      }
      tree_sums(elements, range * w.range, std::min(w.n, (range + 1) * w.range), {count, w.across.stride}, sums.data());
      for (int64_t i = 0; i < count; ++i) store(range, output + i * w.across.step, sums[i]);
    }
  });
}

template <typename Leaf, typename Out>
void sum_to(const at::Tensor& self, DimSet reduced, const at::Tensor& result) {
  const int64_t outputs = result.numel();
  const Work work = work_of(self, reduced, outputs);
  auto* out = static_cast<Out*>(result.mutable_data_ptr());
  if (work.ranges == 1) {
    sum_all<Leaf>(work, [&](int64_t, int64_t output, Leaf sum) { out[output] = static_cast<Out>(sum); });
    return;
  }
  // Range by range of all outputs, so that their sums are columns.
  c10::SmallVector<Leaf, 256> sums(work.ranges * outputs);
  sum_all<Leaf>(work, [&](int64_t range, int64_t output, Leaf sum) { sums[range * outputs + output] = sum; });
  const auto size = static_cast<int64_t>(sizeof(Leaf));
  const Elements of_ranges = row(sums.data(), kLeafType<Leaf>, work.ranges, outputs * size);
  tree_sums(of_ranges, 0, work.ranges, {outputs, size}, sums.data());
  for (int64_t i = 0; i < outputs; ++i) out[i] = static_cast<Out>(sums[i]);
}

/// SumInto for the CPU: any strides, conjugate and negative bits, without a copy.
void sum_cpu(const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result) {
  switch (accumulate) {
    case at::kFloat:
      if (result.scalar_type() == at::kHalf) return sum_to<float, at::Half>(self, reduced, result);
      if (result.scalar_type() == at::kBFloat16) return sum_to<float, at::BFloat16>(self, reduced, result);
      return sum_to<float, float>(self, reduced, result);
    case at::kDouble:
      return sum_to<double, double>(self, reduced, result);
    case at::kLong:
      return sum_to<std::uint64_t, std::uint64_t>(self, reduced, result);
    case at::kComplexFloat:
      return sum_to<Complex<float>, Complex<float>>(self, reduced, result);
    case at::kComplexDouble:
      return sum_to<Complex<double>, Complex<double>>(self, reduced, result);
    default:
      TORCH_INTERNAL_ASSERT(false, "no sum in ", accumulate);
  }
}

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor&) {
  return at::detail::empty_cpu(sizes, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, CPU, m) { register_sum<sum_cpu, empty>(m); }

}  // namespace reduce_ops::sum
