// Which reduction an operator of PyTorch is.

#pragma once

#include <cstdint>

namespace reduce_ops::sum {

/// In the order of kOperatorNames (instance_cuda.cpp), which names what device/operators.cuh defines.
enum class Operator : uint8_t { sum, mean, sum_of_squares, norm, max };

/// As torch.ops.reduce has it, of those that it has.
constexpr const char* name_of(Operator op) { return op == Operator::mean ? "mean" : "sum"; }

/// Whether elements come in as something else than themselves. What an earlier launch left is in already.
constexpr bool maps(Operator op) { return op == Operator::sum_of_squares || op == Operator::norm; }

/// What an earlier launch computes of parts of an output: all but what is done in the end.
constexpr Operator of_parts(Operator op) {
  switch (op) {
    case Operator::mean:
      return Operator::sum;
    case Operator::norm:
      return Operator::sum_of_squares;
    default:
      return op;
  }
}

}  // namespace reduce_ops::sum
