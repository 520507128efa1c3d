// From run-time types and plans to kernels. The kernels of each accumulate type are instantiated in a file of their
// own, sum_kernels_<accumulate>.cu, so that they compile side by side.

#pragma once

#include "sum/kernels.cuh"
#include "sum/sum_kernels.h"

namespace reduce_ops::sum {

/// Shapes of plan.h as types.
template <template <typename, typename, int> typename Source, typename In, typename Acc, typename Out>
class Launcher {
 public:
  Launcher(const Launch& l, cudaStream_t stream) : l_(l), stream_(stream) {}

  /// Launches if the plan is one block of this shape.
  template <int kThreads, int kLoads>
  bool block() {
    if (l_.plan.blocks != 1 || !is(kThreads, kLoads)) return false;
    sum_block<kThreads, Source<In, Acc, kLoads>, Out><<<1, kThreads, 0, stream_>>>(source<kLoads>(), l_.n, result());
    return true;
  }

  /// Launches if the plan is many blocks of this shape.
  template <int kThreads, int kLoads>
  bool grid() {
    if (l_.plan.blocks == 1 || !is(kThreads, kLoads)) return false;
    sum_grid<kThreads, Source<In, Acc, kLoads>, Out>
        <<<l_.plan.blocks, kThreads, 0, stream_>>>(source<kLoads>(), l_.n, l_.plan.tiles, l_.slots, result());
    return true;
  }

 private:
  bool is(int threads, int loads) const { return l_.plan.threads == threads && l_.plan.loads == loads; }
  Out* result() const { return static_cast<Out*>(l_.result); }
  template <int kLoads>
  Source<In, Acc, kLoads> source() const {
    return {static_cast<const In*>(l_.data), l_.strides};
  }

  const Launch& l_;
  cudaStream_t stream_;
};

inline cudaError_t status(bool launched) { return launched ? cudaGetLastError() : cudaErrorInvalidValue; }

/// The two shapes that every source has.
template <Layout kLayout, template <typename, typename, int> typename Source, typename In, typename Acc, typename Out>
cudaError_t launch_two_shapes(const Launch& l, cudaStream_t stream) {
  Launcher<Source, In, Acc, Out> shape(l, stream);
  return status(shape.template block<1024, 4>() || shape.template grid<512, grid_loads(kLayout, sizeof(Acc))>());
}

/// A pair of types that is converted as it is loaded.
template <typename In, typename Acc, typename Out = Acc>
cudaError_t launch_converted(const Launch& l, cudaStream_t stream) {
  return l.layout == Layout::aligned ? launch_two_shapes<Layout::aligned, Aligned, In, Acc, Out>(l, stream)
                                     : launch_two_shapes<Layout::strided, Strided, In, Acc, Out>(l, stream);
}

/// A dtype in its own accumulate type: every layout, and for a run every shape that make_plan chooses.
template <typename In, typename Acc, typename Out = Acc>
cudaError_t launch_tuned(const Launch& l, cudaStream_t stream) {
  switch (l.layout) {
    case Layout::aligned: {
      constexpr int kLoads = grid_loads(Layout::aligned, sizeof(Acc));
      Launcher<Aligned, In, Acc, Out> shape(l, stream);
      return status(shape.template block<32, 1>() || shape.template block<128, 1>() || shape.template block<256, 4>() ||
                    shape.template block<1024, 4>() || shape.template block<1024, 8>() ||
                    shape.template grid<256, 4>() || shape.template grid<512, kLoads>() ||
                    shape.template grid<1024, kLoads>());
    }
    case Layout::shifted: {
      constexpr int kLoads = grid_loads(Layout::shifted, sizeof(Acc));
      Launcher<Shifted, In, Acc, Out> shape(l, stream);
      return status(shape.template block<256, 4>() || shape.template block<1024, 4>() ||
                    shape.template grid<256, 4>() || shape.template grid<512, kLoads>());
    }
    case Layout::rows:
      return launch_two_shapes<Layout::rows, Rows, In, Acc, Out>(l, stream);
    case Layout::strided:
      return launch_two_shapes<Layout::strided, Strided, In, Acc, Out>(l, stream);
  }
  return cudaErrorInvalidValue;
}

// One of these for each sum_kernels_<accumulate>.cu.
cudaError_t launch_float32(const Launch& l, cudaStream_t stream);
cudaError_t launch_float64(const Launch& l, cudaStream_t stream);
cudaError_t launch_int64(const Launch& l, cudaStream_t stream);
cudaError_t launch_complex(const Launch& l, cudaStream_t stream);

}  // namespace reduce_ops::sum
