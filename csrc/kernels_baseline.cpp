// The instruction set that every CPU of the architecture has: SSE2 on x86-64, NEON on AArch64.

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "exact/kernels_cpu.h"
#include "sum/kernels_cpu.h"

namespace reduce_ops::exact::baseline {
namespace {
constexpr int kVectorBytes = 16;
}
#include "exact/kernels_cpu.inc"
}  // namespace reduce_ops::exact::baseline

namespace reduce_ops::sum::baseline {
namespace {
constexpr int kVectorBytes = 16;
}
#include "sum/kernels_cpu.inc"
}  // namespace reduce_ops::sum::baseline
