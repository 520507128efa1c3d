// From tensors to a launch.

#pragma once

#include "sum_dtypes.h"
#include "transform/described.h"
#include "transform/transform_kernels.h"

namespace reduce_ops::transform {

/// All of it but the slots. What it is made of must live as long.
inline Launch launch_of(const Task& task, const Described& described, at::ScalarType type, const at::Tensor& result) {
  const at::TensorList inputs = described.inputs();
  Launch l{task,
           static_cast<int>(inputs.size()),
           described.layout(),
           {},
           {},
           type_of(type),
           type_of(result.scalar_type()),
           result.numel(),
           inputs[0].numel() / result.numel(),
           result.mutable_data_ptr(),
           {}};
  for (size_t k = 0; k < inputs.size(); ++k) {
    l.data[k] = inputs[k].const_data_ptr();
    l.in[k] = type_of(inputs[k].scalar_type());
  }
  return l;
}

}  // namespace reduce_ops::transform
