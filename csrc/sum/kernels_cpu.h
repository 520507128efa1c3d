// The canonical tree for each instruction set of the CPU; tree_cpu.cpp picks one.

#pragma once

#include <cstdint>

#include "isa_cpu.h"
#include "sum/tree_cpu.h"

namespace reduce_ops::sum {

// As reduce_ops::sum::tree_sums().
namespace baseline {
template <typename Leaf>
void sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums);
}
namespace avx2 {
template <typename Leaf>
void sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums);
}
namespace avx512 {
template <typename Leaf>
void sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums);
}

}  // namespace reduce_ops::sum
