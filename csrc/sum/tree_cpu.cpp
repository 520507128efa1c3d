#include "sum/tree_cpu.h"

#include "sum/kernels_cpu.h"

namespace reduce_ops::sum {
namespace {

enum class Isa { baseline, avx2, avx512 };

Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return Isa::avx512;
  }
  if (__builtin_cpu_supports("avx2")) return Isa::avx2;
#endif
  return Isa::baseline;
}

}  // namespace

template <typename Leaf>
Leaf tree_sum(const Elements& elements, std::int64_t begin, std::int64_t end) {
  static const Isa isa = detect_isa();
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::sum<Leaf>(elements, begin, end);
  if (isa == Isa::avx2) return avx2::sum<Leaf>(elements, begin, end);
#endif
  return baseline::sum<Leaf>(elements, begin, end);
}

template float tree_sum(const Elements&, std::int64_t, std::int64_t);
template double tree_sum(const Elements&, std::int64_t, std::int64_t);
template std::uint64_t tree_sum(const Elements&, std::int64_t, std::int64_t);
template Complex<float> tree_sum(const Elements&, std::int64_t, std::int64_t);
template Complex<double> tree_sum(const Elements&, std::int64_t, std::int64_t);

}  // namespace reduce_ops::sum
