#include <ATen/ops/as_strided.h>

#include <tuple>
#include <vector>

#include "sum/problem.h"
#include "sum/steps.h"
#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

/// The view of self in which each row of so many elements (row_across_memory) is a dimension of its own, the last one;
/// before it come the kept ones and those of an output's rows.
at::Tensor rows_of(const at::Tensor& self, const Problem& p, int64_t row) {
  std::vector<int64_t> sizes, strides;
  for (const Strides* s : {&p.kept, &p.reduced}) {
    for (int d = s->dims - 1; d >= 0; --d) {
      sizes.push_back(s->size[d].value);
      strides.push_back(s->stride[d]);
    }
  }
  sizes.back() /= row;
  strides.back() *= row;
  sizes.push_back(row);
  strides.push_back(p.reduced.stride[0]);
  return self.as_strided(sizes, strides);
}

/// tensor: of `count` elements an output, or of what an earlier launch left of them.
void run_all(Operator op, const at::Tensor& tensor, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result,
             int64_t count, const Steps& steps) {
  at::Tensor self = tensor;
  Launch l{.op = op, .count = count};
  if (!describe(op, self, reduced, accumulate, result, l.problem)) {
    std::tie(self, reduced) = kept_first(self, reduced);
    TORCH_INTERNAL_ASSERT(describe(op, self, reduced, accumulate, result, l.problem));
  }
  if (is_copy(l.problem) && keeps_one(op)) return steps.copy(self.view(result.sizes()), result);
  if (const int64_t row = row_across_memory(l.problem); row > 0) {
    const at::Tensor rows = rows_of(self, l.problem, row);
    const int64_t kept = l.problem.kept.dims, dims = rows.dim() - 1;
    const at::Tensor nodes = steps.empty(rows.sizes().slice(0, dims), accumulate, self);
    run_all(of_parts(op), rows, dims_from(dims), accumulate, nodes, row, steps);
    return run_all(of_nodes(op), nodes, dims_from(kept), accumulate, result, count, steps);
  }
  const auto plan = make_plan(l.problem, steps.gpu);
  TORCH_CHECK(plan, name_of(op), ": self has ", l.problem.n, " elements for each of ", l.problem.outputs,
              " results, more than one launch covers");
  l.plan = *plan;
  run_plan(self, accumulate, result, l, steps);
}

}  // namespace

void run_steps(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result,
               const Steps& steps) {
  run_all(op, self, reduced, accumulate, result, self.numel() / result.numel(), steps);
}

void run_plan(const at::Tensor& self, at::ScalarType accumulate, const at::Tensor& result, Launch& l,
              const Steps& steps) {
  l.in = type_of(self.scalar_type());
  l.accumulate = type_of(accumulate);
  l.out = type_of(result.scalar_type());
  l.data = self.const_data_ptr();
  if (l.plan.window == 0) {
    l.result = result.mutable_data_ptr();
    return steps.launch(l);
  }
  const at::Tensor nodes = steps.empty({l.problem.outputs, nodes_of(l.problem, l.plan.window)}, accumulate, self);
  l.result = nodes.mutable_data_ptr();
  const Operator op = l.op;
  l.op = of_parts(op);
  steps.launch(l);
  run_all(of_nodes(op), nodes, dims_from(1), accumulate, result, l.count, steps);
}

}  // namespace reduce_ops::sum
