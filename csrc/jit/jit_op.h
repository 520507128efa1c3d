// The engine as private operators, for `python -m reduce_ops compile` and `cache`, and for tests. They need no GPU.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace reduce_ops::jit {

/// The kernels that a sum or a mean launches on such a GPU (checked_gpu), one after the other: header and expression.
std::vector<std::string> kernels(const at::Tensor& self, at::OptionalIntArrayRef dims,
                                 std::optional<at::ScalarType> dtype, int64_t multiprocessors,
                                 std::optional<int64_t> l2_bytes, const std::string& name);

/// The same of transform_sum, or of another operator of a formula's values.
std::vector<std::string> transform_kernels(at::TensorList tensors, c10::string_view formula,
                                           at::OptionalIntArrayRef dims, std::optional<at::ScalarType> dtype,
                                           int64_t multiprocessors, std::optional<int64_t> l2_bytes,
                                           const std::string& name);

/// All kernels of exact sums.
std::vector<std::string> exact_kernels();

/// Path, bytes, and whether it was compiled now.
using Answer = std::tuple<std::string, int64_t, bool>;

/// make() and make_ready() of kernel.h.
Answer compile_op(const std::string& kernel, const std::string& architecture, const std::string& folder);
Answer find_op(const std::string& kernel, const std::string& architecture);

/// Loaded, and compiled, by this process.
std::tuple<int64_t, int64_t> counts_op();

/// The hash of the kernels' sources.
std::string sources();

}  // namespace reduce_ops::jit
