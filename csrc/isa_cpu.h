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

/// How long runs beyond L2 are best read.
enum class Reads {
  ahead,          // by prefetches, whatever the order
  in_order,       // in order and without prefetches: on AMD's Zen 4. Of 2^26 floats it reads 23 GB/s so, 13 to 16 with
                  // prefetches, and 10 by ranges (sum/tree_cpu.inc)
  in_two_places,  // the same from memory, in two places at the same time, where both begin with a line; all else ahead:
                  // on Zen 5 (sum/kernels_cpu.inc)
  in_two_places_or_order,  // all else in order: on Zen 3, 2^26 floats 14.4 GB/s, in order 11.3, and columns, (4096,
                           // 4096) over 0, 14, with prefetches 10
};

/// What the environment variable REDUCE_OPS_CPU_READS calls it.
constexpr const char* name_of(Reads reads) {
  switch (reads) {
    case Reads::ahead:
      return "ahead";
    case Reads::in_order:
      return "in_order";
    case Reads::in_two_places:
      return "in_two_places";
    case Reads::in_two_places_or_order:
      return "in_two_places_or_order";
  }
  return "";
}

/// Of this CPU, or as the environment variable says.
Reads reads_best();

}  // namespace reduce_ops
