#include "sum/tree_cpu.h"

namespace reduce_ops::sum {

int closest_dim(const Elements& elements) {
  int closest = 0;
  for (int d = 1; d < elements.dims; ++d) {
    if (elements.strides[d] > 0 && elements.strides[d] < elements.strides[closest]) closest = d;
  }
  return closest;
}

}  // namespace reduce_ops::sum
