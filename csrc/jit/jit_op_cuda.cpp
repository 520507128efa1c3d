// The engine as private operators, for `python -m reduce_ops compile` and `cache`, and for tests: they need no GPU.

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "exact/exact_kernels.h"
#include "jit/compiler.h"
#include "jit/jit_op.h"
#include "jit/kernel.h"
#include "jit/sources.h"
#include "jit/warn.h"
#include "ladder/ladder_kernels.h"
#include "sum/plan_op.h"
#include "sum/steps.h"
#include "sum_dtypes.h"
#include "transform/launch_of.h"
#include "transform/transform_op.h"

namespace reduce_ops::jit {
namespace {

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor& like) {
  return at::empty(sizes, like.options().dtype(dtype).device(at::kMeta));
}

std::string text_of(const Name& name) { return name.header + " " + name.expression; }

/// By its name in kOperatorNames.
sum::Operator operator_of(const char* caller, const std::string& name) {
  const auto* const found = std::find(std::begin(sum::kOperatorNames), std::end(sum::kOperatorNames), name);
  TORCH_CHECK(found != std::end(sum::kOperatorNames), caller, ": operator is ", name,
              "; accepted are kOperatorNames of sum/operator.h");
  return static_cast<sum::Operator>(found - std::begin(sum::kOperatorNames));
}

/// A header and an expression, as kernels() gives them.
Name name_of(const std::string& kernel) {
  const size_t space = kernel.find(' ');
  TORCH_CHECK(space != std::string::npos, "kernel is ", kernel,
              "; accepted is a header and an expression, as _kernels gives them");
  return {kernel.substr(0, space), kernel.substr(space + 1)};
}

void check_architecture(const std::string& architecture) {
  const bool is_one =
      architecture.size() > 4 && architecture.rfind("sm_", 0) == 0 &&
      std::all_of(architecture.begin() + 3, architecture.end(), [](char c) { return c >= '0' && c <= '9'; });
  TORCH_CHECK(is_one, "architecture is ", architecture, "; accepted is one such as sm_90");
}

Answer answer(const Made& made) { return {made.path, made.bytes, made.compiled}; }

const bool kWarnsThroughPyTorch = [] {
  set_warn([](const std::string& message) { TORCH_WARN(message); });
  return true;
}();

}  // namespace

std::vector<std::string> kernels(const at::Tensor& self, at::OptionalIntArrayRef dims,
                                 std::optional<at::ScalarType> dtype, int64_t multiprocessors,
                                 std::optional<int64_t> l2_bytes, const std::string& name) {
  const Gpu gpu = sum::checked_gpu("_kernels", multiprocessors, l2_bytes);
  TORCH_CHECK(self.numel() > 0, "_kernels: self has no elements");
  const sum::Operator op = operator_of("_kernels", name);
  std::vector<std::string> names;
  const auto launch = [&names](sum::Launch& l) {
    sum::start(l, [&names](const sum::Instance& instance, const Geometry&, void**) {
      names.push_back(text_of(sum::name_of(instance)));
      return cudaSuccess;
    });
  };
  const auto sum_into = [&](sum::Operator asked, const at::Tensor& x, sum::DimSet reduced, at::ScalarType accumulate,
                            const at::Tensor& result) {
    sum::run_steps(asked, x, reduced, accumulate, result,
                   {gpu, empty, [](const at::Tensor&, const at::Tensor&) {}, launch});
  };
  sum::sum(self, {dims, false, dtype, op}, sum_into, empty);
  return names;
}

std::vector<std::string> transform_kernels(at::TensorList tensors, c10::string_view formula,
                                           at::OptionalIntArrayRef dims, std::optional<at::ScalarType> dtype,
                                           int64_t multiprocessors, std::optional<int64_t> l2_bytes,
                                           const std::string& name) {
  const Gpu gpu = sum::checked_gpu("_transform_kernels", multiprocessors, l2_bytes);
  const sum::Operator op = operator_of("_transform_kernels", name);
  std::vector<std::string> names;
  const auto into = [&](const transform::Task& task, at::TensorList inputs, sum::DimSet reduced, at::ScalarType type,
                        const at::Tensor& result) {
    const transform::Described described(inputs, reduced);
    const transform::Task asked{task.formula, op, task.freedom};
    const bool real = op != sum::Operator::sum;  // also of pairs
    const at::Tensor to = real ? sum::empty_cpu(result.sizes(), type, result) : result;
    transform::Launch l = transform::launch_of(asked, described, type, to);
    l.slots = [] { return nullptr; };
    transform::start(l, gpu, [&names](const Key&, const std::function<Name()>& kernel, const Geometry&, void**) {
      names.push_back(text_of(kernel()));
      return cudaSuccess;
    });
  };
  transform::transform_sum(tensors, {{formula.data(), formula.size()}, dims, false, dtype}, into, sum::empty_cpu);
  return names;
}

std::vector<std::string> exact_kernels() {
  std::vector<std::string> names;
  for (const Name& name : exact::kernel_names()) names.push_back(text_of(name));
  return names;
}

Answer compile_op(const std::string& kernel, const std::string& architecture, const std::string& folder) {
  check_architecture(architecture);
  return answer(make(name_of(kernel), architecture, folder));
}

Answer find_op(const std::string& kernel, const std::string& architecture) {
  check_architecture(architecture);
  return answer(make_ready(name_of(kernel), architecture));
}

std::tuple<int64_t, int64_t> counts_op() {
  const Counts c = counts();
  return {c.loaded, c.compiled};
}

std::string sources() { return std::string(kSourcesHash); }

}  // namespace reduce_ops::jit
