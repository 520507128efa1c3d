// sums LIBRARY: calls the operators from C++, on every device there is, forward and backward, without Python.

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>

#include <iostream>
#include <optional>

#include "load.h"

namespace {

template <typename Signature>
auto find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

using Dtype = std::optional<at::ScalarType>;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: sums LIBRARY\n";
    return 2;
  }
  load_operators(argv[1]);
  const auto sum_v7 = find<at::Tensor(const at::Tensor&, Dtype, int64_t)>("reduce::sum_v7", "");
  const auto sum = find<at::Tensor(const at::Tensor&, Dtype)>("reduce::sum", "");
  const auto sum_dims =
      find<at::Tensor(const at::Tensor&, at::OptionalIntArrayRef, bool, Dtype)>("reduce::sum", "dim_IntList");
  at::manual_seed(0);
  const at::Tensor x = at::rand({1000, 1003});
  const auto on_each = [&](at::Device device) {
    const at::Tensor leaf = x.to(device).detach().requires_grad_();
    const at::Tensor total = sum.call(leaf, std::nullopt);
    total.add(sum_v7.call(leaf, std::nullopt, 512)).backward();
    const at::Tensor rows = sum_dims.call(leaf.detach(), at::IntArrayRef{1}, /*keepdim=*/false, at::kDouble);
    std::cout << device << ": sum_v7 " << sum_v7.call(leaf.detach(), std::nullopt, 512).item<float>() << ", sum "
              << total.item<float>() << ", first row " << rows[0].item<double>() << ", gradient "
              << leaf.grad().mean().item<float>() << "\n";
    return total.detach().cpu();
  };
  const at::Tensor on_cpu = on_each(at::kCPU);
  if (!at::hasCUDA()) return 0;
  return at::equal(on_each(at::kCUDA), on_cpu) ? 0 : 1;  // the same bits
}
