#include "isa_cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace reduce_ops {
namespace {

#if defined(__x86_64__)
/// __builtin_cpu_supports() does not know it in clang before 18.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return Isa::avx512;
  }
  if (__builtin_cpu_supports("avx2") && has_f16c()) return Isa::avx2;
#endif
  return Isa::baseline;
}

Isa most_wanted() {
  const char* wanted = std::getenv("ATEN_CPU_CAPABILITY");
  for (const Isa isa : {Isa::baseline, Isa::avx2}) {
    if (wanted != nullptr && wanted == std::string_view(capability(isa))) return isa;
  }
  return Isa::avx512;
}

bool is_zen_3_or_4() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amdfam19h") != 0;
#else
  return false;
#endif
}

}  // namespace

Isa isa() {
  static const Isa chosen = std::min(detect_isa(), most_wanted());
  return chosen;
}

bool reads_best_in_order() {
  static const bool best = [] {
    if (const char* reads = std::getenv("REDUCE_OPS_CPU_READS")) {
      if (reads == std::string_view("in_order")) return true;
      if (reads == std::string_view("ahead")) return false;
    }
    return is_zen_3_or_4();
  }();
  return best;
}

}  // namespace reduce_ops
