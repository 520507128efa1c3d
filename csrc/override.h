#pragma once

namespace reduce_ops {

/// Puts reduce.sum in the place of PyTorch's own sum, or takes it back, for the whole process: in every thread, so also
/// in those that run backward. It happens below autograd, autocast and vmap, whose kernels stay PyTorch's.
void override_aten(bool enabled);

}  // namespace reduce_ops
