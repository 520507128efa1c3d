// What is known of the CPU: which instruction set its kernels may use, and how it likes to read memory.

#pragma once

namespace reduce_ops {

enum class Isa { baseline, avx2, avx512 };

/// What the environment variable ATEN_CPU_CAPABILITY calls it.
constexpr const char* capability(Isa isa) {
  return isa == Isa::baseline ? "default" : isa == Isa::avx2 ? "avx2" : "avx512";
}

/// Of this CPU, the best that there are kernels for, or less if the environment variable ATEN_CPU_CAPABILITY says so,
/// as for PyTorch's own kernels: "default" or "avx2".
Isa isa();

/// Whether long runs beyond L2 are best read in order and without prefetches: on AMD's Zen 3 and 4, of which Zen 4 was
/// measured. Of 2^26 floats it reads 23 GB/s so, 13 to 16 with prefetches, and 10 by ranges (sum/tree_cpu.inc). Or what
/// the environment variable REDUCE_OPS_CPU_READS says: "in_order" or "ahead".
bool reads_best_in_order();

}  // namespace reduce_ops
