// What the operators sum_vN and block_sums_vN do on every backend: check arguments, bring the input into a form
// that the rungs read, and run passes until one value is left. A backend adds one thing, how to run a pass.

#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ladder/schedule.h"

namespace reduce_ops::ladder {

/// Runs one pass: `sums` (grid.blocks elements) from the elements of `a` (contiguous, not empty), their dtypes a pair
/// of types.def.
using RunPass = void (*)(const Rung& rung, const Grid& grid, const at::Tensor& a, const at::Tensor& sums);

/// The dtypes of the two operators: block sums are returned in `accumulate`, the sum in `result`.
struct Dtypes {
  at::ScalarType element;  // what self is converted to before it is summed
  at::ScalarType accumulate;
  at::ScalarType result;
};

/// Throws if self or dtype cannot be summed; the message names the argument.
Dtypes check_dtypes(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype);

/// Throws if block_size is not one that the rung takes.
void check_block_size(const Rung& rung, int64_t block_size);

/// Throws if the input needs more blocks than a CUDA grid can have.
void check_grid(const Rung& rung, const Grid& grid, int64_t n);

at::Tensor sum(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype, int64_t block_size,
               RunPass run_pass);
at::Tensor block_sums(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype, int64_t block_size,
                      RunPass run_pass);

/// The rung on every self[i], each with the bits of a call of its own; the results are the rows of a tensor.
at::Tensor sums_of_rows(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                        int64_t block_size, RunPass run_pass);
at::Tensor block_sums_of_rows(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                              int64_t block_size, RunPass run_pass);

/// rungs()[version]; throws if there is none.
const Rung& rung_of(int64_t version);

/// Throws unless self has rows.
void check_rows(const at::Tensor& self);

// The RunPass of each backend; library.cpp and library_cuda.cpp register them.
void run_pass_cpu(const Rung& rung, const Grid& grid, const at::Tensor& a, const at::Tensor& sums);
void run_pass_cuda(const Rung& rung, const Grid& grid, const at::Tensor& a, const at::Tensor& sums);

}  // namespace reduce_ops::ladder
