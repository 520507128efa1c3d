// A batch of samples is summed by one call of the rung, over the rows that they are: as many launches as for one
// sample.

#include <ATen/ops/reshape.h>
#include <torch/library.h>

#include "batching.h"
#include "dispatch.h"
#include "ladder/ladder_op.h"

namespace reduce_ops::ladder {
namespace {

using Dtype = std::optional<at::ScalarType>;
using RowsSignature = at::Tensor(const at::Tensor&, int64_t, Dtype, int64_t);

c10::TypedOperatorHandle<RowsSignature> sums_op() {
  static const auto op = find_operator<RowsSignature>("_sums_of_rows");
  return op;
}

c10::TypedOperatorHandle<RowsSignature> block_sums_op() {
  static const auto op = find_operator<RowsSignature>("_block_sums_of_rows");
  return op;
}

/// Options: an int64_t where the rung takes a block size.
template <auto kOfRows, int kVersion, typename... Options>
at::Tensor rung(const at::Tensor& self, Dtype dtype, Options... options) {
  int64_t block_size = kBlockSize;
  ((block_size = options), ...);
  return batched(self, [&](const at::Tensor& batch) { return kOfRows().call(batch, kVersion, dtype, block_size); });
}

/// A batch of rows is more rows: what a vmap inside another one makes.
template <auto kOfRows>
at::Tensor rows(const at::Tensor& self, int64_t version, Dtype dtype, int64_t block_size) {
  return batched(self, [&](const at::Tensor& batch) {
    const c10::SymInt samples = batch.sym_size(0);
    const c10::SymInt rows = batch.sym_size(1);
    const at::Tensor result = kOfRows().call(batch.flatten(0, 1), version, dtype, block_size);
    return result.unflatten_symint(0, {samples, rows});
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("_sums_of_rows", TORCH_FN(rows<sums_op>));
  m.impl("_block_sums_of_rows", TORCH_FN(rows<block_sums_op>));
#define RUNG(N, ...)                                \
  m.impl("sum_v" #N, TORCH_FN((rung<sums_op, N>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung<block_sums_op, N>)));
#define RUNG_WITH_BLOCK_SIZE(N, ...)                         \
  m.impl("sum_v" #N, TORCH_FN((rung<sums_op, N, int64_t>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung<block_sums_op, N, int64_t>)));
#include "ladder/ladder.def"
}

}  // namespace reduce_ops::ladder
