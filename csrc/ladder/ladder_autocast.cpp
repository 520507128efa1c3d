#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <string>

#include "autocast.h"
#include "dispatch.h"

namespace reduce_ops::ladder {
namespace {

using Dtype = std::optional<at::ScalarType>;

enum class Kind { sum, block_sums };

/// Options: an int64_t where the rung takes a block size.
template <Kind kKind, int kVersion, typename... Options>
at::Tensor rung(const at::Tensor& self, Dtype dtype, Options... options) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dtype, Options...)>(
      (kKind == Kind::sum ? "sum_v" : "block_sums_v") + std::to_string(kVersion));
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastCUDA);
  return op.call(self, autocast_dtype(self, dtype), options...);
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, AutocastCUDA, m) {
#define RUNG(N, ...)                                  \
  m.impl("sum_v" #N, TORCH_FN((rung<Kind::sum, N>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung<Kind::block_sums, N>)));
#define RUNG_WITH_BLOCK_SIZE(N, ...)                           \
  m.impl("sum_v" #N, TORCH_FN((rung<Kind::sum, N, int64_t>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung<Kind::block_sums, N, int64_t>)));
#include "ladder/ladder.def"
}

}  // namespace reduce_ops::ladder
