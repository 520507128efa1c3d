#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <array>
#include <cmath>
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
constexpr bool kIsComplex = false;
template <typename Part>
constexpr bool kIsComplex<Complex<Part>> = true;

/// What an element counts as.
Map map_of(Operator op) {
  switch (op) {
    case Operator::nansum:
      return Map::nan_to_zero;
    case Operator::count:
      return Map::nonzero;
    case Operator::sum_of_abs:
    case Operator::max_abs:
    case Operator::min_abs:
      return Map::abs;
    case Operator::sum_of_squares:
    case Operator::norm:
      return Map::square;
    default:
      return Map::none;
  }
}

/// results[i]: what the operator makes of elements [begin, end) of sequence i, but for what is done in the end.
template <typename Leaf>
void combine(Operator op, const Elements& elements, int64_t begin, int64_t end, Sequences sequences, Leaf* results) {
  if constexpr (!kIsComplex<Leaf>) {
    if (has_no_order(op)) {
      const bool largest = op == Operator::max || op == Operator::max_abs;
      return extreme_elements(largest, elements, begin, end, sequences, results);
    }
  }
  tree_sums(elements, begin, end, sequences, results);
}

/// Calls store(range, output, sum) for all of them. How they are split is nothing that the bits could tell.
template <typename Leaf, typename Store>
void sum_all(Operator op, const Work& work, const Store& store) {
  for_each_task(work, [&](const Elements& elements, const Task& task) {
    std::array<Leaf, kBlock> sums;
    combine(op, elements, task.begin, task.end, {task.count, work.across.stride}, sums.data());
    for (int64_t i = 0; i < task.count; ++i) store(task.range, task.output + i * work.across.step, sums[i]);
  });
}

/// What becomes of the sum of n elements.
template <typename Leaf>
Leaf finish(Operator op, Leaf sum, int64_t n) {
  if constexpr (!std::is_integral_v<Leaf>) {
    if constexpr (kIsComplex<Leaf>) {
      return {finish(op, sum.real, n), finish(op, sum.imag, n)};
    } else {
      if (op == Operator::mean) return sum / static_cast<Leaf>(n);
      if (op == Operator::norm) return std::sqrt(sum);
    }
  }
  return sum;
}

template <typename Leaf, typename Out>
void sum_to(Operator op, const at::Tensor& tensor, DimSet reduced, const at::Tensor& result) {
  const at::Tensor self = has_no_order(op) ? in_memory_order(tensor, reduced) : tensor;
  const int64_t outputs = result.numel();
  const int64_t n = self.numel() / outputs;
  auto* out = static_cast<Out*>(result.mutable_data_ptr());
  if (outputs == 1 && threads_for(self.numel()) == 1) {  // nothing to split: 0.22 us for one element instead of 0.32
    Leaf sum;
    Elements elements = elements_of(self, reduced);
    elements.changes.map = map_of(op);
    combine(op, elements, 0, self.numel(), {1, 0}, &sum);
    *out = static_cast<Out>(finish(op, sum, n));
    return;
  }
  Work work = work_of(self, reduced, outputs, {kBlock, 1});
  work.elements.changes.map = map_of(op);
  if (work.ranges == 1) {
    sum_all<Leaf>(op, work,
                  [&](int64_t, int64_t output, Leaf sum) { out[output] = static_cast<Out>(finish(op, sum, n)); });
    return;
  }
  // Range by range of all outputs, so that their sums are columns.
  c10::SmallVector<Leaf, 256> sums(work.ranges * outputs);
  sum_all<Leaf>(op, work, [&](int64_t range, int64_t output, Leaf sum) { sums[range * outputs + output] = sum; });
  const auto size = static_cast<int64_t>(sizeof(Leaf));
  const Elements of_ranges = row(sums.data(), kLeafType<Leaf>, work.ranges, outputs * size);
  combine(of_nodes(op), of_ranges, 0, work.ranges, {outputs, size}, sums.data());
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
