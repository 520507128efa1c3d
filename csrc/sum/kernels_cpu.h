// The canonical tree for each instruction set of the CPU; tree_cpu.cpp picks one.

#pragma once

#include <cstdint>

#include "sum/tree_cpu.h"

namespace reduce_ops::sum {

// As reduce_ops::sum::tree_sum().
namespace baseline {
template <typename Leaf>
Leaf sum(const Elements& elements, std::int64_t begin, std::int64_t end);
}
namespace avx2 {
template <typename Leaf>
Leaf sum(const Elements& elements, std::int64_t begin, std::int64_t end);
}
namespace avx512 {
template <typename Leaf>
Leaf sum(const Elements& elements, std::int64_t begin, std::int64_t end);
}

}  // namespace reduce_ops::sum
