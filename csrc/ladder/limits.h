// Numbers of threads that kernels and schedule share. Plain C++.

#pragma once

namespace reduce_ops::ladder {

inline constexpr int kWarpSize = 32;
inline constexpr int kBlockSize = 256;  // threads a block, unless the rung takes another block_size

}  // namespace reduce_ops::ladder
