#include "transform/transform_op.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/DimVector.h>
#include <ATen/ops/resolve_neg.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "sum_dtypes.h"

namespace reduce_ops::transform {
namespace {

constexpr char kName[] = "transform_sum";

/// d * d and d, of the differences d of x0 from x1.
constexpr char kDifferences[] = "x0 x1 sub square x0 x1 sub pair";

at::Tensor prepared(const at::Tensor& tensor, at::ScalarType type, at::IntArrayRef sizes) {
  at::Tensor x = tensor.is_neg() ? tensor.resolve_neg() : tensor;
  if (!sum::converts_on_load(x.scalar_type(), type)) x = converted(x, type);
  return x.sizes() == sizes ? x : x.expand(sizes);
}

/// What a backend writes: it rounds to 16 bits itself; any other dtype is converted to in the end.
at::ScalarType stored_dtype(const Dtypes& dtypes, bool is_pair) {
  if (is_pair) return c10::toComplexType(dtypes.type);
  const bool rounds = dtypes.result == at::kHalf || dtypes.result == at::kBFloat16;
  return rounds && dtypes.type == at::kFloat ? dtypes.result : dtypes.type;
}

}  // namespace

std::shared_ptr<const Formula> checked_formula(at::TensorList tensors, std::string_view text) {
  TORCH_CHECK(!tensors.empty() && tensors.size() <= kMaxInputs, kName, ": there are ", tensors.size(),
              " tensors; accepted are 1 to ", kMaxInputs);
  std::shared_ptr<const Formula> formula;
  try {
    formula = formula_of(text);
  } catch (const std::invalid_argument& e) {
    TORCH_CHECK_VALUE(false, kName, ": ", e.what());
  }
  TORCH_CHECK_VALUE(formula->inputs <= static_cast<int>(tensors.size()), kName, ": formula has x", formula->inputs - 1,
                    "; accepted are x0 to x", tensors.size() - 1, ", as there are ", tensors.size(), " tensors");
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.device() == tensors[0].device(), kName, ": tensors are on ", tensors[0].device(), " and ",
                tensor.device(), "; accepted are tensors on one device");
  }
  return formula;
}

Dtypes dtypes_of(const Formula& formula, at::TensorList tensors, std::optional<at::ScalarType> dtype) {
  at::ScalarType element = tensors[0].scalar_type();
  for (const at::Tensor& tensor : tensors) {
    check_summable(kName, "tensors", tensor, tensor.scalar_type());
    TORCH_CHECK(!tensor.is_complex() && tensor.scalar_type() != at::kUInt64, kName, ": tensors have one of ",
                tensor.scalar_type(), "; accepted are real dtypes but uint64");
    const bool is_float8 = c10::isFloat8Type(tensor.scalar_type());
    element = c10::promoteTypes(c10::isFloat8Type(element) ? at::kFloat : element,
                                is_float8 ? at::kFloat : tensor.scalar_type());
  }
  if (formula.needs_floats && at::isIntegralType(element, /*includeBool=*/true)) {
    element = c10::typeMetaToScalarType(c10::get_default_dtype());
  }
  if (dtype) {
    check_summable(kName, "dtype", tensors[0], *dtype);
    const bool integral = at::isIntegralType(*dtype, /*includeBool=*/true);
    TORCH_CHECK(!at::isComplexType(*dtype), kName, ": dtype is ", *dtype, "; accepted are real dtypes");
    TORCH_CHECK(!integral || at::isIntegralType(element, /*includeBool=*/true), kName, ": dtype is ", *dtype,
                ", but the formula is one of ", element, "; accepted are floating point dtypes");
    element = *dtype;
  }
  const at::ScalarType type = accumulate_dtype(element);
  const at::ScalarType result = dtype ? *dtype : reduce_ops::result_dtype(element);
  return {type, formula.is_pair ? c10::toComplexType(type) : result};
}

c10::SymDimVector broadcast_sizes(at::TensorList tensors) {
  c10::SymDimVector sizes(tensors[0].sym_sizes());
  for (size_t k = 1; k < tensors.size(); ++k) {
    if (tensors[k].sym_sizes() != c10::SymIntArrayRef(sizes)) {
      sizes = at::infer_size_symdimvector(sizes, tensors[k].sym_sizes());
    }
  }
  return sizes;
}

at::Tensor transform_sum(at::TensorList tensors, const Request& request, c10::function_ref<TransformInto> into,
                         sum::Allocate* allocate) {
  const auto parsed = checked_formula(tensors, request.formula);
  const Formula& formula = *parsed;
  const Dtypes dtypes = dtypes_of(formula, tensors, request.dtype);
  at::DimVector sizes(tensors[0].sizes());
  for (size_t k = 1; k < tensors.size(); ++k) {
    if (tensors[k].sizes() != at::IntArrayRef(sizes)) sizes = at::infer_size_dimvector(sizes, tensors[k].sizes());
  }
  std::vector<at::Tensor> inputs;
  inputs.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) inputs.push_back(prepared(tensor, dtypes.type, sizes));
  const sum::DimSet reduced = sum::reduced_dims(inputs[0], request.dims);
  const at::ScalarType stored = stored_dtype(dtypes, formula.is_pair);
  const auto result_sizes = sum::result_sizes(at::IntArrayRef(sizes), reduced, request.keepdim);
  const at::Tensor sums = allocate(result_sizes, stored, tensors[0]);
  if (sums.numel() > 0 && inputs[0].numel() == 0) sums.zero_();
  if (sums.numel() > 0 && inputs[0].numel() > 0) into({formula}, inputs, reduced, dtypes.type, sums);
  return converted(sums, dtypes.result);
}

double freedom_of(double count, const std::optional<at::Scalar>& correction) {
  const double freedom = count - (correction ? correction->toDouble() : 1);
  if (freedom <= 0) {
    TORCH_WARN(
        "var(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
        "(input numel divided by output numel).");
  }
  return std::max(freedom, 0.0);
}

std::tuple<at::Tensor, at::Tensor> var_mean(const at::Tensor& tensor, at::OptionalIntArrayRef dims,
                                            const std::optional<at::Scalar>& correction, bool keepdim, bool root,
                                            const VarianceBackend& backend) {
  const at::ScalarType result = reduce_ops::result_dtype(tensor.scalar_type());
  const at::ScalarType type = accumulate_dtype(result);
  const at::Tensor self = prepared(tensor, type, tensor.sizes());
  const sum::DimSet reduced = sum::reduced_dims(self, dims);
  const auto sizes = sum::result_sizes(self.sizes(), reduced, keepdim);
  const at::Tensor variances = backend.allocate(sizes, stored_dtype({type, result}, /*is_pair=*/false), self);
  at::Tensor means;
  if (variances.numel() > 0 && self.numel() > 0) {
    static const auto formula = formula_of(kDifferences);
    const double freedom = freedom_of(static_cast<double>(self.numel() / variances.numel()), correction);
    const Task task{*formula, root ? sum::Operator::deviation : sum::Operator::variance, freedom};
    if (backend.variance_into != nullptr) means = backend.variance_into(task, self, reduced, type, variances);
    if (!means.defined()) {
      const sum::Request mean{dims, /*keepdim=*/true, type, sum::Operator::mean};
      means = sum::sum(self, mean, backend.sum_into, backend.allocate);
      backend.into(task, {self, means.expand(self.sizes())}, reduced, type, variances);
    }
  } else {
    means = backend.allocate(sizes, type, self);
    sum::fill_with_nan(means);
    sum::fill_with_nan(variances);
    if (variances.numel() > 0) freedom_of(0, correction);
  }
  return {converted(variances, result), converted(means.view(sizes), result)};
}

}  // namespace reduce_ops::transform
