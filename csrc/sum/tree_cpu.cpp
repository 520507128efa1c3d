#include "sum/tree_cpu.h"

#include "isa_cpu.h"
#include "sum/kernels_cpu.h"

namespace reduce_ops::sum {

template <typename Leaf>
void tree_sums(const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences, Leaf* sums) {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return avx512::sums(elements, begin, end, sequences, sums);
  if (isa() == Isa::avx2) return avx2::sums(elements, begin, end, sequences, sums);
#endif
  return baseline::sums(elements, begin, end, sequences, sums);
}

template <typename Leaf>
void extreme_elements(bool largest, const Elements& elements, std::int64_t begin, std::int64_t end, Sequences sequences,
                      Leaf* results) {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return avx512::extremes(largest, elements, begin, end, sequences, results);
  if (isa() == Isa::avx2) return avx2::extremes(largest, elements, begin, end, sequences, results);
#endif
  return baseline::extremes(largest, elements, begin, end, sequences, results);
}

template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, float*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, double*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, std::uint64_t*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, Complex<float>*);
template void tree_sums(const Elements&, std::int64_t, std::int64_t, Sequences, Complex<double>*);

template void extreme_elements(bool, const Elements&, std::int64_t, std::int64_t, Sequences, float*);
template void extreme_elements(bool, const Elements&, std::int64_t, std::int64_t, Sequences, double*);
template void extreme_elements(bool, const Elements&, std::int64_t, std::int64_t, Sequences, std::uint64_t*);

}  // namespace reduce_ops::sum
