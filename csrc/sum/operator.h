// Which reduction an operator of PyTorch is.

#pragma once

#include <cstdint>

namespace reduce_ops::sum {

/// In the order of kOperatorTypes (instance_cuda.cpp), which names what device/operators.cuh defines.
enum class Operator : uint8_t {
  sum,
  mean,
  nansum,
  count,
  sum_of_abs,
  sum_of_squares,
  norm,
  root,
  max,
  max_abs,
  min,
  min_abs,
  variance,
  deviation,
};
inline constexpr const char* kOperatorNames[] = {
    "sum",  "mean", "nansum",  "count", "sum_of_abs", "sum_of_squares", "norm",
    "root", "max",  "max_abs", "min",   "min_abs",    "variance",       "deviation"};

/// Operators by the names that torch.ops.reduce has for them.
inline constexpr char kSum[] = "sum";
inline constexpr char kSumExact[] = "sum_exact";
inline constexpr char kMean[] = "mean";
inline constexpr char kMeanExact[] = "mean_exact";
inline constexpr char kNansum[] = "nansum";
inline constexpr char kVectorNorm[] = "vector_norm";
inline constexpr char kVectorNormExact[] = "vector_norm_exact";
inline constexpr char kAmax[] = "amax";
inline constexpr char kAmin[] = "amin";
inline constexpr char kVar[] = "var";
inline constexpr char kStd[] = "std";

/// Which of them it is, or a part of.
constexpr const char* name_of(Operator op) {
  switch (op) {
    case Operator::sum:
      return kSum;
    case Operator::mean:
      return kMean;
    case Operator::nansum:
      return kNansum;
    case Operator::max:
      return kAmax;
    case Operator::min:
      return kAmin;
    case Operator::variance:
      return kVar;
    case Operator::deviation:
      return kStd;
    default:
      return kVectorNorm;
  }
}

/// Whether it is vector_norm, of some order.
constexpr bool is_norm(Operator op) {
  return op == Operator::count || op == Operator::sum_of_abs || op == Operator::norm || op == Operator::max_abs ||
         op == Operator::min_abs;
}

/// Whether one element is its own result.
constexpr bool keeps_one(Operator op) {
  return op == Operator::sum || op == Operator::mean || op == Operator::max || op == Operator::min;
}

/// Whether the order of elements makes no difference.
constexpr bool has_no_order(Operator op) {
  return op == Operator::max || op == Operator::max_abs || op == Operator::min || op == Operator::min_abs;
}

/// What a launch computes of parts of an output, their nodes: all but what is done in the end.
constexpr Operator of_parts(Operator op) {
  switch (op) {
    case Operator::mean:
    case Operator::root:
      return Operator::sum;
    case Operator::norm:
      return Operator::sum_of_squares;
    default:
      return op;
  }
}

/// What the next launch computes of those nodes: all but what was done to each element.
constexpr Operator of_nodes(Operator op) {
  switch (op) {
    case Operator::nansum:
    case Operator::count:
    case Operator::sum_of_abs:
    case Operator::sum_of_squares:
      return Operator::sum;
    case Operator::norm:
      return Operator::root;
    case Operator::max_abs:
      return Operator::max;
    case Operator::min_abs:
      return Operator::min;
    default:
      return op;
  }
}

}  // namespace reduce_ops::sum
