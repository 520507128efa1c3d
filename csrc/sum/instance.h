// Which kernel a launch takes: an instance of one of the templates of csrc/device. An instance holds structure, never
// an extent, so that a new shape seldom needs a new kernel.

#pragma once

#include <cstdint>
#include <string>

#include "jit/kernel.h"
#include "sum/operator.h"
#include "types.h"

namespace reduce_ops::sum {

/// The templates, in the order of kTemplates (instance_cuda.cpp).
enum class Template : uint8_t {
  warp,
  block,
  small_grid,
  grid,
  tiny_rows,
  small_rows,
  staged_rows,
  columns,
  few_rows,
  narrow_columns,
  lines,
  word_tiles,
  staged_tiles,
  tiles,
  boxes,
};

/// Where a kernel of rows gets its elements from (sources.cuh, shifted.cuh, strided.cuh), in the order of kSources.
enum class Source : uint8_t {
  none,
  aligned,
  shifted,
  shifted_in_block,
  shifted_little,
  shifted_by_0,
  shifted_by_1,
  shifted_by_2,
  shifted_by_3,
  runs,
  split,
  stepped,
  pitched,
  strided,
};

/// Without a padding byte: two instances are the same if their bytes are.
struct Instance {
  Template of;
  uint8_t in, accumulate, out;  // Type
  Source source = Source::none;
  uint8_t loads = 0;    // of the source
  bool places = false;  // whether outputs lie in another order than rows do
  Operator op = Operator::sum;
  int16_t number[4] = {};  // the other arguments of the template: numbers and truth values
};
static_assert(sizeof(Instance) == sizeof(jit::Key));

/// The type that kernels of an operator accumulate in, such as "Node<Norm<float32>>".
std::string accumulate_name(Operator op, Type accumulate);

/// The header that has the template, and the expression that names the instance, such as
/// "sum::sum_grid<512, false, sum::Aligned<float32, float32, 8>, sum::InPlace, float32>".
jit::Name name_of(const Instance& instance);

}  // namespace reduce_ops::sum
