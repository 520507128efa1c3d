#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <array>
#include <cmath>
#include <type_traits>

#include "denormals_cpu.h"
#include "sum/tree_cpu.h"
#include "sum/work_cpu.h"
#include "sum_dtypes.h"
#include "transform/described.h"
#include "transform/formula_cpu.h"
#include "transform/transform_op.h"

namespace reduce_ops::transform {
namespace {

using sum::Complex;
using sum::Elements;

constexpr int64_t kBlock = 1024;  // outputs in work at once

/// Elements of the first output of an operand.
Elements elements_of(const at::Tensor& input, const sum::Strides& reduced) {
  const auto element_size = static_cast<int64_t>(input.element_size());
  Elements e = sum::row(input.const_data_ptr(), type_of(input.scalar_type()), 1, element_size);
  e.bytes = input.numel() * element_size;
  e.dims = reduced.dims;
  for (int d = 0; d < reduced.dims; ++d) {
    e.sizes[d] = reduced.size[d].value;
    e.strides[d] = reduced.stride[d] * element_size;
  }
  return e;
}

/// Operands, and where they lie for each output.
class Operands {
 public:
  Operands(const Formula& formula, at::TensorList inputs, const Layout& layout)
      : formula_(formula), count_(static_cast<int>(inputs.size())), layout_(layout) {
    for (int k = 0; k < count_; ++k) {
      first_[k] = elements_of(inputs[k], layout.reduced[k]);
      element_size_[k] = static_cast<int64_t>(inputs[k].element_size());
    }
  }

  const Elements& first(int k) const { return first_[k]; }
  int64_t element_size(int k) const { return element_size_[k]; }

  /// The values of the formula for elements [begin, end) of `outputs` outputs, from one in row-major order on; the
  /// others are `step` further on each, in one dimension.
  template <typename Leaf>
  void sums(int64_t begin, int64_t end, int64_t output, int64_t step, int64_t outputs, bool columns, Leaf* sums) const {
    std::array<Elements, kMaxInputs> operands;
    std::array<int64_t, kMaxInputs> across;
    for (int k = 0; k < count_; ++k) {
      const int64_t offset = layout_.kept[k].offset_of_large(output);
      operands[k] = first_[k];
      operands[k].data += offset * element_size_[k];
      across[k] = outputs == 1 ? 0 : (layout_.kept[k].offset_of_large(output + step) - offset) * element_size_[k];
    }
    formula_sums<Leaf>({formula_.steps.data(), static_cast<int>(formula_.steps.size()), formula_.constants.data(),
                        count_, operands.data(), across.data(), columns},
                       begin, end, outputs, sums);
  }

 private:
  const Formula& formula_;
  int count_;
  const Layout& layout_;
  std::array<Elements, kMaxInputs> first_;
  std::array<int64_t, kMaxInputs> element_size_;
};

/// What becomes of the last value of an output of n elements.
template <typename Out, typename Leaf>
Out finish(const Task& task, Leaf last, int64_t n) {
  if constexpr (requires { last.real; }) {
    using Part = decltype(last.real);
    if constexpr (requires { Out{last.real, last.imag}; } && !std::is_arithmetic_v<Out> &&
                  sizeof(Out) == sizeof(Leaf)) {
      return {last.real, last.imag};
    } else {
      const Part squares = last.real - last.imag * last.imag / static_cast<Part>(n);
      const Part variance = (squares < 0 ? Part{0} : squares) / static_cast<Part>(task.freedom);
      return static_cast<Out>(task.op == sum::Operator::deviation ? std::sqrt(variance) : variance);
    }
  } else {
    return static_cast<Out>(last);
  }
}

template <typename Leaf, typename Out>
void transform_to(const Task& task, at::TensorList inputs, const Layout& layout, const at::Tensor& result) {
  const Operands operands(task.formula, inputs, layout);
  const int largest = largest_operand(layout, static_cast<int>(inputs.size()));
  const sum::Strides& kept = layout.kept[largest];
  const bool columns = are_columns(kept, layout.reduced[largest]);
  auto* const out = static_cast<Out*>(result.mutable_data_ptr());
  const int64_t outputs = result.numel();
  const int64_t n = inputs[0].numel() / outputs;

  c10::SmallVector<sum::Kept, 6> dims;
  int64_t step = 1;
  for (int d = 0; d < kept.dims; ++d) {
    const int64_t size = kept.size[d].value;
    dims.push_back({size, kept.stride[d] * operands.element_size(largest), step});
    step *= size;
  }
  const sum::Work work =
      sum::work_of(operands.first(largest), n, dims, sum::threads_for(inputs[0].numel()), {kBlock, 1});
  c10::SmallVector<Leaf, 256> parts(work.ranges > 1 ? work.ranges * outputs : 0);
  sum::for_each_task(work, [&](const Elements&, const sum::Task& t) {
    std::array<Leaf, kBlock> sums;
    operands.sums(t.begin, t.end, t.output, work.across.step, t.count, columns, sums.data());
    for (int64_t i = 0; i < t.count; ++i) {
      const int64_t output = t.output + i * work.across.step;
      if (work.ranges == 1) {
        out[output] = finish<Out>(task, sums[i], n);
      } else {
        parts[t.range * outputs + output] = sums[i];
      }
    }
  });
  if (work.ranges == 1) return;
  const auto size = static_cast<int64_t>(sizeof(Leaf));
  const Elements of_ranges = sum::row(parts.data(), sum::kLeafType<Leaf>, work.ranges, outputs * size);
  sum::tree_sums(of_ranges, 0, work.ranges, {outputs, size}, parts.data());
  for (int64_t i = 0; i < outputs; ++i) out[i] = finish<Out>(task, parts[i], n);
}

/// Part: float or double.
template <typename Part>
void transform_floats(const Task& task, at::TensorList inputs, const Layout& layout, const at::Tensor& result) {
  using Pair = Complex<Part>;
  switch (result.scalar_type()) {
    case at::kComplexFloat:
    case at::kComplexDouble:
      return transform_to<Pair, Pair>(task, inputs, layout, result);
    case at::kHalf:
      if (task.formula.is_pair) return transform_to<Pair, at::Half>(task, inputs, layout, result);
      return transform_to<Part, at::Half>(task, inputs, layout, result);
    case at::kBFloat16:
      if (task.formula.is_pair) return transform_to<Pair, at::BFloat16>(task, inputs, layout, result);
      return transform_to<Part, at::BFloat16>(task, inputs, layout, result);
    default:
      if (task.formula.is_pair) return transform_to<Pair, Part>(task, inputs, layout, result);
      return transform_to<Part, Part>(task, inputs, layout, result);
  }
}

}  // namespace

void transform_cpu(const Task& task, at::TensorList tensors, sum::DimSet reduced, at::ScalarType type,
                   const at::Tensor& result) {
  const DenormalsKept kept;
  const Described described(tensors, reduced);
  const at::TensorList inputs = described.inputs();
  switch (type) {
    case at::kFloat:
      return transform_floats<float>(task, inputs, described.layout(), result);
    case at::kDouble:
      return transform_floats<double>(task, inputs, described.layout(), result);
    default:
      return transform_to<std::uint64_t, std::uint64_t>(task, inputs, described.layout(), result);
  }
}

}  // namespace reduce_ops::transform
