// Operators that are others: dot products are sums of products, and variances come with their means. So each has what
// those have: derivatives, vmap, meta tensors, graphs.

#include <ATen/core/DimVector.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/select.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "sum/overloads.h"
#include "sum_dtypes.h"
#include "transform/calls.h"
#include "transform/products.h"

namespace reduce_ops::transform {
namespace {

/// out= of an operator whose result is known. As everywhere in PyTorch, it has no gradient.
at::Tensor& write(const char* name, const at::Tensor& result, at::Tensor& out) {
  TORCH_CHECK(!(at::GradMode::is_enabled() && (result.requires_grad() || out.requires_grad())), name,
              "(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
              "requires grad.");
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), name, ": expected out to have dtype ", result.scalar_type(),
              ", but it has ", out.scalar_type());
  TORCH_CHECK(out.device() == result.device(), name, ": expected out to be on the device of the result, ",
              result.device(), ", but it is on ", out.device());
  at::native::resize_output_symint(out, result.sym_sizes());
  return out.copy_(result);
}

at::Tensor& transform_sum_out(at::TensorList tensors, c10::string_view formula, Dims dims, bool keepdim, Dtype dtype,
                              at::Tensor& out) {
  return write("transform_sum", transform_sum_handle().call(tensors, formula, dims, keepdim, dtype), out);
}

// ---- dot products

at::Tensor vecdot(const at::Tensor& x, const at::Tensor& y, std::optional<int64_t> dim) {
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "vecdot: x is ", x.scalar_type(), " and y is ", y.scalar_type(),
              "; accepted are two of one dtype");
  check_summable("vecdot", "x", x, x.scalar_type());
  const Dims dims = dim ? Dims(*dim) : Dims();  // of what x and y broadcast to
  const Products products(x, y, /*conjugates=*/true);
  return converted(transform_sum_handle().call(products.operands, products.formula, dims, false, std::nullopt),
                   products.dtype);
}

at::Tensor& vecdot_out(const at::Tensor& x, const at::Tensor& y, std::optional<int64_t> dim, at::Tensor& out) {
  return write("vecdot", vecdot(x, y, dim), out);
}

// ---- variances

/// The variance, or its square root, and the mean. The variance of complex numbers is that of their real parts plus
/// that of their imaginary ones.
Pair moments(const char* name, const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim,
             bool root) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.layout() == at::kStrided && !self.is_nested() && !self.is_quantized(), name,
                              ": self has the layout ", self.layout(), " and the dtype ", self.scalar_type(),
                              "; accepted is a dense, strided tensor");
  check_summable(name, "self", self, self.scalar_type());
  TORCH_CHECK(self.is_complex() || at::isFloatingType(self.scalar_type()), name, ": self is ", self.scalar_type(),
              "; accepted are floating point and complex dtypes");
  if (!self.is_complex()) return var_mean_handle().call(self, dims, correction, keepdim, root);
  if (self.scalar_type() == at::kComplexHalf) {  // rounded once, from complex64
    const auto [variance, mean] = moments(name, self.to(at::kComplexFloat), dims, correction, keepdim, root);
    return {variance.to(at::kHalf), mean.to(at::kComplexHalf)};
  }
  const auto [parts, negates] = components_of(self);
  // Dimensions of self, not of its parts, which have one more.
  const auto reduced = sum::reduced_dims(self, dims);
  at::DimVector of_parts;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (sum::has(reduced, d)) of_parts.push_back(d);
  }
  const auto of = [&](int64_t part) {
    return var_mean_handle().call(parts.select(-1, part), at::IntArrayRef(of_parts), correction, keepdim, false);
  };
  const auto [real, real_mean] = of(0);
  const auto [imag, imag_mean] = of(1);
  const at::Tensor mean = at::complex(real_mean, negates ? imag_mean.neg() : imag_mean);
  const std::vector variances = {real.unsqueeze(-1), imag.unsqueeze(-1)};
  const char* const formula = root ? "x0 x1 add sqrt" : "x0 x1 add";
  return {transform_sum_handle().call(variances, formula, at::IntArrayRef{-1}, false, std::nullopt), mean};
}

at::Tensor var(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim) {
  return std::get<0>(moments("var", self, dims, correction, keepdim, false));
}
at::Tensor std_(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim) {
  return std::get<0>(moments("std", self, dims, correction, keepdim, true));
}
Pair var_and_mean(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim) {
  return moments("var_mean", self, dims, correction, keepdim, false);
}
Pair std_and_mean(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim) {
  return moments("std_mean", self, dims, correction, keepdim, true);
}
at::Tensor& var_out(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim, at::Tensor& out) {
  return write("var", var(self, dims, correction, keepdim), out);
}
at::Tensor& std_out(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim, at::Tensor& out) {
  return write("std", std_(self, dims, correction, keepdim), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, CompositeImplicitAutograd, m) {
  m.impl("transform_sum.out", TORCH_FN(transform_sum_out));
  m.impl("vecdot", TORCH_FN(vecdot));
  m.impl("vecdot.out", TORCH_FN(vecdot_out));
  m.impl("var", TORCH_FN(var));
  m.impl("var.out", TORCH_FN(var_out));
  m.impl("std", TORCH_FN(std_));
  m.impl("std.out", TORCH_FN(std_out));
  m.impl("var_mean", TORCH_FN(var_and_mean));
  m.impl("std_mean", TORCH_FN(std_and_mean));
}

// Under vmap, too; without this it would call them once a sample.
TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("vecdot", TORCH_FN(vecdot));
  m.impl("var", TORCH_FN(var));
  m.impl("std", TORCH_FN(std_));
  m.impl("var_mean", TORCH_FN(var_and_mean));
  m.impl("std_mean", TORCH_FN(std_and_mean));
}

}  // namespace reduce_ops::transform
