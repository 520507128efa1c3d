// package LIBRARY MODEL.pt2 ROWS COLUMNS: runs a model that AOTInductor compiled, on ones, without Python.

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdlib>
#include <iostream>

#include "load.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: package LIBRARY MODEL.pt2 ROWS COLUMNS\n";
    return 2;
  }
  load_operators(argv[1]);
  torch::inductor::AOTIModelPackageLoader model(argv[2]);
  const at::Tensor x = at::ones({std::atoll(argv[3]), std::atoll(argv[4])});
  for (const at::Tensor& result : model.run({x})) std::cout << result.sum().item<double>() << "\n";
}
