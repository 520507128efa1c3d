// What operators of several tensors do on every backend: check arguments, settle dtypes and shapes, hand over to the
// backend. transform_sum is the sum of a formula's values; variances are such sums, too.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <memory>
#include <optional>
#include <string_view>
#include <tuple>

#include "sum/sum_op.h"
#include "transform/task.h"

namespace reduce_ops::transform {

/// Reduces the values of the formula over the dimensions of `reduced`, each output in the canonical order. inputs: on
/// one device, of the same sizes, with elements, neither complex nor negated. type: float32, float64 or int64, which
/// they are converted to and everything is computed in. result: as SumInto has it; its dtype is `type`, complex for a
/// sum of pairs, or float16 or bfloat16 where that is float32.
using TransformInto = void(const Task& task, at::TensorList inputs, sum::DimSet reduced, at::ScalarType type,
                           const at::Tensor& result);

/// Variances of self, which has elements, in one read. Returns their means, of dtype `type`; none where it cannot.
using VarianceInto = at::Tensor(const Task& task, const at::Tensor& self, sum::DimSet reduced, at::ScalarType type,
                                const at::Tensor& result);

/// What a caller asks for. No dims, or an empty list of them: all.
struct Request {
  std::string_view formula;
  at::OptionalIntArrayRef dims;
  bool keepdim;
  std::optional<at::ScalarType> dtype;
};

/// The formula, checked against how many tensors there are; an error of PyTorch names what is wrong.
std::shared_ptr<const Formula> checked_formula(at::TensorList tensors, std::string_view text);

/// What a formula is computed in, and the dtype of its sum.
struct Dtypes {
  at::ScalarType type;
  at::ScalarType result;
};
Dtypes dtypes_of(const Formula& formula, at::TensorList tensors, std::optional<at::ScalarType> dtype);

/// The sizes that they have together.
c10::SymDimVector broadcast_sizes(at::TensorList tensors);

at::Tensor transform_sum(at::TensorList tensors, const Request& request, c10::function_ref<TransformInto> into,
                         sum::Allocate* allocate);

/// Degrees of freedom of so many elements; warns if there are none, as torch.var does.
double freedom_of(double count, const std::optional<at::Scalar>& correction);

/// What variances take of a backend.
struct VarianceBackend {
  TransformInto* into;
  sum::SumInto* sum_into;
  sum::Allocate* allocate;
  VarianceInto* variance_into;  // null where there is none
};

/// The variance, or its square root, and the mean.
std::tuple<at::Tensor, at::Tensor> var_mean(const at::Tensor& self, at::OptionalIntArrayRef dims,
                                            const std::optional<at::Scalar>& correction, bool keepdim, bool root,
                                            const VarianceBackend& backend);

// Of the backends, which library.cpp and library_cuda.cpp register.
TransformInto transform_cpu;
TransformInto transform_cuda;
VarianceInto variance_cuda;

}  // namespace reduce_ops::transform
