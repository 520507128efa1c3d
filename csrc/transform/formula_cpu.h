// Sums of a formula on the CPU, without PyTorch; each instruction set has its own (kernels_cpu.inc).

#pragma once

#include <cstdint>

#include "sum/tree_cpu.h"
#include "transform/formula.h"

namespace reduce_ops::transform {

/// A formula as plain pointers, and where its operands lie: operand[k] those of the first output, the others across[k]
/// bytes further on each. The sizes of all are the same.
struct FormulaOnCpu {
  const Step* steps;
  int count;
  const double* constants;
  int operands;
  const sum::Elements* operand;
  const std::int64_t* across;
  bool columns;  // whether neighbouring outputs, not elements, are neighbours in memory
};

/// As sum::tree_sums(), of the values of the formula. Leaf: what they are computed in, complex for a pair.
template <typename Leaf>
void formula_sums(const FormulaOnCpu& formula, std::int64_t begin, std::int64_t end, std::int64_t outputs, Leaf* sums);

}  // namespace reduce_ops::transform
