// What `reduce::sum`, `mean` and other operators do on every backend: check arguments, settle dtypes and shapes, hand
// over to the backend.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <bitset>
#include <optional>
#include <string_view>
#include <utility>

#include "sum/operator.h"

namespace reduce_ops::sum {

/// Bit d is set if dimension d is summed over. Tensors of more than 64 dimensions are summed over all of them only.
using DimSet = std::bitset<64>;

inline bool has(DimSet reduced, int64_t d) { return d >= static_cast<int64_t>(reduced.size()) || reduced[d]; }

/// Reduces self, which has elements, over the dimensions of `reduced`, each output in the canonical order. result: on
/// the device of self, one element for each index of the other dimensions, dense and in row-major order of that index
/// (dimensions of size 1 aside). Its dtype is `accumulate`, or that of self where that is float16 or bfloat16.
using SumInto = void(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType accumulate,
                     const at::Tensor& result);

/// A new tensor on the device of `like`, without the detour through the dispatcher that at::empty takes (0.4 us).
using Allocate = at::Tensor(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor& like);

/// What a caller asks for, as the overloads of overloads.h have it. No dims, or an empty list of them: all.
struct Request {
  at::OptionalIntArrayRef dims;
  bool keepdim;
  std::optional<at::ScalarType> dtype;
  Operator op = Operator::sum;
};

/// Whether there is vector_norm of that order.
bool has_norm(const at::Scalar& ord);
/// The norm of that order of vector_norm or, of two orders only, of vector_norm_exact; an error that names the order if
/// there is none.
Operator norm_of(std::string_view name, const at::Scalar& ord);
/// Which order that is.
double ord_of(Operator norm);

at::Tensor sum(const at::Tensor& self, const Request& request, c10::function_ref<SumInto> sum_into, Allocate* allocate);
at::Tensor& sum_out(const at::Tensor& self, const Request& request, at::Tensor& out,
                    c10::function_ref<SumInto> sum_into, Allocate* allocate);

/// Whether a backend converts `input` to `element` while it loads; any other pair is converted before.
bool converts_on_load(at::ScalarType input, at::ScalarType element);

/// Throws where there are no elements for what only they could give.
void check_has_elements(Operator op, const at::Tensor& self, at::OptionalIntArrayRef dims);

// For backends that have no data, only dtypes and sizes, and for sums of other kinds; `op` is who complains.
// argument: where dtype is from, for errors.
at::ScalarType result_dtype(std::string_view op, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                            std::string_view argument = "dtype");
at::ScalarType result_dtype(Operator op, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                            std::string_view argument = "dtype");
DimSet reduced_dims(int64_t rank, at::OptionalIntArrayRef dims);
inline DimSet reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  return reduced_dims(self.dim(), dims);
}
/// The dimensions from `first` on.
inline DimSet dims_from(int64_t first) { return DimSet().set() << first; }
/// A copy of `self` with its kept dimensions first, and its reduced ones: either merge to one.
std::pair<at::Tensor, DimSet> kept_first(const at::Tensor& self, DimSet reduced);
/// What the mean of no elements is, in both components of a complex number.
void fill_with_nan(const at::Tensor& means);
/// What dtype= is where the caller gives out= alone: that of out, unless the result has it anyway, or takes none.
std::optional<at::ScalarType> dtype_of(Operator op, const at::Tensor& self, const at::Tensor& out);
void check_out(std::string_view op, const at::Tensor& self, at::ScalarType result, const at::Tensor& out);

/// The sizes of a sum over `reduced`; Size is int64_t or SymInt.
template <typename Size>
c10::SmallVector<Size, 6> result_sizes(c10::ArrayRef<Size> sizes, DimSet reduced, bool keepdim) {
  c10::SmallVector<Size, 6> result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!has(reduced, static_cast<int64_t>(d))) {
      result.push_back(sizes[d]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

/// torch.ops.reduce.sum, through the dispatcher.
at::Tensor call_sum(const at::Tensor& self, const Request& request);

// Of the backends, which library.cpp and library_cuda.cpp register.
SumInto sum_cpu;
SumInto sum_cuda;
Allocate empty_cpu;
Allocate empty_cuda;

}  // namespace reduce_ops::sum
