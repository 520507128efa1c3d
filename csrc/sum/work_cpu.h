// How the CPU splits sums into tasks: blocks of neighbouring outputs, by ranges of their elements.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include "sum/sum_op.h"
#include "sum/tree_cpu.h"

namespace reduce_ops::sum {

/// One run of elements, a stride in bytes apart.
Elements row(const void* data, Type type, int64_t size, int64_t stride);

/// The type of such leaves as elements; of complex ones that of their parts.
template <typename Leaf>
inline constexpr Type kLeafType = sizeof(Leaf) == 4 ? Type::float32 : Type::float64;
template <>
inline constexpr Type kLeafType<std::uint64_t> = Type::uint64;
template <>
inline constexpr Type kLeafType<Complex<float>> = Type::float32;

/// self with the reduced dimensions in the order in which they lie in memory, for what has no order of its own.
at::Tensor in_memory_order(const at::Tensor& self, DimSet reduced);

/// Where the elements of the first output lie.
Elements elements_of(const at::Tensor& self, DimSet reduced);

/// Threads that so many elements are worth.
int64_t threads_for(int64_t elements);

/// A dimension that is not summed over.
struct Kept {
  int64_t size;
  int64_t stride;  // of self, in bytes
  int64_t step;    // of the result, in elements
};

/// What tasks may be.
struct Grain {
  int64_t block;  // outputs at most
  int64_t range;  // elements of an output at least
};

/// All sums, and how they are split into tasks.
struct Work {
  Elements elements;  // of the first output
  int64_t n;          // for each output
  c10::SmallVector<Kept, 6> outer;
  Kept across;  // outputs along it are summed together
  int64_t block;
  int64_t blocks;  // along `across`
  int64_t outer_size;
  int64_t range;  // a power of two unless there is one only
  int64_t ranges;

  int64_t outputs() const { return outer_size * across.size; }
  int64_t tasks() const { return outer_size * blocks * ranges; }
};

/// Part of the elements of outputs that lie side by side.
struct Task {
  int64_t range;
  int64_t begin;  // of elements, as is end
  int64_t end;
  int64_t output;  // the first one; the others are across.step further on each
  int64_t count;
};

Work work_of(const at::Tensor& self, DimSet reduced, int64_t outputs, Grain grain);

/// The same of elements of the first output, n an output, and the dimensions of the outputs, innermost first.
Work work_of(const Elements& elements, int64_t n, const c10::SmallVector<Kept, 6>& kept, int64_t threads, Grain grain);

/// Calls run(elements, task) for all tasks, on several threads if there is enough to do. elements: those of the first
/// output of the task.
void for_each_task(const Work& work, c10::function_ref<void(const Elements&, const Task&)> run);

}  // namespace reduce_ops::sum
