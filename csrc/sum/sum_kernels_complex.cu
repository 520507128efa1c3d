#include "sum/launch.cuh"

namespace reduce_ops::sum {

cudaError_t launch_complex(const Launch& l, cudaStream_t stream) {
  if (l.in == Type::complex128) return launch_rows<Complex<double>, Complex<double>>(l, stream);
  return l.accumulate == Type::complex64 ? launch_every<Complex<float>, Complex<float>>(l, stream)
                                         : launch_few<Complex<float>, Complex<double>>(l, stream);
}

}  // namespace reduce_ops::sum
