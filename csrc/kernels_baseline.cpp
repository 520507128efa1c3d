// The instruction set that every CPU of the architecture has: SSE2 on x86-64, NEON on AArch64.

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "exact/kernels_cpu.h"
#include "sum/kernels_cpu.h"

namespace reduce_ops {
namespace {
constexpr int kVectorBytes = 16;

/// None: elements of 16 bits are converted one by one.
struct HalfVectors {
  static constexpr bool kNative = false;
};
}  // namespace

namespace sum::baseline {
#include "sum/kernels_cpu.inc"
#include "sum/kernels_cpu_instances.inc"
}  // namespace sum::baseline

namespace exact::baseline {
using namespace sum::baseline;
#include "exact/kernels_cpu.inc"
}  // namespace exact::baseline
}  // namespace reduce_ops
