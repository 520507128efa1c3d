// Shapes and dtypes without data: for meta tensors, fake tensors and torch.compile, symbolic sizes included.

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include "ladder/ladder_op.h"

namespace reduce_ops::ladder {
namespace {

struct Meta {
  using Dtype = std::optional<at::ScalarType>;

  static at::Tensor sum(const Rung& rung, const at::Tensor& self, Dtype dtype, int64_t block_size) {
    const Dtypes dtypes = check(rung, self, dtype, block_size);
    return at::empty({}, self.options().dtype(dtypes.result));
  }

  static at::Tensor block_sums(const Rung& rung, const at::Tensor& self, Dtype dtype, int64_t block_size) {
    const Dtypes dtypes = check(rung, self, dtype, block_size);
    const auto grid = make_grid<c10::SymInt>(rung, static_cast<int>(block_size), self.sym_numel());
    return at::empty_symint({grid.blocks}, self.options().dtype(dtypes.accumulate));
  }

  static at::Tensor sums_of_rows(const Rung& rung, const at::Tensor& self, Dtype dtype, int64_t block_size) {
    const Dtypes dtypes = check(rung, self, dtype, block_size);
    check_rows(self);
    return at::empty_symint({self.sym_size(0)}, self.options().dtype(dtypes.result));
  }

  static at::Tensor block_sums_of_rows(const Rung& rung, const at::Tensor& self, Dtype dtype, int64_t block_size) {
    const Dtypes dtypes = check(rung, self, dtype, block_size);
    check_rows(self);
    const c10::SymInt n = c10::multiply_integers(self.sym_sizes().slice(1));
    const auto grid = make_grid<c10::SymInt>(rung, static_cast<int>(block_size), n);
    return at::empty_symint({self.sym_size(0), grid.blocks}, self.options().dtype(dtypes.accumulate));
  }

 private:
  static Dtypes check(const Rung& rung, const at::Tensor& self, Dtype dtype, int64_t block_size) {
    const Dtypes dtypes = check_dtypes(rung, self, dtype);
    check_block_size(rung, block_size);
    if (const auto n = self.sym_numel().maybe_as_int()) {
      check_grid(rung, make_grid<int64_t>(rung, static_cast<int>(block_size), *n), *n);
    }
    return dtypes;
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Meta, m) { register_rungs<Meta>(m); }

}  // namespace reduce_ops::ladder
