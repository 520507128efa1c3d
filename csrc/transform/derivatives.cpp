// Derivatives of sums of formulas, and of variances. That of a formula is found as it is evaluated: forwards for a
// tangent, backwards for gradients, step by step by operators of PyTorch, which have derivatives themselves. Sums on
// the way are ours. (Roots on a CPU are PyTorch's, which are not correctly rounded: findings.)

#include <ATen/core/DimVector.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/real.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sgn.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <mutex>
#include <string>
#include <vector>

#include "autograd.h"
#include "sum/overloads.h"
#include "sum_dtypes.h"
#include "transform/calls.h"

namespace reduce_ops::transform {
namespace {

using autograd::Reduction;
using torch::autograd::variable_list;

at::Tensor half(const at::Tensor& x) { return at::mul(x, at::Scalar(0.5)); }

/// A formula's steps with their values, each of the sizes that its operands broadcast to.
class Evaluation {
 public:
  Evaluation(const Formula& formula, at::TensorList tensors, at::ScalarType type) : formula_(formula) {
    std::vector<int> stack;
    for (const Step& step : formula.steps) {
      const int operands = spelling(step.word).operands;
      Node node{step.word, step.index, {}, {}};
      for (int i = 0; i < operands; ++i) node.operand[i] = stack[stack.size() - operands + i];
      stack.resize(stack.size() - operands);
      node.value = value_of(node, tensors, type);
      stack.push_back(static_cast<int>(nodes_.size()));
      nodes_.push_back(std::move(node));
    }
  }

  /// What gradient each input gets from that of the values; undefined for none. Of the sizes of the values.
  std::vector<at::Tensor> gradients(const at::Tensor& grad) const {
    std::vector<at::Tensor> of_node(nodes_.size()), of_input(formula_.inputs);
    of_node.back() = grad;
    for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0; --i) {
      if (!of_node[i].defined()) continue;
      const Node& node = nodes_[i];
      if (node.word == Word::input) {
        accumulate(of_input[node.index], of_node[i]);
        continue;
      }
      for (int operand = 0; operand < spelling(node.word).operands; ++operand) {
        accumulate(of_node[node.operand[operand]], times_slope(node, operand, of_node[i]));
      }
    }
    return of_input;
  }

  /// The tangent of the values, from those of the inputs, of which some are undefined; undefined if it is 0.
  at::Tensor tangent(const std::vector<at::Tensor>& of_input) const {
    std::vector<at::Tensor> of_node(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.word == Word::input) {
        of_node[i] = of_input[node.index];
        continue;
      }
      if (node.word == Word::pair) {
        of_node[i] = pair(of_node[node.operand[0]], of_node[node.operand[1]]);
        continue;
      }
      for (int operand = 0; operand < spelling(node.word).operands; ++operand) {
        const at::Tensor& t = of_node[node.operand[operand]];
        if (t.defined()) accumulate(of_node[i], times_slope(node, operand, t));
      }
    }
    return of_node.back();
  }

 private:
  struct Node {
    Word word;
    int index;
    int operand[3];
    at::Tensor value;
  };

  static void accumulate(at::Tensor& sum, const at::Tensor& x) {
    if (x.defined()) sum = sum.defined() ? at::add(sum, x) : x;
  }

  static at::Tensor pair(at::Tensor real, at::Tensor imag) {
    if (!real.defined() && !imag.defined()) return {};
    if (!real.defined()) real = at::zeros_like(imag);
    if (!imag.defined()) imag = at::zeros_like(real);
    return at::complex(real, imag);
  }

  const at::Tensor& operand(const Node& node, int i) const { return nodes_[node.operand[i]].value; }

  at::Tensor value_of(const Node& node, at::TensorList tensors, at::ScalarType type) const {
    const auto x = [&](int i) -> const at::Tensor& { return operand(node, i); };
    switch (node.word) {
      case Word::input:
        return tensors[node.index].to(type);
      case Word::constant:
        return at::scalar_tensor(formula_.constants[node.index], tensors[0].options().dtype(type));
      case Word::add:
        return at::add(x(0), x(1));
      case Word::sub:
        return at::sub(x(0), x(1));
      case Word::mul:
        return at::mul(x(0), x(1));
      case Word::div:
        return at::div(x(0), x(1));
      case Word::min:
        return at::minimum(x(0), x(1));
      case Word::max:
        return at::maximum(x(0), x(1));
      case Word::lt:
        return at::lt(x(0), x(1)).to(type);
      case Word::le:
        return at::le(x(0), x(1)).to(type);
      case Word::gt:
        return at::gt(x(0), x(1)).to(type);
      case Word::ge:
        return at::ge(x(0), x(1)).to(type);
      case Word::eq:
        return at::eq(x(0), x(1)).to(type);
      case Word::ne:
        return at::ne(x(0), x(1)).to(type);
      case Word::neg:
        return at::neg(x(0));
      case Word::abs:
        return at::abs(x(0));
      case Word::sqrt:
        return at::sqrt(x(0));
      case Word::square:
        return at::mul(x(0), x(0));
      case Word::isnan:
        return at::isnan(x(0)).to(type);
      case Word::where:
        return at::where(at::ne(x(0), 0), x(1), x(2));
      case Word::pair:
        return {};  // nobody asks for it
    }
    return {};
  }

  /// grad times the derivative of a step by one of its operands; undefined if that is 0. It is the same forwards and
  /// backwards, but for a pair, which is the last step.
  at::Tensor times_slope(const Node& node, int which, const at::Tensor& grad) const {
    const auto x = [&](int i) -> const at::Tensor& { return operand(node, i); };
    switch (node.word) {
      case Word::add:
        return grad;
      case Word::sub:
        return which == 0 ? grad : at::neg(grad);
      case Word::mul:
        return at::mul(grad, x(1 - which));
      case Word::div: {
        const at::Tensor quotient = at::div(grad, x(1));
        return which == 0 ? quotient : at::neg(at::mul(quotient, at::div(x(0), x(1))));
      }
      case Word::min:
      case Word::max: {  // equals share it, as in PyTorch
        const at::Tensor& mine = x(which);
        const at::Tensor& other = x(1 - which);
        const at::Tensor wins = node.word == Word::min ? at::lt(mine, other) : at::gt(mine, other);
        const at::Tensor shared = at::where(at::eq(mine, other), half(grad), at::zeros_like(grad));
        return at::where(wins, grad, shared);
      }
      case Word::neg:
        return at::neg(grad);
      case Word::abs:
        return at::mul(grad, at::sgn(x(0)));
      case Word::sqrt:
        return at::div(half(grad), node.value);
      case Word::square:
        return at::mul(grad, at::mul(x(0), 2));
      case Word::where: {
        const at::Tensor condition = at::ne(x(0), 0);
        const at::Tensor none = at::zeros_like(grad);
        if (which == 0) return {};
        return which == 1 ? at::where(condition, grad, none) : at::where(condition, none, grad);
      }
      case Word::pair:
        return which == 0 ? at::real(grad) : at::imag(grad);
      default:
        return {};
    }
  }

  const Formula& formula_;
  std::vector<Node> nodes_;
};

/// grad, of sizes that `sizes` broadcasts to, summed to these.
at::Tensor summed_to(at::Tensor grad, c10::SymIntArrayRef sizes) {
  const int64_t lead = grad.dim() - static_cast<int64_t>(sizes.size());
  at::DimVector dims;
  for (int64_t d = 0; d < grad.dim(); ++d) {
    if (d < lead || (sizes[d - lead] == 1 && grad.sym_size(d) != 1)) dims.push_back(d);
  }
  if (!dims.empty()) grad = sum::call_sum(grad, {at::IntArrayRef(dims), /*keepdim=*/true, std::nullopt});
  return lead > 0 ? grad.view_symint(sizes) : grad;
}

struct TransformBackward final : torch::autograd::TraceableFunction {
  TransformBackward(std::shared_ptr<const Formula> formula, at::TensorList tensors, const Reduction& of,
                    at::ScalarType type)
      : formula(std::move(formula)), of(of), type(type) {
    for (const at::Tensor& tensor : tensors) saved.emplace_back(tensor, false);
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(saved.size());
    if (!grads[0].defined()) return result;
    std::vector<at::Tensor> tensors;
    for (const auto& variable : saved) tensors.push_back(variable.unpack());
    const at::ScalarType dtype = formula->is_pair ? c10::toComplexType(type) : type;
    const at::Tensor grad = of.restored(grads[0].to(dtype)).expand_symint(of.sizes);
    const std::vector<at::Tensor> of_input = Evaluation(*formula, tensors, type).gradients(grad);
    for (size_t k = 0; k < of_input.size(); ++k) {
      if (!task_should_compute_output(k) || !of_input[k].defined()) continue;
      const at::Tensor whole = of_input[k].expand_symint(of.sizes);
      result[k] = autograd::to_dtype(summed_to(whole, tensors[k].sym_sizes()), tensors[k].scalar_type());
    }
    return result;
  }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& variable : saved) variable.reset_data();
  }
  std::string name() const override { return "ReduceTransformSumBackward"; }

  std::shared_ptr<const Formula> formula;
  Reduction of;
  at::ScalarType type;
  std::vector<torch::autograd::SavedVariable> saved;
};

at::Tensor transform_sum_autograd(c10::DispatchKeySet keys, at::TensorList tensors, c10::string_view text, Dims dims,
                                  bool keepdim, Dtype dtype) {
  const bool requires_grad = torch::autograd::compute_requires_grad(tensors);
  at::Tensor result = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return transform_sum_handle().redispatch(keys & c10::after_autograd_keyset, tensors, text, dims, keepdim, dtype);
  }();
  bool has_tangent = false;
  for (const at::Tensor& tensor : tensors) has_tangent |= tensor._fw_grad(/*level=*/0).defined();
  if (!requires_grad && !has_tangent) return result;
  const auto formula = checked_formula(tensors, {text.data(), text.size()});
  const Dtypes dtypes = dtypes_of(*formula, tensors, dtype);
  const c10::SymDimVector sizes = broadcast_sizes(tensors);
  const Reduction of(sizes, sum::reduced_dims(static_cast<int64_t>(sizes.size()), dims), keepdim);
  if (requires_grad) {
    const auto node = autograd::make_node<TransformBackward>(formula, tensors, of, dtypes.type);
    node->set_next_edges(torch::autograd::collect_next_edges(tensors));
    torch::autograd::set_history(result, node);
  }
  if (has_tangent && torch::autograd::isDifferentiableType(result.scalar_type())) {
    std::vector<at::Tensor> primals, tangents;
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor& tangent = tensor._fw_grad(/*level=*/0);
      primals.push_back(tensor._fw_primal(/*level=*/0));
      tangents.push_back(tangent.defined() ? tangent.to(dtypes.type) : at::Tensor());
    }
    const at::Tensor change = Evaluation(*formula, primals, dtypes.type).tangent(tangents);
    const at::Tensor tangent = change.defined()
                                   ? sum::call_sum(change.expand_symint(sizes), {dims, keepdim, std::nullopt})
                                   : at::zeros_like(result);
    result._set_fw_grad(tangent.to(result.scalar_type()), /*level=*/0, /*is_inplace_op=*/false);
  }
  return result;
}

// ---- variances

/// x - its mean, in the type that variances are computed in.
at::Tensor differences(const at::Tensor& self, const Reduction& of, Dims dims) {
  const at::ScalarType type = accumulate_dtype(self.scalar_type());
  const at::Tensor mean = sum::call<sum::kMean>(self, {dims, of.keepdim, type, sum::Operator::mean});
  return at::sub(self.to(type), of.restored(mean));
}

/// What a change of x by d changes the variance or its root by, divided by d and by the difference from the mean.
at::Tensor factor(const at::Tensor& result, const Reduction& of, const Correction& correction, bool root) {
  const c10::SymFloat freedom = of.count() - c10::SymFloat(correction ? correction->toDouble() : 1.0);
  const c10::SymFloat positive = freedom.max(c10::SymFloat(0.0));
  if (!root) return at::full_symint({}, at::Scalar(c10::SymFloat(2.0) / positive), result.options());
  const at::Tensor deviation = at::mul(result, at::Scalar(positive));
  return at::masked_fill(at::div(at::scalar_tensor(1.0, result.options()), deviation), at::eq(result, 0), 0);
}

struct VarMeanBackward final : torch::autograd::TraceableFunction {
  VarMeanBackward(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim, bool root)
      : of(self, dims, keepdim), correction(correction), root(root), saved_self(self, false) {
    if (dims) asked.assign(dims->begin(), dims->end());
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const at::Tensor self = saved_self.unpack();
    at::Tensor grad;
    if (grads[0].defined()) {
      const at::ScalarType type = accumulate_dtype(self.scalar_type());
      const at::Tensor result =
          root
              ? std::get<0>(var_mean_handle().call(self, at::IntArrayRef(asked), correction, of.keepdim, true)).to(type)
              : grads[0].to(type);
      const at::Tensor by_difference = at::mul(grads[0].to(type), factor(result, of, correction, root));
      grad = at::mul(of.restored(by_difference), differences(self, of, at::IntArrayRef(asked)));
    }
    if (grads[1].defined()) {
      const at::Tensor share = at::mul(grads[1], at::Scalar(c10::SymFloat(1.0) / of.count()));
      const at::Tensor of_mean = of.restored(share).expand_symint(of.sizes);
      grad = grad.defined() ? at::add(grad, of_mean.to(grad.scalar_type())) : of_mean;
    }
    return {grad.defined() ? autograd::to_dtype(grad, self.scalar_type()) : grad};
  }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_self.reset_data();
  }
  std::string name() const override { return "ReduceVarMeanBackward"; }

  Reduction of;
  at::DimVector asked;
  Correction correction;
  bool root;
  torch::autograd::SavedVariable saved_self;
};

Pair var_mean_autograd(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, const Correction& correction,
                       bool keepdim, bool root) {
  const bool requires_grad = torch::autograd::compute_requires_grad(self);
  Pair result = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return var_mean_handle().redispatch(keys & c10::after_autograd_keyset, self, dims, correction, keepdim, root);
  }();
  auto& [variance, mean] = result;
  if (requires_grad) {
    const auto node = autograd::make_node<VarMeanBackward>(self, dims, correction, keepdim, root);
    node->set_next_edges(torch::autograd::collect_next_edges(self));
    torch::autograd::set_history(std::vector{variance, mean}, node);
  }
  const at::Tensor& tangent = self._fw_grad(/*level=*/0);
  if (tangent.defined()) {
    const at::Tensor primal = self._fw_primal(/*level=*/0);
    const Reduction of(self, dims, keepdim);
    const at::ScalarType type = accumulate_dtype(self.scalar_type());
    const at::Tensor change =
        sum::call_sum(at::mul(differences(primal, of, dims), tangent.to(type)), {dims, keepdim, {}});
    const at::Tensor t = at::mul(change, factor(variance.to(type), of, correction, root));
    variance._set_fw_grad(t.to(variance.scalar_type()), /*level=*/0, /*is_inplace_op=*/false);
    mean._set_fw_grad(sum::call<sum::kMean>(tangent, {dims, keepdim, {}, sum::Operator::mean}), 0, false);
  }
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Autograd, m) {
  m.impl("transform_sum", TORCH_FN(transform_sum_autograd));
  m.impl("_var_mean", TORCH_FN(var_mean_autograd));
}

}  // namespace reduce_ops::transform
