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

int closest_dim(const Elements& elements) {
  int closest = 0;
  for (int d = 1; d < elements.dims; ++d) {
    if (elements.strides[d] > 0 && elements.strides[d] < elements.strides[closest]) closest = d;
  }
  return closest;
}

template <typename Leaf>
void tree_sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums) {
  static const Isa isa = detect_isa();
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::sums(elements, begin, end, sequences, sums);
  if (isa == Isa::avx2) return avx2::sums(elements, begin, end, sequences, sums);
#endif
  return baseline::sums(elements, begin, end, sequences, sums);
}

template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, float*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, double*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, std::uint64_t*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, Complex<float>*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, Complex<double>*);

}  // namespace reduce_ops::sum
