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

/// Of AMD's CPUs, 0 of others. GCC before 14 has no name for Zen 5.
unsigned amd_family() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || b != signature_AMD_ebx) return 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 0;
  return (a >> 8 & 0xf) + (a >> 20 & 0xff);
#else
  return 0;
#endif
}

Reads detect_reads() {
  switch (amd_family()) {
    case 0x19:  // Zen 3, and 4, which has AVX-512
      return detect_isa() == Isa::avx512 ? Reads::in_order : Reads::in_two_places_or_order;
    case 0x1a:  // Zen 5
      return Reads::in_two_places;
    default:
      return Reads::ahead;
  }
}

}  // namespace

Isa isa() {
  static const Isa chosen = std::min(detect_isa(), most_wanted());
  return chosen;
}

Reads reads_best() {
  static const Reads best = [] {
    const char* wanted = std::getenv("REDUCE_OPS_CPU_READS");
    for (const Reads reads : {Reads::ahead, Reads::in_order, Reads::in_two_places, Reads::in_two_places_or_order}) {
      if (wanted != nullptr && wanted == std::string_view(name_of(reads))) return reads;
    }
    return detect_reads();
  }();
  return best;
}

}  // namespace reduce_ops
