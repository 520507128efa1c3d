// What the operators do under autocast: what torch.sum does. On CUDA it is on the list of those that return float32 for
// smaller floats; elements are converted as they are loaded, so there is no float32 copy. On a CPU autocast leaves it
// alone, and so there is no kernel.

#pragma once

#include <ATen/autocast_mode.h>

#include <optional>

namespace reduce_ops {

/// dtype= for a call below autocast.
inline std::optional<at::ScalarType> autocast_dtype(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const bool casts = !dtype && at::autocast::is_eligible(self, at::kCUDA);  // a float, but not a float64
  return casts ? at::kFloat : dtype;
}

}  // namespace reduce_ops
