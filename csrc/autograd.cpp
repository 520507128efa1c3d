// Derivatives of all operators. Most are linear in self, which settles most of it: the tangent of the result is the
// operator applied to the tangent of self, and a gradient needs no saved values.

#include "autograd.h"

#include <ATen/core/DimVector.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/real.h>
#include <ATen/ops/reshape.h>
#include <ATen/ops/resolve_conj.h>
#include <ATen/ops/sgn.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "dispatch.h"
#include "ladder/ladder_op.h"
#include "sum/overloads.h"

// The gradient of a sum is a view: the gradient of the result, expanded over the dimensions that were summed. How the
// sum was rounded makes no difference to it, so sum and sum_exact share their kernels, and with them mean, whose
// gradient is multiplied by one over the number of elements before it is expanded. (Divided by it, it would have other
// bits on a CPU than on a GPU, where PyTorch divides by a number so.) The other operators are not linear: their
// gradient is that of the result, expanded, times their slope at each element.
namespace reduce_ops::sum {
namespace {

using autograd::Reduction;
using torch::autograd::variable_list;

template <const char* kName>
inline constexpr bool kIsLinear = !kIsNorm<kName> && !kIsExtreme<kName> && kName != kNansum;

template <const char* kName>
struct LinearBackward final : torch::autograd::TraceableFunction {
  LinearBackward(const at::Tensor& self, const Request& r) : of(self, r.dims, r.keepdim), dtype(self.scalar_type()) {}

  variable_list apply(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    at::Tensor grad = grads[0];
    if constexpr (kOperator<kName> == Operator::mean) grad = at::mul(grad, at::Scalar(c10::SymFloat(1.0) / of.count()));
    return {of.restored(autograd::to_dtype(grad, dtype)).expand_symint(of.sizes)};
  }
  std::string name() const override {
    return kOperator<kName> == Operator::mean ? "ReduceMeanBackward" : "ReduceSumBackward";
  }

  Reduction of;
  at::ScalarType dtype;
};

/// A Request that is kept for later.
struct Kept {
  explicit Kept(const Request& r) : keepdim(r.keepdim), dtype(r.dtype), op(r.op) {
    if (r.dims) dims.assign(r.dims->begin(), r.dims->end());
  }
  Request request() const { return {at::IntArrayRef(dims), keepdim, dtype, op}; }

  at::DimVector dims;
  bool keepdim;
  Dtype dtype;
  Operator op;
};

/// Where mask is, 1 / how many elements of the result it is at; elsewhere 0. Equals share the slope, as in PyTorch.
at::Tensor shares(const at::Tensor& mask, const Request& r, const Reduction& of, at::ScalarType dtype) {
  return at::div(mask.to(dtype), of.restored(call<kSum>(mask, {r.dims, r.keepdim, std::nullopt})));
}

/// |x|, of complex numbers as norms have it.
at::Tensor magnitudes(const at::Tensor& x) {
  if (!x.is_complex()) return at::abs(x);
  return call<kVectorNorm>(at::view_as_real(at::resolve_conj(x)), {at::IntArrayRef{-1}, false, {}, Operator::norm});
}

/// Whether the slope depends on the result, too.
bool slope_has_result(Operator op) { return op == Operator::norm || has_no_order(op); }

/// The derivative of the result by each element: for complex ones the conjugate of what dx is multiplied by, of which
/// the real part counts. x: of the dtype that the operator converts self to.
at::Tensor slope(const at::Tensor& x, const at::Tensor& result, const Request& r, const Reduction& of) {
  const at::ScalarType real = c10::toRealValueType(x.scalar_type());
  switch (r.op) {
    case Operator::nansum:
      return at::logical_not(at::isnan(x)).to(real);
    case Operator::count:
      return at::zeros_like(x);
    case Operator::sum_of_abs:
      return at::sgn(x);
    case Operator::max_abs:
    case Operator::min_abs: {
      const at::Tensor abs = magnitudes(x);
      return at::mul(at::sgn(x), shares(at::eq(abs, of.restored(result)), r, of, real));
    }
    case Operator::norm: {
      const at::Tensor norm = of.restored(result);
      return at::masked_fill(at::div(x, norm), at::eq(norm, 0), 0);
    }
    default:
      return shares(at::eq(x, of.restored(result)), r, of, real);
  }
}
/// self in the dtype in which slopes are computed: that of the result, as complex as self is.
at::Tensor element_of(const at::Tensor& self, at::ScalarType result) {
  const at::ScalarType real = c10::isFloat8Type(result) ? at::kFloat : result;
  return self.to(self.is_complex() ? c10::toComplexType(real) : real);
}

template <const char* kName>
struct SlopeBackward final : torch::autograd::TraceableFunction {
  SlopeBackward(const at::Tensor& self, const Request& r, const at::Tensor& result)
      : of(self, r.dims, r.keepdim),
        asked(r),
        saved_self(self, false),
        saved_result(slope_has_result(r.op) ? result.detach() : at::Tensor(), false) {}

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const at::Tensor self = saved_self.unpack();
    at::Tensor result = saved_result.unpack();
    if (!grads[0].defined()) return {at::Tensor()};
    const Request r = asked.request();
    // Of what is saved there is no derivative, of which this slope has one, by the result. The others have none.
    const bool differentiates = c10::GradMode::is_enabled() || self._fw_grad(/*level=*/0).defined();
    if (r.op == Operator::norm && differentiates) result = call<kName>(self, r);
    const at::Tensor grad =
        at::mul(of.restored(grads[0]), slope(element_of(self, grads[0].scalar_type()), result, r, of));
    return {autograd::to_dtype(grad, self.scalar_type())};
  }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_self.reset_data();
    saved_result.reset_data();
  }
  std::string name() const override { return std::string("ReduceBackward of ") + kName; }

  Reduction of;
  Kept asked;
  torch::autograd::SavedVariable saved_self, saved_result;
};

/// The tangent of a result that is not linear in self.
at::Tensor tangent_of(const at::Tensor& self, const at::Tensor& tangent, const at::Tensor& result, const Request& r) {
  const at::Tensor x = element_of(self._fw_primal(/*level=*/0), result.scalar_type());
  const at::Tensor by_element = slope(x, result, r, Reduction(self, r.dims, r.keepdim));
  const at::Tensor change =
      tangent.is_complex() ? at::real(at::mul(by_element.conj(), tangent)) : at::mul(by_element, tangent);
  return call<kSum>(change, {r.dims, r.keepdim, result.scalar_type()});
}

template <const char* kName>
struct Differentiable {
  static at::Tensor run(c10::DispatchKeySet keys, const at::Tensor& self, const Request& r) {
    return autograd::differentiable(
        self, [&] { return redispatch<kName>(keys & c10::after_autograd_keyset, self, r); },
        [&](const at::Tensor& tangent, [[maybe_unused]] const at::Tensor& result) {
          if constexpr (kIsLinear<kName>) {
            return call<kName>(tangent, r);
          } else {
            return tangent_of(self, tangent, result, r);
          }
        },
        [&]([[maybe_unused]] const at::Tensor& result) {
          if constexpr (kIsLinear<kName>) {
            return autograd::make_node<LinearBackward<kName>>(self, r);
          } else {
            return autograd::make_node<SlopeBackward<kName>>(self, r, result);
          }
        });
  }

  /// out= has no gradient, as everywhere in PyTorch.
  static at::Tensor& run_out(c10::DispatchKeySet keys, const at::Tensor& self, const Request& r, at::Tensor& out) {
    if (torch::autograd::compute_requires_grad(self, out)) torch::autograd::throw_error_out_requires_grad(kName);
    TORCH_CHECK_NOT_IMPLEMENTED(!self._fw_grad(0).defined() && !out._fw_grad(0).defined(), kName,
                                "(): functions with out=... arguments don't support forward-mode automatic "
                                "differentiation, but one of the arguments has a tangent.");
    const at::AutoDispatchBelowAutograd guard;
    return redispatch_out<kName>(keys & c10::after_autograd_keyset, self, r, out);
  }
};

/// Whoever saved `out` for its gradient has to learn that it was written to.
template <const char* kName>
struct Written {
  static at::Tensor& run_out(c10::DispatchKeySet keys, const at::Tensor& self, const Request& r, at::Tensor& out) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    redispatch_out<kName>(keys & c10::after_ADInplaceOrView_keyset, self, r, out);
    torch::autograd::increment_version(out);
    return out;
  }
};

/// Of what has no out=.
template <const char* kName>
struct ExactlyDifferentiable {
  static constexpr auto run = Differentiable<kName>::run;
};

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Autograd, m) {
  register_operators<Differentiable>(m);
  register_operator<kSumExact, ExactlyDifferentiable<kSumExact>>(m);
  register_operator<kMeanExact, ExactlyDifferentiable<kMeanExact>>(m);
  register_operator<kVectorNormExact, Differentiable<kVectorNormExact>>(m);
}

TORCH_LIBRARY_IMPL(reduce, ADInplaceOrView, m) {
  register_operators<Written>(m);
  register_operator<kVectorNormExact, Written<kVectorNormExact>>(m);
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

at::Tensor state_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, std::string_view of) {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, Dims, bool, std::string_view)>("exact_state", "dim_IntList");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, self, dims, keepdim, of);
}

at::Tensor round(c10::DispatchKeySet keys, const at::Tensor& state, at::ScalarType dtype, c10::SymInt count,
                 bool root) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, at::ScalarType, c10::SymInt, bool)>("exact_round");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.redispatch(keys & c10::after_autograd_keyset, state, dtype, std::move(count), root);
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
      [&](const at::Tensor& tangent, const at::Tensor&) { return op.call(tangent, dtype, options...); },
      [&](const at::Tensor&) { return autograd::make_node<RungSumBackward>(self); });
}

template <int kVersion, typename... Options>
at::Tensor block_sums(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype, Options... options) {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, Dtype, Options...)>("block_sums_v" + std::to_string(kVersion));
  int64_t block_size = kBlockSize;
  ((block_size = options), ...);  // where there is one
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, dtype, options...); },
      [&](const at::Tensor& tangent, const at::Tensor&) { return op.call(tangent, dtype, options...); },
      [&](const at::Tensor&) {
        return autograd::make_node<BlockSumsBackward>(self, self.sym_numel(), rungs()[kVersion], block_size);
      });
}

using RowsSignature = at::Tensor(const at::Tensor&, int64_t, Dtype, int64_t);

at::Tensor differentiable_sums_of_rows(c10::DispatchKeySet keys, const at::Tensor& self, int64_t version, Dtype dtype,
                                       int64_t block_size) {
  static const auto op = find_operator<RowsSignature>("_sums_of_rows");
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, version, dtype, block_size); },
      [&](const at::Tensor& tangent, const at::Tensor&) { return op.call(tangent, version, dtype, block_size); },
      [&](const at::Tensor&) { return autograd::make_node<RungSumBackward>(self); });
}

at::Tensor differentiable_block_sums_of_rows(c10::DispatchKeySet keys, const at::Tensor& self, int64_t version,
                                             Dtype dtype, int64_t block_size) {
  static const auto op = find_operator<RowsSignature>("_block_sums_of_rows");
  return autograd::differentiable(
      self, [&] { return op.redispatch(keys & c10::after_autograd_keyset, self, version, dtype, block_size); },
      [&](const at::Tensor& tangent, const at::Tensor&) { return op.call(tangent, version, dtype, block_size); },
      [&](const at::Tensor&) {
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
