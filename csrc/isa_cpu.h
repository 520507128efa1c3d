// Which instruction set the kernels for the CPU may use.

#pragma once

namespace reduce_ops {

enum class Isa { baseline, avx2, avx512 };

/// Of this CPU, the best that there are kernels for.
Isa isa();

}  // namespace reduce_ops
