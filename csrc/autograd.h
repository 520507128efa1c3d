// What the derivatives of all operators share.
//
// Kernels and nodes have the form of those that PyTorch generates for its own operators (VariableType), not that of
// torch::autograd::Function: that one has no forward mode, and costs a call several times as much.

#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/real.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "sum/sum_op.h"

namespace reduce_ops::autograd {

/// How this PyTorch holds a node: a shared_ptr in 2.11, an intrusive_ptr in newer ones.
using NodePtr = decltype(torch::autograd::Edge::function);

template <typename Node, typename... Fields>
NodePtr make_node(Fields&&... fields) {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>) {
    // PyTorch's deleter does not recurse into the nodes before this one: a long graph would overflow the stack.
    return NodePtr(new Node(std::forward<Fields>(fields)...), [](Node* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Node>(std::forward<Fields>(fields)...);
  }
}

/// grad in the dtype of the input that it belongs to, where a real input of a complex sum gets the real part. Before
/// a gradient is spread over all elements this is an operation on few.
inline at::Tensor to_dtype(const at::Tensor& grad, at::ScalarType dtype) {
  if (grad.scalar_type() == dtype) return grad;
  const at::Tensor part = grad.is_complex() && !at::isComplexType(dtype) ? at::real(grad) : grad;
  return part.to(dtype);
}

/// A call of an operator. below() runs the kernels below autograd; tangent_of(t, result) computes the tangent of the
/// result from that of self by operators that are called from the top, so that t may itself have tangents and
/// gradients; make_backward(result) makes the node. An integer result has no tangent, and is an error where it would
/// need a gradient.
template <typename Below, typename TangentOf, typename MakeBackward>
at::Tensor differentiable(const at::Tensor& self, Below below, TangentOf tangent_of, MakeBackward make_backward) {
  const bool requires_grad = torch::autograd::compute_requires_grad(self);
  const at::Tensor& tangent = self._fw_grad(/*level=*/0);
  at::Tensor result = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return below();
  }();
  if (requires_grad) {
    const NodePtr node = make_backward(result);
    node->set_next_edges(torch::autograd::collect_next_edges(self));
    torch::autograd::set_history(result, node);  // refuses an integer result, as torch.sum does
  }
  if (tangent.defined() && torch::autograd::isDifferentiableType(result.scalar_type())) {
    result._set_fw_grad(tangent_of(tangent, result), /*level=*/0, /*is_inplace_op=*/false);
  }
  return result;
}

/// The sizes of self, and which of its dimensions were reduced.
struct Reduction {
  Reduction(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim)
      : sizes(self.sym_sizes()), reduced(sum::reduced_dims(self, dims)), keepdim(keepdim) {}
  /// Of tensors that have these sizes together.
  Reduction(c10::SymIntArrayRef sizes, sum::DimSet reduced, bool keepdim)
      : sizes(sizes), reduced(reduced), keepdim(keepdim) {}

  /// x, of the sizes of the result, with the dimensions that it lacks: it broadcasts with self.
  at::Tensor restored(at::Tensor x) const {
    if (!keepdim && x.dim() > 0) {
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (sum::has(reduced, static_cast<int64_t>(d))) x = x.unsqueeze(static_cast<int64_t>(d));
      }
    }
    return x;
  }

  c10::SymFloat count() const {
    c10::SymFloat n = 1.0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sum::has(reduced, static_cast<int64_t>(d))) n = n * sizes[d];
    }
    return n;
  }

  c10::SymDimVector sizes;
  sum::DimSet reduced;
  bool keepdim;
};

}  // namespace reduce_ops::autograd
