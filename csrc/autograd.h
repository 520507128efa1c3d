// What the autograd kernels of all operators share. Every operator here is linear in self, which settles most of it:
// the tangent of the result is the operator applied to the tangent of self, and a gradient needs no saved values.
//
// Kernels and nodes have the form of those that PyTorch generates for its own operators (VariableType), not that of
// torch::autograd::Function: that one has no forward mode, and costs a call several times as much.

#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/real.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

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

/// A call of a linear operator. below() runs the kernels below autograd; again(t) calls the operator on a tangent, from
/// the top, so that the tangent may itself have tangents and gradients; make_backward() makes the node. An integer
/// result has no tangent, and is an error where it would need a gradient.
template <typename Below, typename Again, typename MakeBackward>
at::Tensor differentiable(const at::Tensor& self, Below below, Again again, MakeBackward make_backward) {
  const bool requires_grad = torch::autograd::compute_requires_grad(self);
  const at::Tensor& tangent = self._fw_grad(/*level=*/0);
  at::Tensor result = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return below();
  }();
  if (requires_grad) {
    const NodePtr node = make_backward();
    node->set_next_edges(torch::autograd::collect_next_edges(self));
    torch::autograd::set_history(result, node);  // refuses an integer result, as torch.sum does
  }
  if (tangent.defined() && torch::autograd::isDifferentiableType(result.scalar_type())) {
    result._set_fw_grad(again(tangent), /*level=*/0, /*is_inplace_op=*/false);
  }
  return result;
}

}  // namespace reduce_ops::autograd
