// What `reduce::sum_exact`, `mean_exact`, `vector_norm_exact`, `exact_state` and `exact_round` do on every backend:
// check arguments, settle dtypes and shapes, hand over to the backend.

#pragma once

#include "exact/state.h"
#include "sum/sum_op.h"

namespace reduce_ops::exact {

using sum::DimSet;

/// Sums a term of each element of self exactly over the dimensions of `reduced`. self: float8, float16, bfloat16,
/// float32 or float64, of any strides, without negative bit; no output is without elements. result: on the device of
/// self, contiguous, an output for each index of the other dimensions, in row-major order; int64 gets fresh states (a
/// dimension more, of the words of a layout), float64, float32, float16 and bfloat16 the sums as `finish` has them.
/// Only float32 is rounded to odd, and there are roots of squares only.
using ExactInto = void(const at::Tensor& self, DimSet reduced, Term term, const at::Tensor& result, Finish finish);

/// Rounds states of floats, contiguous, into the elements of result, as above; one at least.
using RoundInto = void(const at::Tensor& states, const at::Tensor& result, Finish finish);

/// What a backend brings.
struct Backend {
  ExactInto* exact_into;
  RoundInto* round_into;
  sum::Allocate* allocate;
};

/// The sum, the mean or the norm, as the request has it.
at::Tensor reduce_exact(const at::Tensor& self, const sum::Request& request, const Backend& backend);
at::Tensor& norm_exact_out(const at::Tensor& self, const sum::Request& request, at::Tensor& out,
                           const Backend& backend);
at::Tensor exact_state(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, Term term,
                       const Backend& backend);
at::Tensor exact_round(const at::Tensor& state, at::ScalarType dtype, int64_t count, bool root, const Backend& backend);

// For backends that have no data, only dtypes and sizes.

/// Words of a state of elements of this dtype.
int64_t words_of(at::ScalarType input, Term term);
/// What of= of exact_state names, if self has it.
Term term_of(const at::Tensor& self, std::string_view of);
void check_state(const at::Tensor& state, at::ScalarType dtype, const c10::SymInt& count, bool root);
/// The request for a norm in out, which tells the dtype where none is given; throws if out cannot hold it.
sum::Request request_for(const at::Tensor& self, const sum::Request& request, const at::Tensor& out);
/// The dtype of the result of reduce_exact().
at::ScalarType exact_dtype(const at::Tensor& self, const sum::Request& request);
/// What sizes of a state are left when it is rounded to `dtype`.
c10::SymIntArrayRef rounded_sizes(const at::Tensor& state, at::ScalarType dtype);

// Of the backends, which library.cpp and library_cuda.cpp register.
ExactInto exact_cpu;
ExactInto exact_cuda;
RoundInto round_cpu;
RoundInto round_cuda;

}  // namespace reduce_ops::exact
