// The gradient of a rung's sum is that of any sum, an expanded view; the gradient of a block sum goes to the elements
// of its block, which lie in a row.

#include <ATen/ops/reshape.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include "autograd.h"
#include "dispatch.h"
#include "ladder/ladder_op.h"

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
