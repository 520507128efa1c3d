#include "override.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/pow.h>
#include <c10/util/Exception.h>
#include <c10/util/OptionalArrayRef.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "sum/overloads.h"
#include "sum_dtypes.h"
#include "transform/calls.h"
#include "transform/products.h"

namespace reduce_ops {
namespace {

using sum::Dims;
using sum::Dtype;
using Keys = c10::DispatchKeySet;

/// self as this library's operators take it. PyTorch drops the imaginary parts, with a warning, where it is told to sum
/// complex numbers as real ones.
at::Tensor summable(const at::Tensor& self, Dtype dtype) {
  return dtype && self.is_complex() && !at::isComplexType(*dtype) ? converted(self, *dtype) : self;
}

template <const char* kName>
struct Override {
  static at::Tensor run(Keys keys, const at::Tensor& self, const sum::Request& r) {
    return sum::redispatch<kName>(keys, sum::kIsNorm<kName> ? self : summable(self, r.dtype), r);
  }
  static at::Tensor& run_out(Keys keys, const at::Tensor& self, const sum::Request& r, at::Tensor& out) {
    const Dtype dtype = r.dtype ? r.dtype : sum::dtype_of(r.op, self, out);
    return sum::redispatch_out<kName>(keys, sum::kIsNorm<kName> ? self : summable(self, dtype), r, out);
  }
};

template <const char* kName>
using Functions = sum::Functions<kName, Override<kName>>;

using Ord = std::optional<at::Scalar>;

/// A norm of an order that reduce.vector_norm has not: the sum is reduce.sum's, of powers that are PyTorch's.
at::Tensor norm_by_powers(const at::Tensor& self, double order, at::IntArrayRef dims, bool keepdim, Dtype dtype) {
  const at::ScalarType result = sum::result_dtype(sum::Operator::norm, self, dtype);
  if (order < 0) sum::check_has_elements(sum::Operator::min_abs, self, dims);
  const at::Tensor x = converted(converted(self, dtype.value_or(self.scalar_type())),
                                 accumulate_dtype(dtype.value_or(self.scalar_type())));
  const at::Tensor sums = sum::call_sum(at::pow(at::abs(x), order), {dims, keepdim, std::nullopt});
  return converted(at::pow(sums, 1 / order), result);
}

at::Tensor norm_dims(Keys keys, const at::Tensor& self, const Ord& ord, at::IntArrayRef dims, bool keepdim,
                     Dtype dtype) {
  const at::Scalar p = ord.value_or(2);
  if (!sum::has_norm(p) && !p.isComplex()) return norm_by_powers(self, p.toDouble(), dims, keepdim, dtype);
  return Functions<sum::kVectorNorm>::norm(keys, self, p, dims, keepdim, dtype);
}

at::Tensor vector_norm(Keys keys, const at::Tensor& self, const at::Scalar& ord, Dims dims, bool keepdim, Dtype dtype) {
  return norm_dims(keys, self, ord, dims.value_or(at::IntArrayRef()), keepdim, dtype);
}
at::Tensor norm_all(Keys keys, const at::Tensor& self, const at::Scalar& p) {
  return norm_dims(keys, self, p, {}, false, std::nullopt);
}
at::Tensor norm_all_dtype(Keys keys, const at::Tensor& self, const Ord& p, at::ScalarType dtype) {
  return norm_dims(keys, self, p, {}, false, dtype);
}
at::Tensor norm_along(Keys keys, const at::Tensor& self, const Ord& p, at::IntArrayRef dims, bool keepdim) {
  return norm_dims(keys, self, p, dims, keepdim, std::nullopt);
}
at::Tensor norm_dims_dtype(Keys keys, const at::Tensor& self, const Ord& p, at::IntArrayRef dims, bool keepdim,
                           at::ScalarType dtype) {
  return norm_dims(keys, self, p, dims, keepdim, dtype);
}

at::Tensor& copied(const at::Tensor& result, at::Tensor& out) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), "out has dtype ", out.scalar_type(),
              ", which cannot hold a result of ", result.scalar_type(), "; accepted are dtypes that can");
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}
at::Tensor& vector_norm_out(Keys keys, const at::Tensor& self, const at::Scalar& ord, Dims dims, bool keepdim,
                            Dtype dtype, at::Tensor& out) {
  if (sum::has_norm(ord)) return Functions<sum::kVectorNorm>::norm_out(keys, self, ord, dims, keepdim, dtype, out);
  return copied(vector_norm(keys, self, ord, dims, keepdim, dtype), out);
}
at::Tensor& norm_along_out(Keys keys, const at::Tensor& self, const Ord& p, at::IntArrayRef dims, bool keepdim,
                           at::Tensor& out) {
  return vector_norm_out(keys, self, p.value_or(2), dims, keepdim, std::nullopt, out);
}
at::Tensor& norm_dims_dtype_out(Keys keys, const at::Tensor& self, const Ord& p, at::IntArrayRef dims, bool keepdim,
                                at::ScalarType dtype, at::Tensor& out) {
  return vector_norm_out(keys, self, p.value_or(2), dims, keepdim, dtype, out);
}

template <const char* kName>
void override_sum(torch::Library& m) {
  using F = Functions<kName>;
  m.impl(kName, TORCH_FN(F::all));
  if constexpr (kName == sum::kSum) {
    m.impl("sum.dim_IntList", TORCH_FN(F::dims));
    m.impl("sum.IntList_out", TORCH_FN(F::dims_out));
  } else {
    m.impl("mean.dim", TORCH_FN(F::dims));
    m.impl("mean.out", TORCH_FN(F::dims_out));
  }
}

void override_nansum(torch::Library& m) {
  m.impl("nansum", TORCH_FN(Functions<sum::kNansum>::dims));
  m.impl("nansum.out", TORCH_FN(Functions<sum::kNansum>::dims_out));
}

template <const char* kName>
void override_extreme(torch::Library& m) {
  m.impl(kName, TORCH_FN(Functions<kName>::extreme));
  m.impl((std::string(kName) + ".out").c_str(), TORCH_FN(Functions<kName>::extreme_out));
}

void override_vector_norm(torch::Library& m) {
  m.impl("linalg_vector_norm", TORCH_FN(vector_norm));
  m.impl("linalg_vector_norm.out", TORCH_FN(vector_norm_out));
}

void override_norm(torch::Library& m) {
  m.impl("norm.Scalar", TORCH_FN(norm_all));
  m.impl("norm.ScalarOpt_dtype", TORCH_FN(norm_all_dtype));
  m.impl("norm.ScalarOpt_dim", TORCH_FN(norm_along));
  m.impl("norm.ScalarOpt_dim_dtype", TORCH_FN(norm_dims_dtype));
  m.impl("norm.out", TORCH_FN(norm_along_out));
  m.impl("norm.dtype_out", TORCH_FN(norm_dims_dtype_out));
}

// ---- dot products

/// As torch.dot takes them: two vectors of as many elements and one dtype.
void check_vectors(const char* name, const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK(x.dim() == 1 && y.dim() == 1, name, ": tensors have ", x.dim(), " and ", y.dim(),
              " dimensions; accepted are vectors");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), name, ": tensors are ", x.scalar_type(), " and ", y.scalar_type(),
              "; accepted are two of one dtype");
  TORCH_CHECK(x.numel() == y.numel(), name, ": tensors have ", x.numel(), " and ", y.numel(),
              " elements; accepted are two of one size");
}

at::Tensor dot_of(Keys keys, const at::Tensor& x, const at::Tensor& y, bool conjugates) {
  const transform::Products products(x, y, conjugates);
  const Dtype dtype = x.is_complex() ? Dtype() : Dtype(x.scalar_type());
  return converted(transform::transform_sum_handle().redispatch(keys, products.operands, products.formula, std::nullopt,
                                                                false, dtype),
                   x.scalar_type());
}
at::Tensor dot(Keys keys, const at::Tensor& x, const at::Tensor& y) {
  check_vectors("dot", x, y);
  return dot_of(keys, x, y, false);
}
at::Tensor vdot(Keys keys, const at::Tensor& x, const at::Tensor& y) {
  check_vectors("vdot", x, y);
  return dot_of(keys, x, y, true);
}
at::Tensor& dot_out(Keys keys, const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  return copied(dot(keys, x, y), out);
}
at::Tensor& vdot_out(Keys keys, const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
  return copied(vdot(keys, x, y), out);
}

void override_dot(torch::Library& m) {
  m.impl("dot", TORCH_FN(dot));
  m.impl("dot.out", TORCH_FN(dot_out));
}
void override_vdot(torch::Library& m) {
  m.impl("vdot", TORCH_FN(vdot));
  m.impl("vdot.out", TORCH_FN(vdot_out));
}

/// Of what PyTorch has no kernels for, only other operators with derivatives of their own: ours, from the top.
at::Tensor vecdot(const at::Tensor& x, const at::Tensor& y, int64_t dim) {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, std::optional<int64_t>)>("vecdot");
  return converted(op.call(x, y, dim), x.scalar_type());
}
at::Tensor& vecdot_out(const at::Tensor& x, const at::Tensor& y, int64_t dim, at::Tensor& out) {
  return copied(vecdot(x, y, dim), out);
}

void override_vecdot(torch::Library& m) {
  m.impl("linalg_vecdot", TORCH_FN(vecdot));
  m.impl("linalg_vecdot.out", TORCH_FN(vecdot_out));
}

// ---- variances

using transform::Correction;
using Pair = std::tuple<at::Tensor, at::Tensor>;

template <bool kRoot>
struct Moments {
  static Pair both(Keys keys, const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim) {
    if (at::isFloatingType(self.scalar_type())) {
      return transform::var_mean_handle().redispatch(keys, self, dims, correction, keepdim, kRoot);
    }
    // Of complex numbers two of these; of integers an error.
    static const auto op =
        find_operator<Pair(const at::Tensor&, Dims, const Correction&, bool)>(kRoot ? "std_mean" : "var_mean");
    return op.call(self, dims, correction, keepdim);
  }
  static at::Tensor one(Keys keys, const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim) {
    return std::get<0>(both(keys, self, dims, correction, keepdim));
  }
  static at::Tensor& out(Keys keys, const at::Tensor& self, Dims dims, const Correction& correction, bool keepdim,
                         at::Tensor& out) {
    return copied(one(keys, self, dims, correction, keepdim), out);
  }
};

template <bool kRoot>
void override_moment(torch::Library& m) {
  const std::string name = kRoot ? sum::kStd : sum::kVar;
  m.impl((name + ".correction").c_str(), TORCH_FN(Moments<kRoot>::one));
  m.impl((name + ".correction_out").c_str(), TORCH_FN(Moments<kRoot>::out));
}
template <bool kRoot>
void override_moments(torch::Library& m) {
  const std::string name = kRoot ? sum::kStd : sum::kVar;
  m.impl((name + "_mean.correction").c_str(), TORCH_FN(Moments<kRoot>::both));
}

/// What can be overridden, by PyTorch's name, and whether also above its derivatives.
struct Overridden {
  const char* name;
  void (*into)(torch::Library&);
  bool is_composite = false;
};
const Overridden kOverrides[] = {
    {"sum", override_sum<sum::kSum>},
    {"mean", override_sum<sum::kMean>},
    {"nansum", override_nansum},
    {"linalg_vector_norm", override_vector_norm},
    {"norm", override_norm},
    {"amax", override_extreme<sum::kAmax>},
    {"amin", override_extreme<sum::kAmin>},
    {"dot", override_dot},
    {"vdot", override_vdot},
    {"linalg_vecdot", override_vecdot, true},
    {"var", override_moment<false>},
    {"std", override_moment<true>},
    {"var_mean", override_moments<false>},
    {"std_mean", override_moments<true>},
};

/// What is registered while the override is on; its end takes everything back.
using Registrations = std::vector<std::unique_ptr<torch::Library>>;

std::unique_ptr<torch::Library> registered_for(c10::DispatchKey key, const std::vector<std::string>& operators) {
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  for (const std::string& name : operators) {
    const auto* const found = std::find_if(std::begin(kOverrides), std::end(kOverrides),
                                           [&](const auto& entry) { return name == entry.name; });
    TORCH_CHECK(found != std::end(kOverrides), "_override_aten: operators has ", name, ", which is none");
    const bool above = key == c10::DispatchKey::AutogradCPU || key == c10::DispatchKey::AutogradCUDA;
    if (!above || found->is_composite) found->into(*library);
  }
  return library;
}

}  // namespace

void override_aten(const std::vector<std::string>& operators) {
  static std::mutex mutex;
  static Registrations registrations;
  const std::lock_guard<std::mutex> lock(mutex);
  const bool enabled = !operators.empty();
  TORCH_CHECK(enabled == registrations.empty(), "override_aten: PyTorch's operators are ", enabled ? "already" : "not",
              " overridden");
  if (!enabled) return registrations.clear();
  // PyTorch warns of whoever replaces a kernel of its own; here that is what was asked for.
  struct Silence : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  const auto sum = c10::Dispatcher::singleton().findSchemaOrThrow("reduce::sum", "dim_IntList");
  Registrations made;
  for (const auto& [key, above] : {std::pair{c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU},
                                   std::pair{c10::DispatchKey::CUDA, c10::DispatchKey::AutogradCUDA}}) {
    if (!sum.hasKernelForDispatchKey(key)) continue;
    made.push_back(registered_for(key, operators));
    made.push_back(registered_for(above, operators));
  }
  registrations = std::move(made);
}

}  // namespace reduce_ops
