// The overloads of the operators of sum_op.h: what arguments each takes, and how they become a Request and come of one.
// So what is done below a dispatch key is written once, as a kernel of all of them. A header of its own:
// torch/library.h takes a compiler longer than all else that these files see.

#pragma once

#include <c10/core/Scalar.h>
#include <torch/library.h>

#include <string>
#include <type_traits>

#include "dispatch.h"
#include "sum/sum_op.h"

namespace reduce_ops::sum {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;

template <const char* kName>
inline constexpr bool kIsNorm = kName == kVectorNorm || kName == kVectorNormExact;
template <const char* kName>
inline constexpr bool kIsExtreme = kName == kAmax || kName == kAmin;
/// Those that were there first have overloads without dimensions beside those with dimensions, as torch.sum has.
template <const char* kName>
inline constexpr bool kHasDimOverloads = kName == kSum || kName == kMean || kName == kSumExact || kName == kMeanExact;

/// What an operator reduces to, but for norms, which their order tells.
template <const char* kName>
inline constexpr Operator kOperator = kName == kMean || kName == kMeanExact ? Operator::mean
                                      : kName == kNansum                    ? Operator::nansum
                                      : kName == kAmax                      ? Operator::max
                                      : kName == kAmin                      ? Operator::min
                                                                            : Operator::sum;

/// The functions that the dispatcher calls, with a Kernel that has run(keys, self, request), and run_out(keys, self,
/// request, out) unless the operator has no out=.
template <const char* kName, typename Kernel>
struct Functions {
  using Keys = c10::DispatchKeySet;

  static at::Tensor all(Keys keys, const at::Tensor& self, Dtype dtype) {
    return Kernel::run(keys, self, {std::nullopt, false, dtype, kOperator<kName>});
  }
  static at::Tensor& all_out(Keys keys, const at::Tensor& self, Dtype dtype, at::Tensor& out) {
    return Kernel::run_out(keys, self, {std::nullopt, false, dtype, kOperator<kName>}, out);
  }
  static at::Tensor dims(Keys keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
    return Kernel::run(keys, self, {dims, keepdim, dtype, kOperator<kName>});
  }
  static at::Tensor& dims_out(Keys keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype,
                              at::Tensor& out) {
    return Kernel::run_out(keys, self, {dims, keepdim, dtype, kOperator<kName>}, out);
  }
  static at::Tensor norm(Keys keys, const at::Tensor& self, const at::Scalar& ord, Dims dims, bool keepdim,
                         Dtype dtype) {
    return Kernel::run(keys, self, {dims, keepdim, dtype, norm_of(kName, ord)});
  }
  static at::Tensor& norm_out(Keys keys, const at::Tensor& self, const at::Scalar& ord, Dims dims, bool keepdim,
                              Dtype dtype, at::Tensor& out) {
    return Kernel::run_out(keys, self, {dims, keepdim, dtype, norm_of(kName, ord)}, out);
  }
  static at::Tensor extreme(Keys keys, const at::Tensor& self, at::IntArrayRef dims, bool keepdim) {
    return Kernel::run(keys, self, {dims, keepdim, std::nullopt, kOperator<kName>});
  }
  static at::Tensor& extreme_out(Keys keys, const at::Tensor& self, at::IntArrayRef dims, bool keepdim,
                                 at::Tensor& out) {
    return Kernel::run_out(keys, self, {dims, keepdim, std::nullopt, kOperator<kName>}, out);
  }
};

/// Registers a kernel for what the operator has, of overloads that return a new tensor and of those with out=.
template <const char* kName, typename Kernel>
void register_operator(torch::Library& m) {
  using F = Functions<kName, Kernel>;
  const std::string name = kName;
  if constexpr (requires { Kernel::run; }) {
    if constexpr (kIsNorm<kName>) {
      m.impl(kName, TORCH_FN(F::norm));
    } else if constexpr (kIsExtreme<kName>) {
      m.impl(kName, TORCH_FN(F::extreme));
    } else if constexpr (kHasDimOverloads<kName>) {
      m.impl(kName, TORCH_FN(F::all));
      m.impl((name + ".dim_IntList").c_str(), TORCH_FN(F::dims));
    } else {
      m.impl(kName, TORCH_FN(F::dims));
    }
  }
  if constexpr (requires { Kernel::run_out; }) {
    if constexpr (kIsNorm<kName>) {
      m.impl((name + ".out").c_str(), TORCH_FN(F::norm_out));
    } else if constexpr (kIsExtreme<kName>) {
      m.impl((name + ".out").c_str(), TORCH_FN(F::extreme_out));
    } else if constexpr (kHasDimOverloads<kName>) {
      m.impl((name + ".out").c_str(), TORCH_FN(F::all_out));
      m.impl((name + ".IntList_out").c_str(), TORCH_FN(F::dims_out));
    } else {
      m.impl((name + ".out").c_str(), TORCH_FN(F::dims_out));
    }
  }
}

/// The same for all operators. Kernel<kName>: that of one.
template <template <const char*> typename Kernel>
void register_operators(torch::Library& m) {
  register_operator<kSum, Kernel<kSum>>(m);
  register_operator<kMean, Kernel<kMean>>(m);
  register_operator<kNansum, Kernel<kNansum>>(m);
  register_operator<kVectorNorm, Kernel<kVectorNorm>>(m);
  register_operator<kAmax, Kernel<kAmax>>(m);
  register_operator<kAmin, Kernel<kAmin>>(m);
}

/// Calls use() with the arguments that an operator takes beside self.
template <const char* kName, typename Use>
decltype(auto) with_arguments(const Request& r, const Use& use) {
  if constexpr (kIsNorm<kName>) {
    return use(at::Scalar(ord_of(r.op)), r.dims, r.keepdim, r.dtype);
  } else if constexpr (kIsExtreme<kName>) {
    return use(r.dims ? *r.dims : at::IntArrayRef(), r.keepdim);
  } else {
    return use(r.dims, r.keepdim, r.dtype);
  }
}

template <const char* kName>
using Signature =
    std::conditional_t<kIsNorm<kName>, at::Tensor(const at::Tensor&, const at::Scalar&, Dims, bool, Dtype),
                       std::conditional_t<kIsExtreme<kName>, at::Tensor(const at::Tensor&, at::IntArrayRef, bool),
                                          at::Tensor(const at::Tensor&, Dims, bool, Dtype)>>;
template <const char* kName>
using OutSignature = std::conditional_t<
    kIsNorm<kName>, at::Tensor&(const at::Tensor&, const at::Scalar&, Dims, bool, Dtype, at::Tensor&),
    std::conditional_t<kIsExtreme<kName>, at::Tensor&(const at::Tensor&, at::IntArrayRef, bool, at::Tensor&),
                       at::Tensor&(const at::Tensor&, Dims, bool, Dtype, at::Tensor&)>>;

/// The overload that takes all arguments.
template <const char* kName>
const auto& handle() {
  static const auto op = find_operator<Signature<kName>>(kName, kHasDimOverloads<kName> ? "dim_IntList" : "");
  return op;
}
template <const char* kName>
const auto& out_handle() {
  static const auto op = find_operator<OutSignature<kName>>(kName, kHasDimOverloads<kName> ? "IntList_out" : "out");
  return op;
}

/// Calls the operator, from the top.
template <const char* kName>
at::Tensor call(const at::Tensor& self, const Request& r) {
  return with_arguments<kName>(r, [&](const auto&... rest) { return handle<kName>().call(self, rest...); });
}

/// Calls what the operator has for these keys.
template <const char* kName>
at::Tensor redispatch(c10::DispatchKeySet keys, const at::Tensor& self, const Request& r) {
  return with_arguments<kName>(r, [&](const auto&... rest) { return handle<kName>().redispatch(keys, self, rest...); });
}
template <const char* kName>
at::Tensor& redispatch_out(c10::DispatchKeySet keys, const at::Tensor& self, const Request& r, at::Tensor& out) {
  return with_arguments<kName>(
      r, [&](const auto&... rest) -> at::Tensor& { return out_handle<kName>().redispatch(keys, self, rest..., out); });
}

/// Registers all operators for a backend that has data.
template <SumInto* kSumInto, Allocate* kAllocate>
struct Backend {
  template <const char* kName>
  struct Kernel {
    static at::Tensor run(c10::DispatchKeySet, const at::Tensor& self, const Request& request) {
      return sum(self, request, kSumInto, kAllocate);
    }
    static at::Tensor& run_out(c10::DispatchKeySet, const at::Tensor& self, const Request& request, at::Tensor& out) {
      return sum_out(self, request, out, kSumInto, kAllocate);
    }
  };
};

}  // namespace reduce_ops::sum
