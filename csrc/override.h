#pragma once

#include <string>
#include <vector>

namespace reduce_ops {

/// Puts operators of this library in the place of PyTorch's own, "sum" and "mean", or takes all of them back if there
/// are none, for the whole process: in every thread, so also in those that run backward. It happens below autograd,
/// autocast and vmap, whose kernels stay PyTorch's.
void override_aten(const std::vector<std::string>& operators);

}  // namespace reduce_ops
