// All plans that are legal, for tests of what no plan may change and for `python -m reduce_ops tune`.

#include <algorithm>

#include "plan/families.h"

namespace reduce_ops::sum {

std::vector<Plan> candidates(const Problem& p, const Gpu& gpu) {
  std::vector<Plan> plans;
  const auto add = [&](Plan plan) {
    set_start(p, plan, gpu);
    if (std::find(plans.begin(), plans.end(), plan) == plans.end()) plans.push_back(plan);
  };
  if (const auto chosen = make_plan(p, gpu)) add(*chosen);
  if (const auto rows = plan_rows(p, gpu)) {
    add(*rows);
    for (const Plan& other : other_rows(p, *rows)) add(other);
  }
  if (const auto lines = lines_across(p)) {
    for (const Plan& plan : every_across(p, *lines, gpu)) add(plan);
  }
  if (const auto boxes = plan_boxes(p, gpu)) add(boxes->plan);
  if (p.outputs == 1) return plans;
  for (const Plan& plan : every_short_rows(p, gpu)) add(plan);
  if (const auto narrow = plan_narrow_columns(p, gpu)) add(*narrow);
  const int vector = column_vector(p.element_size);
  if (vector > 1 && fits_vector(p, vector)) {
    for (const Plan& plan : every_columns(p, vector, gpu)) add(plan);
  }
  for (const Plan& plan : every_columns(p, 1, gpu)) add(plan);
  return plans;
}

}  // namespace reduce_ops::sum
