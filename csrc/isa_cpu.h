// Which instruction set the kernels for the CPU may use.

#pragma once

namespace reduce_ops {

enum class Isa { baseline, avx2, avx512 };

/// Of this CPU, the best that there are kernels for, or less if the environment variable ATEN_CPU_CAPABILITY says so,
/// as for PyTorch's own kernels: "default" or "avx2".
Isa isa();

/// Whether memory is best read in order, without prefetches of ours: on AMD's Zen 3 and 4. On an EPYC of Zen 4 sums of
/// 2^26 floats take 20 GB/s so, 13 to 16 with prefetches, and 10 by ranges (sum/tree_cpu.inc) with or without.
bool reads_best_in_order();

}  // namespace reduce_ops
