#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <array>
#include <type_traits>

#include "denormals_cpu.h"
#include "sum/sum_op.h"
#include "sum/tree_cpu.h"
#include "sum/work_cpu.h"
#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

constexpr int64_t kBlock = 1024;  // outputs in work at once: 4 KiB of float32 columns, a page

template <typename Leaf>
constexpr Type kLeafType = sizeof(Leaf) == 4 ? Type::float32 : Type::float64;
template <>
constexpr Type kLeafType<std::uint64_t> = Type::uint64;
template <>
constexpr Type kLeafType<Complex<float>> = Type::float32;

/// Calls store(range, output, sum) for all of them. How they are split is nothing that the bits could tell.
template <typename Leaf, typename Store>
void sum_all(const Work& work, const Store& store) {
  for_each_task(work, [&](const Elements& elements, const Task& task) {
    std::array<Leaf, kBlock> sums;
    tree_sums(elements, task.begin, task.end, {task.count, work.across.stride}, sums.data());
    for (int64_t i = 0; i < task.count; ++i) store(task.range, task.output + i * work.across.step, sums[i]);
  });
}

/// What becomes of the sum of n elements.
template <typename Leaf>
Leaf finish(Operator op, Leaf sum, int64_t n) {
  if constexpr (!std::is_integral_v<Leaf>) {
    if (op == Operator::mean) {
      if constexpr (std::is_floating_point_v<Leaf>) {
        return sum / static_cast<Leaf>(n);
      } else {
        return {finish(op, sum.real, n), finish(op, sum.imag, n)};
      }
    }
  }
  return sum;
}

template <typename Leaf, typename Out>
void sum_to(Operator op, const at::Tensor& self, DimSet reduced, const at::Tensor& result) {
  const int64_t outputs = result.numel();
  const int64_t n = self.numel() / outputs;
  auto* out = static_cast<Out*>(result.mutable_data_ptr());
  if (outputs == 1 && threads_for(self) == 1) {  // nothing to split: 0.22 us for one element instead of 0.32
    Leaf sum;
    tree_sums(elements_of(self, reduced), 0, self.numel(), {1, 0}, &sum);
    *out = static_cast<Out>(finish(op, sum, n));
    return;
  }
  const Work work = work_of(self, reduced, outputs, {kBlock, 1});
  if (work.ranges == 1) {
    sum_all<Leaf>(work, [&](int64_t, int64_t output, Leaf sum) { out[output] = static_cast<Out>(finish(op, sum, n)); });
    return;
  }
  // Range by range of all outputs, so that their sums are columns.
  c10::SmallVector<Leaf, 256> sums(work.ranges * outputs);
  sum_all<Leaf>(work, [&](int64_t range, int64_t output, Leaf sum) { sums[range * outputs + output] = sum; });
  const auto size = static_cast<int64_t>(sizeof(Leaf));
  const Elements of_ranges = row(sums.data(), kLeafType<Leaf>, work.ranges, outputs * size);
  tree_sums(of_ranges, 0, work.ranges, {outputs, size}, sums.data());
  for (int64_t i = 0; i < outputs; ++i) out[i] = static_cast<Out>(finish(op, sums[i], n));
}

}  // namespace

/// SumInto for the CPU: any strides, conjugate and negative bits, without a copy.
void sum_cpu(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result) {
  const DenormalsKept kept;
  switch (accumulate) {
    case at::kFloat:
      if (result.scalar_type() == at::kHalf) return sum_to<float, at::Half>(op, self, reduced, result);
      if (result.scalar_type() == at::kBFloat16) return sum_to<float, at::BFloat16>(op, self, reduced, result);
      return sum_to<float, float>(op, self, reduced, result);
    case at::kDouble:
      return sum_to<double, double>(op, self, reduced, result);
    case at::kLong:
      return sum_to<std::uint64_t, std::uint64_t>(op, self, reduced, result);
    case at::kComplexFloat:
      return sum_to<Complex<float>, Complex<float>>(op, self, reduced, result);
    case at::kComplexDouble:
      return sum_to<Complex<double>, Complex<double>>(op, self, reduced, result);
    default:
      TORCH_INTERNAL_ASSERT(false, "no sum in ", accumulate);
  }
}

at::Tensor empty_cpu(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor&) {
  return at::detail::empty_cpu(sizes, dtype);
}

}  // namespace reduce_ops::sum
