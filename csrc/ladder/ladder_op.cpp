#include "ladder/ladder_op.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

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
  if (x.scalar_type() != dtypes.element && !widened_by_rung) x = x.to(dtypes.element);
  const at::ScalarType loaded = loaded_dtype(x.scalar_type());
  if (x.scalar_type() != loaded) x = x.to(loaded);
  if (x.is_conj()) x = x.resolve_conj();
  if (x.is_neg()) x = x.resolve_neg();
  return x.contiguous();
}

/// The dtype the last pass stores: 16-bit results are rounded there, every other is a no-op or narrowed afterwards.
at::ScalarType stored_dtype(const Dtypes& dtypes) {
  const bool half = dtypes.result == at::kHalf || dtypes.result == at::kBFloat16;
  return half ? dtypes.result : dtypes.accumulate;
}

}  // namespace

Dtypes check_dtypes(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const std::string name = "sum_v" + std::to_string(rung.number);
  const at::ScalarType input = self.scalar_type();
  check_summable(name, "self", input);
  if (!dtype) return {input, accumulate_dtype(input), result_dtype(input)};
  check_summable(name, "dtype", *dtype);
  check_holds(name, input, *dtype);
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
  return result.scalar_type() == dtypes.result ? result : result.to(dtypes.result);
}

}  // namespace reduce_ops::ladder
