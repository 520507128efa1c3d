// What the operators do below other dispatch keys than those of backends and derivatives (autograd.cpp):
//
// - Meta: shapes and dtypes without data, for meta tensors, fake tensors and torch.compile, symbolic sizes included.
// - Autocast: what torch.sum does. On CUDA it is on the list of those that return float32 for smaller floats; elements
//   are converted as they are loaded, so there is no float32 copy. On a CPU autocast leaves it alone, and torch.mean on
//   both, and so there are no kernels.
// - FuncTorchBatched: vmap.
// - Functionalize: out= in graphs that write to nothing.

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/DimVector.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/movedim.h>
#include <ATen/ops/reshape.h>
#include <ATen/ops/unsqueeze.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch.h"
#include "exact/register.h"
#include "ladder/register.h"
#include "sum/overloads.h"
#include "sum_dtypes.h"
#include "transform/calls.h"

namespace reduce_ops {
namespace {

/// dtype= for a call below autocast.
std::optional<at::ScalarType> autocast_dtype(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const bool casts = !dtype && at::autocast::is_eligible(self, at::kCUDA);  // a float, but not a float64
  return casts ? at::kFloat : dtype;
}

/// rule(x) with the tensor that self is a batch of, the dimension that is vmapped in front; its result is of the same
/// form. self tells the level of its vmap. PyTorch's own rules ask the interpreter for the current one, but the headers
/// for that do not compile outside of PyTorch (they include one that it does not ship). The difference: where self is a
/// batch of an outer vmap only, their rules call the operator again, ours unwraps self at once.
template <typename Rule>
at::Tensor batched(const at::Tensor& self, Rule rule) {
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
  const auto* batch = at::functorch::unsafeGetBatchedImpl(self);
  return at::functorch::makeBatched(rule(batch->value().movedim(batch->bdim(), 0)), 0, batch->level());
}

/// What reduces dimensions of self as reduce(batch, dims, keepdim), on each sample at once.
template <typename Reduce>
at::Tensor batched_over_dims(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, Reduce reduce) {
  return batched(self, [&](const at::Tensor& batch) {
    const int64_t rank = batch.dim() - 1;  // of a sample
    at::DimVector shifted;
    if (dims && !dims->empty()) {
      const auto reduced = at::dim_list_to_bitset(*dims, rank);  // refuses what is not of a sample, or there twice
      for (int64_t d = 0; d < rank; ++d) {
        if (reduced[d]) shifted.push_back(d + 1);
      }
    } else {
      for (int64_t d = 1; d <= rank; ++d) shifted.push_back(d);
    }
    if (rank == 0) return reduce(batch.unsqueeze(1), at::IntArrayRef{1}, false);  // samples of one element
    return reduce(batch, at::IntArrayRef(shifted), keepdim);
  });
}

}  // namespace
}  // namespace reduce_ops

namespace reduce_ops::sum {
namespace {

using Keys = c10::DispatchKeySet;

/// The request with the dtype that out asks for; throws if out cannot hold the result.
template <const char* kName>
Request request_for(const at::Tensor& self, const Request& r, const at::Tensor& out) {
  if constexpr (kName == kVectorNormExact) {
    return exact::request_for(self, r, out);
  } else {
    const Dtype dtype = r.dtype ? r.dtype : dtype_of(r.op, self, out);
    check_out(kName, self, result_dtype(r.op, self, dtype, r.dtype ? "dtype" : "out"), out);
    return {r.dims, r.keepdim, dtype, r.op};
  }
}

template <const char* kName>
struct Meta {
  static at::Tensor run(Keys, const at::Tensor& self, const Request& r) {
    const at::ScalarType dtype = result_dtype(r.op, self, r.dtype);
    const DimSet reduced = reduced_dims(self, r.dims);
    check_has_elements(r.op, self, r.dims);
    return at::empty_symint(result_sizes(self.sym_sizes(), reduced, r.keepdim), self.options().dtype(dtype));
  }
  static at::Tensor& run_out(Keys, const at::Tensor& self, const Request& r, at::Tensor& out) {
    request_for<kName>(self, r, out);
    const DimSet reduced = reduced_dims(self, r.dims);
    check_has_elements(r.op, self, r.dims);
    out.resize__symint(result_sizes(self.sym_sizes(), reduced, r.keepdim));
    return out;
  }
};

template <const char* kName>
struct Autocast {
  static at::Tensor run(Keys, const at::Tensor& self, const Request& r) {
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastCUDA);
    return call<kName>(self, {r.dims, r.keepdim, autocast_dtype(self, r.dtype), r.op});
  }
};

/// vmap: a batch of reductions is one along dimensions: the order of each result is that of its own elements, and an
/// exact sum has none, so the bits are those of one call for each sample.
template <const char* kName>
struct Batched {
  static at::Tensor run(Keys, const at::Tensor& self, const Request& r) {
    return batched_over_dims(self, r.dims, r.keepdim, [&](const at::Tensor& batch, at::IntArrayRef dims, bool keeps) {
      return call<kName>(batch, {dims, keeps, r.dtype, r.op});
    });
  }
};

// Functionalization: out= for torch.compile and torch.export, whose graphs write to nothing: the result becomes a new
// tensor, which then takes the place of out. PyTorch does this by itself only for its own operators and for those that
// return nothing.

at::Tensor unwrapped(const at::Tensor& tensor) {
  if (!at::functionalization::impl::isFunctionalTensor(tensor)) return tensor;
  at::functionalization::impl::sync(tensor);
  return at::functionalization::impl::from_functional_tensor(tensor);
}

template <const char* kName>
struct Functionalized {
  static at::Tensor& run_out(Keys, const at::Tensor& self, const Request& r, at::Tensor& out) {
    const at::Tensor x = unwrapped(self);
    const Request asked = request_for<kName>(self, r, out);
    const at::Tensor result = [&] {
      const at::AutoDispatchSkipFunctionalize guard;
      return call<kName>(x, asked);
    }();
    at::functionalization::impl::replace_(out, result);
    at::functionalization::impl::commit_update(out);
    at::functionalization::impl::sync(out);
    return out;
  }
};

}  // namespace

at::Tensor call_sum(const at::Tensor& self, const Request& request) { return call<kSum>(self, request); }

TORCH_LIBRARY_IMPL(reduce, Meta, m) { register_operators<Meta>(m); }

TORCH_LIBRARY_IMPL(reduce, AutocastCUDA, m) {
  register_operator<kSum, Autocast<kSum>>(m);
  register_operator<kSumExact, Autocast<kSumExact>>(m);
  register_operator<kVectorNorm, Autocast<kVectorNorm>>(m);
  register_operator<kVectorNormExact, Autocast<kVectorNormExact>>(m);
}

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  register_operators<Batched>(m);
  register_operator<kSumExact, Batched<kSumExact>>(m);
  register_operator<kMeanExact, Batched<kMeanExact>>(m);
  register_operator<kVectorNormExact, Batched<kVectorNormExact>>(m);
}

TORCH_LIBRARY_IMPL(reduce, Functionalize, m) {
  register_operators<Functionalized>(m);
  register_operator<kVectorNormExact, Functionalized<kVectorNormExact>>(m);
}

}  // namespace reduce_ops::sum

namespace reduce_ops::exact {
namespace {

using Dims = at::OptionalIntArrayRef;

struct Meta {
  static at::Tensor reduce(const at::Tensor& self, const sum::Request& request) {
    const at::ScalarType dtype = exact_dtype(self, request);
    const DimSet reduced = sum::reduced_dims(self, request.dims);
    return at::empty_symint(sum::result_sizes(self.sym_sizes(), reduced, request.keepdim), self.options().dtype(dtype));
  }

  static at::Tensor& norm_out(const at::Tensor& self, const sum::Request& request, at::Tensor& out) {
    request_for(self, request, out);
    const DimSet reduced = sum::reduced_dims(self, request.dims);
    out.resize__symint(sum::result_sizes(self.sym_sizes(), reduced, request.keepdim));
    return out;
  }

  static at::Tensor state(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::string_view of) {
    check_summable("exact_state", "self", self.scalar_type());
    const Term term = term_of(self, of);
    const DimSet reduced = sum::reduced_dims(self, dims);
    auto sizes = sum::result_sizes(self.sym_sizes(), reduced, keepdim);
    if (self.is_complex() && term == Term::element) sizes.push_back(2);
    sizes.push_back(words_of(self.scalar_type(), term));
    return at::empty_symint(sizes, self.options().dtype(at::kLong));
  }

  static at::Tensor round(const at::Tensor& state, at::ScalarType dtype, c10::SymInt count, bool root) {
    check_state(state, dtype, count, root);
    return at::empty_symint(rounded_sizes(state, dtype), state.options().dtype(dtype));
  }
};

// vmap: a batch of states is states, one after the other. (The batches of sum_exact are those of sum, above.)

at::Tensor state_dims(const at::Tensor& self, Dims dims, bool keepdim, std::string_view of) {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, Dims, bool, std::string_view)>("exact_state", "dim_IntList");
  return batched_over_dims(self, dims, keepdim, [of](const at::Tensor& batch, at::IntArrayRef shifted, bool keeps) {
    return op.call(batch, shifted, keeps, of);
  });
}

at::Tensor state_all(const at::Tensor& self) { return state_dims(self, std::nullopt, false, "elements"); }

at::Tensor round(const at::Tensor& state, at::ScalarType dtype, c10::SymInt count, bool root) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, at::ScalarType, c10::SymInt, bool)>("exact_round");
  check_state(state, dtype, count,
              root);  // whose sizes are those of a sample; a batch could make up for what they lack
  return batched(state, [&](const at::Tensor& batch) { return op.call(batch, dtype, count, root); });
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Meta, m) { register_overloads<Meta>(m); }

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("exact_state", TORCH_FN(state_all));
  m.impl("exact_state.dim_IntList", TORCH_FN(state_dims));
  m.impl("exact_round", TORCH_FN(round));
}

}  // namespace reduce_ops::exact

namespace reduce_ops::transform {
namespace {

// Meta

at::Tensor meta_transform_sum(at::TensorList tensors, c10::string_view text, Dims dims, bool keepdim, Dtype dtype) {
  const auto formula = checked_formula(tensors, {text.data(), text.size()});
  const at::ScalarType result = dtypes_of(*formula, tensors, dtype).result;
  const c10::SymDimVector sizes = broadcast_sizes(tensors);
  return at::empty_symint(sum::result_sizes(c10::SymIntArrayRef(sizes),
                                            sum::reduced_dims(static_cast<int64_t>(sizes.size()), dims), keepdim),
                          tensors[0].options().dtype(result));
}

Pair meta_var_mean(const at::Tensor& self, Dims dims, const Correction&, bool keepdim, bool) {
  const auto sizes = sum::result_sizes(self.sym_sizes(), sum::reduced_dims(self, dims), keepdim);
  const auto options = self.options().dtype(reduce_ops::result_dtype(self.scalar_type()));
  return {at::empty_symint(sizes, options), at::empty_symint(sizes, options)};
}

// vmap: samples become the first dimension of all tensors, which those that have no samples are expanded along.

at::Tensor batched_transform_sum(at::TensorList tensors, c10::string_view formula, Dims dims, bool keepdim,
                                 Dtype dtype) {
  int64_t level = 0;
  for (const at::Tensor& tensor : tensors) {
    if (const auto* batch = at::functorch::maybeGetBatchedImpl(tensor)) level = std::max(level, batch->level());
  }
  const auto batch_of = [level](const at::Tensor& tensor) {
    const auto* batch = at::functorch::maybeGetBatchedImpl(tensor);
    return batch != nullptr && batch->level() == level ? batch : nullptr;
  };
  int64_t rank = 0;  // of what the samples broadcast to
  for (const at::Tensor& tensor : tensors) rank = std::max(rank, tensor.dim());
  std::vector<at::Tensor> batches;
  for (const at::Tensor& tensor : tensors) {
    const auto* batch = batch_of(tensor);
    at::Tensor x = batch != nullptr ? batch->value().movedim(batch->bdim(), 0) : tensor.unsqueeze(0);
    while (x.dim() < rank + 1) x = x.unsqueeze(1);
    batches.push_back(rank == 0 ? x.unsqueeze(1) : x);
  }
  at::DimVector shifted;
  const bool some = dims && !dims->empty();
  const auto reduced =
      at::dim_list_to_bitset(some ? *dims : at::IntArrayRef(), rank);  // refuses what is not of a sample
  for (int64_t d = 0; d < std::max<int64_t>(rank, 1); ++d) {
    if (!some || rank == 0 || reduced[d]) shifted.push_back(d + 1);
  }
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
  const at::Tensor result =
      transform_sum_handle().call(batches, formula, at::IntArrayRef(shifted), keepdim && rank > 0, dtype);
  return at::functorch::makeBatched(result, 0, level);
}

Pair batched_var_mean(const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim, bool root) {
  Pair result;
  const int64_t level = at::functorch::unsafeGetBatchedImpl(self)->level();
  std::get<0>(result) =
      batched_over_dims(self, dims, keepdim, [&](const at::Tensor& batch, at::IntArrayRef shifted, bool keeps) {
        const auto [variances, means] = var_mean_handle().call(batch, shifted, correction, keeps, root);
        std::get<1>(result) = at::functorch::makeBatched(means, 0, level);
        return variances;
      });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(reduce, Meta, m) {
  m.impl("transform_sum", TORCH_FN(meta_transform_sum));
  m.impl("_var_mean", TORCH_FN(meta_var_mean));
}

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("transform_sum", TORCH_FN(batched_transform_sum));
  m.impl("_var_mean", TORCH_FN(batched_var_mean));
}

}  // namespace reduce_ops::transform

namespace reduce_ops::ladder {
namespace {

using Dtype = std::optional<at::ScalarType>;

// Meta

struct Meta {
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

// Autocast

enum class Kind { sum, block_sums };

/// Options: an int64_t where the rung takes a block size.
template <Kind kKind, int kVersion, typename... Options>
at::Tensor rung_in_autocast(const at::Tensor& self, Dtype dtype, Options... options) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dtype, Options...)>(
      (kKind == Kind::sum ? "sum_v" : "block_sums_v") + std::to_string(kVersion));
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastCUDA);
  return op.call(self, autocast_dtype(self, dtype), options...);
}

// vmap: a batch of samples is summed by one call of the rung, over the rows that they are: as many launches as for one
// sample.

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
at::Tensor rung_batched(const at::Tensor& self, Dtype dtype, Options... options) {
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

TORCH_LIBRARY_IMPL(reduce, Meta, m) { register_rungs<Meta>(m); }

TORCH_LIBRARY_IMPL(reduce, AutocastCUDA, m) {
#define RUNG(N, ...)                                              \
  m.impl("sum_v" #N, TORCH_FN((rung_in_autocast<Kind::sum, N>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung_in_autocast<Kind::block_sums, N>)));
#define RUNG_WITH_BLOCK_SIZE(N, ...)                                       \
  m.impl("sum_v" #N, TORCH_FN((rung_in_autocast<Kind::sum, N, int64_t>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung_in_autocast<Kind::block_sums, N, int64_t>)));
#include "ladder/ladder.def"
}

TORCH_LIBRARY_IMPL(reduce, FuncTorchBatched, m) {
  m.impl("_sums_of_rows", TORCH_FN(rows<sums_op>));
  m.impl("_block_sums_of_rows", TORCH_FN(rows<block_sums_op>));
#define RUNG(N, ...)                                        \
  m.impl("sum_v" #N, TORCH_FN((rung_batched<sums_op, N>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung_batched<block_sums_op, N>)));
#define RUNG_WITH_BLOCK_SIZE(N, ...)                                 \
  m.impl("sum_v" #N, TORCH_FN((rung_batched<sums_op, N, int64_t>))); \
  m.impl("block_sums_v" #N, TORCH_FN((rung_batched<block_sums_op, N, int64_t>)));
#include "ladder/ladder.def"
}

}  // namespace reduce_ops::ladder
