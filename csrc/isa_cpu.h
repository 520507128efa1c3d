// Which instruction set the kernels for the CPU may use.

#pragma once

namespace reduce_ops {

enum class Isa { baseline, avx2, avx512 };

/// Of this CPU, the best that there are kernels for, or less if the environment variable ATEN_CPU_CAPABILITY says so,
/// as for PyTorch's own kernels: "default" or "avx2".
Isa isa();

}  // namespace reduce_ops
