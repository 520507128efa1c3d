// Plans as operators, for tests, for `python -m reduce_ops tune` and for the curious: what a GPU would, or could, run
// for a tensor on any device.

#include "sum/plan_op.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <string>
#include <utility>

#include "sum/problem.h"
#include "sum/sum_op.h"
#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

std::string name_of(Family family) {
  switch (family) {
    case Family::rows:
      return "rows";
    case Family::tiny_rows:
      return "tiny_rows";
    case Family::small_rows:
      return "small_rows";
    case Family::staged_rows:
      return "staged_rows";
    case Family::columns:
      return "columns";
    case Family::few_rows:
      return "few_rows";
    case Family::narrow_columns:
      return "narrow_columns";
    case Family::lines:
      return "lines";
    case Family::word_tiles:
      return "word_tiles";
    case Family::staged_tiles:
      return "staged_tiles";
    case Family::tiles:
      return "tiles";
    case Family::boxes:
      return "boxes";
  }
  return "";
}

std::string name_of(Layout layout) {
  switch (layout) {
    case Layout::aligned:
      return "aligned";
    case Layout::shifted:
      return "shifted";
    case Layout::runs:
      return "runs";
    case Layout::split:
      return "split";
    case Layout::pitched:
      return "pitched";
    case Layout::strided:
      return "strided";
  }
  return "";
}

std::string name_of(LetNext let_next) {
  switch (let_next) {
    case LetNext::at_end:
      return "at_end";
    case LetNext::when_loaded:
      return "when_loaded";
    case LetNext::at_start:
      return "at_start";
  }
  return "";
}

std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

std::string array(const int* values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

std::string to_json(const Problem& problem, const std::string& family, const Plan& p) {
  const int box_dims = p.family == Family::boxes ? problem.reduced.dims + problem.kept.dims : 0;
  const std::pair<const char*, std::string> fields[] = {
      {"family", in_quotes(family)},
      {"layout", in_quotes(name_of(p.layout))},
      {"threads", std::to_string(p.threads)},
      {"width", std::to_string(p.width)},
      {"vector", std::to_string(p.vector)},
      {"loads", std::to_string(p.loads)},
      {"tiles", std::to_string(p.tiles)},
      {"chunk", std::to_string(p.chunk)},
      {"anywhere", p.anywhere ? "true" : "false"},
      {"segments", std::to_string(p.segments)},
      {"prefetching", std::to_string(p.prefetching)},
      {"let_next", in_quotes(name_of(p.let_next))},
      {"window", std::to_string(p.window)},
      {"ranges", array(p.box.range, box_dims)},  // indices of each dimension, those of the sum first, innermost first
      {"halo", std::to_string(p.box.halo)},
      {"run", std::to_string(p.box.run)},
      {"shared", std::to_string(p.box.shared)},
  };
  std::string text;
  for (const auto& [name, value] : fields) text += (text.empty() ? "{" : ", ") + in_quotes(name) + ": " + value;
  return text + "}";
}

/// The problem of a sum; `op` is who complains.
Problem problem_of(const char* op, const at::Tensor& tensor, at::OptionalIntArrayRef dims,
                   std::optional<at::ScalarType> dtype) {
  const bool has_no_kernels = tensor.scalar_type() == at::kComplexHalf;
  const at::Tensor self = has_no_kernels ? tensor.to(at::kComplexFloat) : tensor;
  const at::ScalarType stored = result_dtype("sum", self, dtype);
  const DimSet reduced = reduced_dims(self, dims);
  const auto sizes = result_sizes(self.sizes(), reduced, false);
  const at::Tensor result = at::empty(sizes, self.options().dtype(stored).device(at::kMeta));
  TORCH_CHECK(self.numel() > 0, op, ": self has no elements");
  Problem problem{};
  TORCH_CHECK(
      describe(Operator::sum, self, reduced, accumulate_dtype(dtype.value_or(self.scalar_type())), result, problem), op,
      ": self has more than ", kMaxDims, " dimensions of a kind after merging");
  return problem;
}

/// The plan as a JSON object. Python takes its fields from there, so this is the only list of them.
std::string plan(const at::Tensor& self, at::OptionalIntArrayRef dims, std::optional<at::ScalarType> dtype,
                 int64_t multiprocessors, std::optional<int64_t> l2_bytes) {
  const Gpu gpu = checked_gpu("_plan", multiprocessors, l2_bytes);
  const Problem problem = problem_of("_plan", self, dims, dtype);
  if (is_copy(problem)) return to_json(problem, "copy", {});
  if (const int64_t row = row_across_memory(problem); row > 0) {
    // two sums, of rows as columns and of their nodes
    return to_json(problem, "rows_across_memory", {.family = {}, .window = static_cast<int>(row)});
  }
  const auto plan = make_plan(problem, gpu);
  TORCH_CHECK(plan, "_plan: self has ", problem.n, " elements for each of ", problem.outputs,
              " results, more than one launch covers");
  return to_json(problem, *plan);
}

/// All that _sum_with_plan takes, as a JSON array: first that of _plan, unless a call copies or sums in two steps.
std::string plans(const at::Tensor& self, at::OptionalIntArrayRef dims, std::optional<at::ScalarType> dtype,
                  int64_t multiprocessors, std::optional<int64_t> l2_bytes) {
  const Gpu gpu = checked_gpu("_plans", multiprocessors, l2_bytes);
  const Problem problem = problem_of("_plans", self, dims, dtype);
  std::string text;
  for (const Plan& plan : candidates(problem, gpu)) {
    text += (text.empty() ? "[" : ",\n ") + to_json(problem, plan);
  }
  return text.empty() ? "[]" : text + "]";
}

}  // namespace

Gpu checked_gpu(const char* op, int64_t multiprocessors, std::optional<int64_t> l2_bytes) {
  constexpr int64_t kMost = 1 << 20;
  TORCH_CHECK(multiprocessors > 0 && multiprocessors <= kMost, op, ": multiprocessors is ", multiprocessors,
              "; accepted are 1 to ", kMost);
  Gpu gpu = gpu_of(static_cast<int>(multiprocessors));
  gpu.l2_bytes = l2_bytes.value_or(gpu.l2_bytes);
  TORCH_CHECK(gpu.l2_bytes >= 0, op, ": l2_bytes is ", gpu.l2_bytes, "; accepted are 0 and more");
  return gpu;
}

std::string to_json(const Problem& problem, const Plan& plan) { return to_json(problem, name_of(plan.family), plan); }

TORCH_LIBRARY_IMPL(reduce, CompositeExplicitAutograd, m) {
  m.impl("_plan", &plan);
  m.impl("_plans", &plans);
}

}  // namespace reduce_ops::sum
