#include "override.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <c10/util/OptionalArrayRef.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "sum/sum_op.h"
#include "sum_dtypes.h"

namespace reduce_ops {
namespace {

using Dtype = std::optional<at::ScalarType>;
using Dims = at::OptionalIntArrayRef;

/// self as reduce.sum and reduce.mean take it. PyTorch drops the imaginary parts, with a warning, where it is told to
/// sum complex numbers as real ones.
at::Tensor summable(const at::Tensor& self, Dtype dtype) {
  return dtype && self.is_complex() && !at::isComplexType(*dtype) ? converted(self, *dtype) : self;
}

template <const char* kName>
at::Tensor over_dims(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>(kName, "dim_IntList");
  return op.redispatch(keys, summable(self, dtype), dims, keepdim, dtype);
}

template <const char* kName>
at::Tensor over_all(c10::DispatchKeySet keys, const at::Tensor& self, Dtype dtype) {
  return over_dims<kName>(keys, self, std::nullopt, false, dtype);
}

template <const char* kName>
at::Tensor& over_dims_out(c10::DispatchKeySet keys, const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype,
                          at::Tensor& out) {
  static const auto op =
      find_operator<at::Tensor&(const at::Tensor&, Dims, bool, Dtype, at::Tensor&)>(kName, "IntList_out");
  return op.redispatch(keys, summable(self, dtype ? dtype : sum::dtype_of(self, out)), dims, keepdim, dtype, out);
}

/// What is registered while the override is on; its end takes everything back.
using Registrations = std::vector<std::unique_ptr<torch::Library>>;

std::unique_ptr<torch::Library> registered_for(c10::DispatchKey key, const std::vector<std::string>& operators) {
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  for (const std::string& name : operators) {
    if (name == kSum) {
      library->impl("sum", TORCH_FN(over_all<kSum>));
      library->impl("sum.dim_IntList", TORCH_FN(over_dims<kSum>));
      library->impl("sum.IntList_out", TORCH_FN(over_dims_out<kSum>));
    } else {
      TORCH_CHECK(name == kMean, "_override_aten: operators has ", name, "; accepted are sum and mean");
      library->impl("mean", TORCH_FN(over_all<kMean>));
      library->impl("mean.dim", TORCH_FN(over_dims<kMean>));
      library->impl("mean.out", TORCH_FN(over_dims_out<kMean>));
    }
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
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    if (sum.hasKernelForDispatchKey(key)) made.push_back(registered_for(key, operators));
  }
  registrations = std::move(made);
}

}  // namespace reduce_ops
