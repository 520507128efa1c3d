// What backends are asked for. No PyTorch.

#pragma once

#include "sum/operator.h"
#include "transform/formula.h"

namespace reduce_ops::transform {

/// What is computed of the values of a formula: their sum, or, of the pair (d * d, d) of differences from a mean,
/// Operator::variance or deviation.
struct Task {
  const Formula& formula;
  sum::Operator op = sum::Operator::sum;
  double freedom = 0;  // degrees, of variances
};

}  // namespace reduce_ops::transform
