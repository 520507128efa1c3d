#include "transform/formula_cpu.h"

#include "isa_cpu.h"
#include "sum/kernels_cpu.h"

namespace reduce_ops::transform {

template <typename Leaf>
void formula_sums(const FormulaOnCpu& formula, std::int64_t begin, std::int64_t end, std::int64_t outputs, Leaf* sums) {
#if defined(__x86_64__)
  if (isa() == Isa::avx512) return sum::avx512::formula_sums(formula, begin, end, outputs, sums);
  if (isa() == Isa::avx2) return sum::avx2::formula_sums(formula, begin, end, outputs, sums);
#endif
  return sum::baseline::formula_sums(formula, begin, end, outputs, sums);
}

template void formula_sums(const FormulaOnCpu&, std::int64_t, std::int64_t, std::int64_t, float*);
template void formula_sums(const FormulaOnCpu&, std::int64_t, std::int64_t, std::int64_t, double*);
template void formula_sums(const FormulaOnCpu&, std::int64_t, std::int64_t, std::int64_t, std::uint64_t*);
template void formula_sums(const FormulaOnCpu&, std::int64_t, std::int64_t, std::int64_t, sum::Complex<float>*);
template void formula_sums(const FormulaOnCpu&, std::int64_t, std::int64_t, std::int64_t, sum::Complex<double>*);

}  // namespace reduce_ops::transform
