// How backends register the operators of ladder_op.h.

#pragma once

#include <torch/library.h>

#include "ladder/ladder_op.h"

namespace reduce_ops::ladder {

/// A backend that runs passes. (The Meta backend, which has only shapes to say, is of the same form.)
template <RunPass kRunPass>
struct Backend {
  static at::Tensor sum(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                        int64_t block_size) {
    return ladder::sum(rung, self, dtype, block_size, kRunPass);
  }
  static at::Tensor block_sums(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                               int64_t block_size) {
    return ladder::block_sums(rung, self, dtype, block_size, kRunPass);
  }
  static at::Tensor sums_of_rows(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                                 int64_t block_size) {
    return ladder::sums_of_rows(rung, self, dtype, block_size, kRunPass);
  }
  static at::Tensor block_sums_of_rows(const Rung& rung, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                                       int64_t block_size) {
    return ladder::block_sums_of_rows(rung, self, dtype, block_size, kRunPass);
  }
};

/// The operators of one rung with the signatures of their schemas.
template <typename Backend, int kVersion>
struct Operators {
  using Dtype = std::optional<at::ScalarType>;
  static at::Tensor sum_sized(const at::Tensor& self, Dtype dtype, int64_t block_size) {
    return Backend::sum(rungs()[kVersion], self, dtype, block_size);
  }
  static at::Tensor block_sums_sized(const at::Tensor& self, Dtype dtype, int64_t block_size) {
    return Backend::block_sums(rungs()[kVersion], self, dtype, block_size);
  }
  static at::Tensor sum(const at::Tensor& self, Dtype dtype) { return sum_sized(self, dtype, kBlockSize); }
  static at::Tensor block_sums(const at::Tensor& self, Dtype dtype) {
    return block_sums_sized(self, dtype, kBlockSize);
  }
};

/// Registers sum_vN and block_sums_vN of all rungs, and the rungs on rows, for one dispatch key.
template <typename Backend>
void register_rungs(torch::Library& m) {
  using Dtype = std::optional<at::ScalarType>;
  m.impl(
      "_sums_of_rows", +[](const at::Tensor& self, int64_t version, Dtype dtype, int64_t block_size) {
        return Backend::sums_of_rows(rung_of(version), self, dtype, block_size);
      });
  m.impl(
      "_block_sums_of_rows", +[](const at::Tensor& self, int64_t version, Dtype dtype, int64_t block_size) {
        return Backend::block_sums_of_rows(rung_of(version), self, dtype, block_size);
      });
#define RUNG(N, ...)                               \
  m.impl("sum_v" #N, &Operators<Backend, N>::sum); \
  m.impl("block_sums_v" #N, &Operators<Backend, N>::block_sums);
#define RUNG_WITH_BLOCK_SIZE(N, ...)                     \
  m.impl("sum_v" #N, &Operators<Backend, N>::sum_sized); \
  m.impl("block_sums_v" #N, &Operators<Backend, N>::block_sums_sized);
#include "ladder/ladder.def"
}

}  // namespace reduce_ops::ladder
