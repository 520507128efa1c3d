#include "ladder/ladder_op.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <c10/util/complex.h>

#include <algorithm>

#include "sum_dtypes.h"

namespace reduce_ops::ladder {
namespace {

/// The input dtype of types.def that holds every value of `element` exactly and accumulates in the same type.
at::ScalarType loaded_dtype(at::ScalarType element) {
  switch (element) {
    case at::kBool:
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
    case at::kUInt64:  // wraps, as the accumulator does
      return at::kLong;
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
      return at::kFloat;
    case at::kComplexHalf:
      return at::kComplexFloat;
    default:
      return element;
  }
}

/// self as one run of elements in row-major order, in a dtype that the rungs load. Copies only where it must, and asks
/// before each step: a call that changes nothing costs some 0.2 us all the same.
at::Tensor load_ready(const at::Tensor& self, const Dtypes& dtypes) {
  at::Tensor x = self;
  // The rungs widen half precision as they load it, so such an input need not become a float32 copy.
  const bool widened_by_rung = at::isReducedFloatingType(x.scalar_type()) && dtypes.element == at::kFloat;
  if (!widened_by_rung) x = converted(x, dtypes.element);
  x = converted(x, loaded_dtype(x.scalar_type()));
  if (x.is_conj()) x = x.resolve_conj();
  if (x.is_neg()) x = x.resolve_neg();
  return x.contiguous();
}

/// The dtype the last pass stores: 16-bit results are rounded there, every other is a no-op or narrowed afterwards.
at::ScalarType stored_dtype(const Dtypes& dtypes) {
  const bool half = dtypes.result == at::kHalf || dtypes.result == at::kBFloat16;
  return half ? dtypes.result : dtypes.accumulate;
}

/// One pass over a batch of rows, (rows, n) to (rows, blocks of a row): the same kernel, as a block covers consecutive
/// elements and knows nothing of its neighbours. Missing elements are stored where a row ends inside a block.
at::Tensor pass_over_rows(const Rung& rung, const Grid& grid, const at::Tensor& a, at::ScalarType dtype,
                          RunPass run_pass) {
  const int64_t rows = a.size(0);
  const int64_t n = a.size(1);
  const int64_t padded_n = grid.blocks * grid.elements * grid.threads;
  at::Tensor padded = a;
  if (padded_n > n) {
    padded = at::empty({rows, padded_n}, a.options());
    padded.narrow(1, 0, n).copy_(a);
    const c10::Scalar missing = a.is_complex() ? c10::Scalar(c10::complex<double>(-0.0, -0.0)) : c10::Scalar(-0.0);
    padded.narrow(1, n, padded_n - n).fill_(missing);
  }
  at::Tensor sums = at::empty({rows, grid.blocks}, a.options().dtype(dtype));
  const Grid all{grid.threads, grid.elements, rows * grid.blocks};
  check_grid(rung, all, padded.numel());
  run_pass(rung, all, padded, sums);
  return sums;
}

/// What a rung starts with on rows.
struct Rows {
  Rows(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype, int64_t block_size)
      : dtypes(check_dtypes(rung, self, dtype)) {
    check_block_size(rung, block_size);
    check_rows(self);
    count = self.size(0);
    n = c10::multiply_integers(self.sizes().slice(1));
    grid = make_grid<int64_t>(rung, static_cast<int>(block_size), n);
  }
  bool empty() const { return count == 0 || n == 0; }
  at::Tensor load_ready(const at::Tensor& self) const { return ladder::load_ready(self, dtypes).view({count, n}); }

  Dtypes dtypes;
  int64_t count;
  int64_t n;
  Grid grid;
};

}  // namespace

const Rung& rung_of(int64_t version) {
  const auto count = static_cast<int64_t>(rungs().size());
  TORCH_CHECK_VALUE(version >= 0 && version < count, "version=", version, " is not a rung; accepted are 0 to ",
                    count - 1);
  return rungs()[version];
}

void check_rows(const at::Tensor& self) {
  TORCH_CHECK(self.dim() > 0, "self has no dimensions; its first one is that of the rows");
}

Dtypes check_dtypes(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const std::string name = "sum_v" + std::to_string(rung.number);
  const at::ScalarType input = self.scalar_type();
  check_summable(name, "self", self, input);
  if (!dtype) return {input, accumulate_dtype(input), result_dtype(input)};
  check_summable(name, "dtype", self, *dtype);
  check_holds(name, "dtype", input, *dtype);
  return {*dtype, accumulate_dtype(*dtype), *dtype};
}

void check_block_size(const Rung& rung, int64_t block_size) {
  const auto& sizes = rung.block_sizes;
  TORCH_CHECK_VALUE(std::find(sizes.begin(), sizes.end(), block_size) != sizes.end(), "sum_v", rung.number,
                    ": block_size=", block_size, " is not one of ", at::IntArrayRef(sizes));
}

void check_grid(const Rung& rung, const Grid& grid, int64_t n) {
  TORCH_CHECK(grid.blocks <= kMaxGrid, "sum_v", rung.number, ": self has ", n, " elements, which take ", grid.blocks,
              " blocks of ", grid.elements * grid.threads, " elements; a CUDA grid has at most ", kMaxGrid,
              " (the rungs from v6 on take any number of elements)");
}

at::Tensor block_sums(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype, int64_t block_size,
                      RunPass run_pass) {
  const Dtypes dtypes = check_dtypes(rung, self, dtype);
  check_block_size(rung, block_size);
  const Grid grid = make_grid<int64_t>(rung, static_cast<int>(block_size), self.numel());
  check_grid(rung, grid, self.numel());

  at::Tensor sums = at::empty({grid.blocks}, self.options().dtype(dtypes.accumulate));
  if (grid.blocks > 0) run_pass(rung, grid, load_ready(self, dtypes), sums);
  return sums;
}

at::Tensor sum(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype, int64_t block_size,
               RunPass run_pass) {
  const Dtypes dtypes = check_dtypes(rung, self, dtype);
  check_block_size(rung, block_size);
  Grid grid = make_grid<int64_t>(rung, static_cast<int>(block_size), self.numel());
  check_grid(rung, grid, self.numel());
  if (self.numel() == 0) return at::zeros({}, self.options().dtype(dtypes.result));

  at::Tensor x = load_ready(self, dtypes);
  while (grid.blocks > 1) {
    at::Tensor sums = at::empty({grid.blocks}, self.options().dtype(dtypes.accumulate));
    run_pass(rung, grid, x, sums);
    x = std::move(sums);
    grid = make_grid<int64_t>(rung, static_cast<int>(block_size), x.numel());
  }
  const at::Tensor result = at::empty({}, self.options().dtype(stored_dtype(dtypes)));
  run_pass(rung, grid, x, result);
  return converted(result, dtypes.result);
}

at::Tensor block_sums_of_rows(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                              int64_t block_size, RunPass run_pass) {
  const Rows rows(rung, self, dtype, block_size);
  if (rows.empty()) return at::empty({rows.count, rows.grid.blocks}, self.options().dtype(rows.dtypes.accumulate));
  return pass_over_rows(rung, rows.grid, rows.load_ready(self), rows.dtypes.accumulate, run_pass);
}

at::Tensor sums_of_rows(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                        int64_t block_size, RunPass run_pass) {
  const Rows rows(rung, self, dtype, block_size);
  if (rows.empty()) return at::zeros({rows.count}, self.options().dtype(rows.dtypes.result));
  at::Tensor x = rows.load_ready(self);
  Grid grid = rows.grid;
  while (grid.blocks > 1) {
    x = pass_over_rows(rung, grid, x, rows.dtypes.accumulate, run_pass);
    grid = make_grid<int64_t>(rung, static_cast<int>(block_size), grid.blocks);
  }
  const at::Tensor result = pass_over_rows(rung, grid, x, stored_dtype(rows.dtypes), run_pass).squeeze(1);
  return converted(result, rows.dtypes.result);
}

}  // namespace reduce_ops::ladder
