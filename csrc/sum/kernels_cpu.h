// The canonical tree for each instruction set of the CPU; tree_cpu.cpp picks one.

#pragma once

#include <cstdint>

#include "isa_cpu.h"
#include "sum/tree_cpu.h"
#include "transform/formula_cpu.h"

namespace reduce_ops::sum {

// As tree_sums() and extreme_elements() of tree_cpu.h, and formula_sums() of transform/formula_cpu.h.
namespace baseline {
template <typename Leaf>
void sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums);
template <typename Leaf>
void extremes(bool largest, const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences,
              Leaf* results);
template <typename Leaf>
void formula_sums(const transform::FormulaOnCpu& formula, std::int64_t begin, std::int64_t end, std::int64_t outputs,
                  Leaf* sums);
}  // namespace baseline
namespace avx2 {
template <typename Leaf>
void sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums);
template <typename Leaf>
void extremes(bool largest, const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences,
              Leaf* results);
template <typename Leaf>
void formula_sums(const transform::FormulaOnCpu& formula, std::int64_t begin, std::int64_t end, std::int64_t outputs,
                  Leaf* sums);
}  // namespace avx2
namespace avx512 {
template <typename Leaf>
void sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums);
template <typename Leaf>
void extremes(bool largest, const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences,
              Leaf* results);
template <typename Leaf>
void formula_sums(const transform::FormulaOnCpu& formula, std::int64_t begin, std::int64_t end, std::int64_t outputs,
                  Leaf* sums);
}  // namespace avx512

}  // namespace reduce_ops::sum
