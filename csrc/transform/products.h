// Products of two tensors as formulas.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/select.h>
#include <ATen/ops/view_as_real.h>

#include <string>
#include <utility>
#include <vector>

#include "sum_dtypes.h"

namespace reduce_ops::transform {

/// The components of a complex tensor, along one more dimension, and whether the imaginary ones are to be negated.
inline std::pair<at::Tensor, bool> components_of(const at::Tensor& x) {
  return {at::view_as_real(x.is_conj() ? x.conj() : x), x.is_conj()};
}

/// x * y, or conj(x) * y: a formula of its operands, and the dtype of its sum.
struct Products {
  Products(const at::Tensor& x, const at::Tensor& y, bool conjugates)
      : operands{x, y}, formula("x0 x1 mul"), dtype(result_dtype(x.scalar_type())) {
    if (!x.is_complex()) return;
    const auto [a, negates_a] = components_of(x);
    const auto [b, negates_b] = components_of(y);
    operands = {a.select(-1, 0), a.select(-1, 1), b.select(-1, 0), b.select(-1, 1)};
    const std::string a_imag = negates_a != conjugates ? "x1 neg" : "x1";
    const std::string b_imag = negates_b ? "x3 neg" : "x3";
    const std::string real = "x0 x2 mul " + a_imag + " " + b_imag + " mul sub";
    const std::string imag = "x0 " + b_imag + " mul " + a_imag + " x2 mul add";
    formula = real + " " + imag + " pair";
  }

  std::vector<at::Tensor> operands;
  std::string formula;
  at::ScalarType dtype;
};

}  // namespace reduce_ops::transform
