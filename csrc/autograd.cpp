// Derivatives of all operators. Every operator here is linear in self, which settles most of it: the tangent of the
// result is the operator applied to the tangent of self, and a gradient needs no saved values.
//
// Kernels and nodes have the form of those that PyTorch generates for its own operators (VariableType), not that of
// torch::autograd::Function: that one has no forward mode, and costs a call several times as much.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/real.h>
#include <ATen/ops/reshape.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "dispatch.h"
#include "ladder/ladder_op.h"
#include "sum/sum_op.h"

namespace reduce_ops::autograd {
namespace {

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
at::Tensor to_dtype(const at::Tensor& grad, at::ScalarType dtype) {
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

}  // namespace
}  // namespace reduce_ops::autograd

// The gradient of a sum is a view: the gradient of the result, expanded over the dimensions that were summed. How the
// sum was rounded makes no difference to it, so sum and sum_exact share their kernels, and with them mean, whose
// gradient is multiplied by one over the number of elements before it is expanded. (Divided by it, it would have other
// bits on a CPU than on a GPU, where PyTorch divides by a number so.)
namespace reduce_ops::sum {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;
using torch::autograd::variable_list;

struct ReduceSumBackward : torch::autograd::TraceableFunction {
  ReduceSumBackward(const at::Tensor& self, DimSet reduced, bool keepdim)
      : sizes(self.sym_sizes()), dtype(self.scalar_type()), reduced(reduced), keepdim(keepdim) {}

  variable_list apply(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    at::Tensor grad = autograd::to_dtype(grads[0], dtype);
    if (!keepdim && grad.dim() > 0) {
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (reduced[d]) grad = grad.unsqueeze(static_cast<int64_t>(d));
      }
    }
    return {grad.expand_symint(sizes)};
  }
  std::string name() const override { return "ReduceSumBackward"; }

  c10::SymDimVector sizes;
  at::ScalarType dtype;
  DimSet reduced;
  bool keepdim;
};

struct ReduceMeanBackward final : ReduceSumBackward {
  using ReduceSumBackward::ReduceSumBackward;

  variable_list apply(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    c10::SymFloat count = 1.0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (has(reduced, static_cast<int64_t>(d))) count = count * sizes[d];
    }
    return ReduceSumBackward::apply({at::mul(grads[0], at::Scalar(c10::SymFloat(1.0) / count))});
  }
  std::string name() const override { return "ReduceMeanBackward"; }
};

template <const char* kName>
using Backward = std::conditional_t<kName == kMean, ReduceMeanBackward, ReduceSumBackward>;

template <const char* kName>
at::Tensor sum_all(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dtype)>(kName);
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, dtype); },
      [&](const at::Tensor& tangent) { return op.call(tangent, dtype); },
      [&] { return autograd::make_node<Backward<kName>>(self, DimSet().set(), false); });
}

template <const char* kName>
at::Tensor sum_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>(kName, "dim_IntList");
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, dims, keepdim, dtype); },
      [&](const at::Tensor& tangent) { return op.call(tangent, dims, keepdim, dtype); },
      [&] { return autograd::make_node<Backward<kName>>(self, reduced_dims(self, dims), keepdim); });
}

/// out= has no gradient, as everywhere in PyTorch.
void refuse_out(const char* name, const at::Tensor& self, const at::Tensor& out) {
  if (torch::autograd::compute_requires_grad(self, out)) torch::autograd::throw_error_out_requires_grad(name);
  TORCH_CHECK_NOT_IMPLEMENTED(!self._fw_grad(0).defined() && !out._fw_grad(0).defined(), name,
                              "(): functions with out=... arguments don't support forward-mode automatic "
                              "differentiation, but one of the arguments has a tangent.");
}

using OutSignature = at::Tensor&(const at::Tensor&, Dtype, at::Tensor&);
using OutDimsSignature = at::Tensor&(const at::Tensor&, Dims, bool, Dtype, at::Tensor&);

template <const char* kName>
at::Tensor& sum_out_all(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype, at::Tensor& out) {
  static const auto op = find_operator<OutSignature>(kName, "out");
  refuse_out(kName, self, out);
  const at::AutoDispatchBelowAutograd guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self, dtype, out);
}

template <const char* kName>
at::Tensor& sum_out_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype,
                         at::Tensor& out) {
  static const auto op = find_operator<OutDimsSignature>(kName, "IntList_out");
  refuse_out(kName, self, out);
  const at::AutoDispatchBelowAutograd guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self, dims, keepdim, dtype, out);
}

// Whoever saved `out` for its gradient has to learn that it was written to.

template <const char* kName>
at::Tensor& write_all(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype, at::Tensor& out) {
  static const auto op = find_operator<OutSignature>(kName, "out");
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatch(keys & c10::after_ADInplaceOrView_keyset, self, dtype, out);
  torch::autograd::increment_version(out);
  return out;
}

template <const char* kName>
at::Tensor& write_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype,
                       at::Tensor& out) {
  static const auto op = find_operator<OutDimsSignature>(kName, "IntList_out");
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatch(keys & c10::after_ADInplaceOrView_keyset, self, dims, keepdim, dtype, out);
  torch::autograd::increment_version(out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Autograd, m) {
  m.impl("sum", TORCH_FN(sum_all<kSum>));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dims<kSum>));
  m.impl("sum_exact", TORCH_FN(sum_all<kSumExact>));
  m.impl("sum_exact.dim_IntList", TORCH_FN(sum_dims<kSumExact>));
  m.impl("mean", TORCH_FN(sum_all<kMean>));
  m.impl("mean.dim_IntList", TORCH_FN(sum_dims<kMean>));
  m.impl("sum.out", TORCH_FN(sum_out_all<kSum>));
  m.impl("sum.IntList_out", TORCH_FN(sum_out_dims<kSum>));
  m.impl("mean.out", TORCH_FN(sum_out_all<kMean>));
  m.impl("mean.IntList_out", TORCH_FN(sum_out_dims<kMean>));
}

TORCH_LIBRARY_IMPL(reduce, ADInplaceOrView, m) {
  m.impl("sum.out", TORCH_FN(write_all<kSum>));
  m.impl("sum.IntList_out", TORCH_FN(write_dims<kSum>));
  m.impl("mean.out", TORCH_FN(write_all<kMean>));
  m.impl("mean.IntList_out", TORCH_FN(write_dims<kMean>));
}

}  // namespace reduce_ops::sum

// States are integers, which have no gradient. (The gradient of sum_exact is that of sum, above.)
namespace reduce_ops::exact {
namespace {

using Dims = at::OptionalIntArrayRef;

at::Tensor state_all(c10::DispatchKeySet keys, const at::Tensor& self) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&)>("exact_state");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self);
}

at::Tensor state_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool)>("exact_state", "dim_IntList");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self, dims, keepdim);
}

at::Tensor round(c10::DispatchKeySet keys, const at::Tensor& state, at::ScalarType dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, at::ScalarType)>("exact_round");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, state, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Autograd, m) {
  m.impl("exact_state", TORCH_FN(state_all));
  m.impl("exact_state.dim_IntList", TORCH_FN(state_dims));
  m.impl("exact_round", TORCH_FN(round));
}

}  // namespace reduce_ops::exact

// The gradient of a rung's sum is that of any sum, an expanded view; the gradient of a block sum goes to the elements
// of its block, which lie in a row.
namespace reduce_ops::ladder {
namespace {

using Dtype = std::optional<at::ScalarType>;
using torch::autograd::variable_list;

/// Of one sum, or of the sums of rows.
struct RungSumBackward final : torch::autograd::TraceableFunction {
  explicit RungSumBackward(const at::Tensor& self) : sizes(self.sym_sizes()), dtype(self.scalar_type()) {}

  variable_list apply(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    at::Tensor grad = autograd::to_dtype(grads[0], dtype);
    if (grad.dim() > 0) {
      for (size_t d = 1; d < sizes.size(); ++d) grad = grad.unsqueeze(-1);
    }
    return {grad.expand_symint(sizes)};
  }
  std::string name() const override { return "RungSumBackward"; }

  c10::SymDimVector sizes;
  at::ScalarType dtype;
};

/// Of the block sums of self, or of its rows. n: elements that were cut into blocks, all or those of a row.
struct BlockSumsBackward final : torch::autograd::TraceableFunction {
  BlockSumsBackward(const at::Tensor& self, c10::SymInt n, const Rung& rung, int64_t block_size)
      : sizes(self.sym_sizes()),
        n(std::move(n)),
        grid(make_grid<c10::SymInt>(rung, static_cast<int>(block_size), this->n)),
        dtype(self.scalar_type()) {}

  variable_list apply(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    const at::Tensor grad = autograd::to_dtype(grads[0], dtype).unsqueeze(-1);
    c10::SymDimVector blocks(grad.sym_sizes());
    const c10::SymInt block = grid.elements * grid.threads;
    blocks.back() = block;
    c10::SymDimVector runs(blocks.begin(), blocks.end() - 1);
    runs.back() = grid.blocks * block;
    const at::Tensor padded = grad.expand_symint(blocks).reshape_symint(runs);
    return {padded.slice_symint(-1, 0, n).reshape_symint(sizes)};  // the last block may not be full
  }
  std::string name() const override { return "BlockSumsBackward"; }

  c10::SymDimVector sizes;
  c10::SymInt n;
  BasicGrid<c10::SymInt> grid;
  at::ScalarType dtype;
};

/// Options: an int64_t where the rung takes a block size.
template <int kVersion, typename... Options>
at::Tensor sum(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype, Options... options) {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, Dtype, Options...)>("sum_v" + std::to_string(kVersion));
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, dtype, options...); },
      [&](const at::Tensor& tangent) { return op.call(tangent, dtype, options...); },
      [&] { return autograd::make_node<RungSumBackward>(self); });
}

template <int kVersion, typename... Options>
at::Tensor block_sums(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype, Options... options) {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, Dtype, Options...)>("block_sums_v" + std::to_string(kVersion));
  int64_t block_size = kBlockSize;
  ((block_size = options), ...);  // where there is one
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, dtype, options...); },
      [&](const at::Tensor& tangent) { return op.call(tangent, dtype, options...); },
      [&] { return autograd::make_node<BlockSumsBackward>(self, self.sym_numel(), rungs()[kVersion], block_size); });
}

using RowsSignature = at::Tensor(const at::Tensor&, int64_t, Dtype, int64_t);

at::Tensor differentiable_sums_of_rows(c10::DispatchKeySet keys, const at::Tensor& self, int64_t version, Dtype dtype,
                                       int64_t block_size) {
  static const auto op = find_operator<RowsSignature>("_sums_of_rows");
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, version, dtype, block_size); },
      [&](const at::Tensor& tangent) { return op.call(tangent, version, dtype, block_size); },
      [&] { return autograd::make_node<RungSumBackward>(self); });
}

at::Tensor differentiable_block_sums_of_rows(c10::DispatchKeySet keys, const at::Tensor& self, int64_t version,
                                             Dtype dtype, int64_t block_size) {
  static const auto op = find_operator<RowsSignature>("_block_sums_of_rows");
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, version, dtype, block_size); },
      [&](const at::Tensor& tangent) { return op.call(tangent, version, dtype, block_size); },
      [&] {
        const c10::SymInt n = c10::multiply_integers(self.sym_sizes().slice(1));
        return autograd::make_node<BlockSumsBackward>(self, n, rung_of(version), block_size);
      });
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Autograd, m) {
  m.impl("_sums_of_rows", TORCH_FN(differentiable_sums_of_rows));
  m.impl("_block_sums_of_rows", TORCH_FN(differentiable_block_sums_of_rows));
#define RUNG(N, ...)                    \
  m.impl("sum_v" #N, TORCH_FN(sum<N>)); \
  m.impl("block_sums_v" #N, TORCH_FN(block_sums<N>));
#define RUNG_WITH_BLOCK_SIZE(N, ...)               \
  m.impl("sum_v" #N, TORCH_FN((sum<N, int64_t>))); \
  m.impl("block_sums_v" #N, TORCH_FN((block_sums<N, int64_t>)));
#include "ladder/ladder.def"
}

}  // namespace reduce_ops::ladder
