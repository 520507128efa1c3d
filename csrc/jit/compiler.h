// NVRTC, which PyTorch's CUDA builds bring along.

#pragma once

#include <string>
#include <vector>

#include "jit/kernel.h"

namespace reduce_ops::jit {

/// Machine code of one kernel.
struct Code {
  std::string symbol;  // its mangled name
  std::string image;   // a cubin or, for a GPU that is newer than NVRTC, PTX
};

/// The options of compile() but for the architecture: they are part of the bits. $REDUCE_OPS_DEBUG adds checks, and the
/// lines of the sources for profilers and compute-sanitizer.
std::vector<std::string> options();

/// The version of the NVRTC that compile() uses, such as "13.0"; empty where none is found.
const std::string& compiler_version();

/// Compiles for an architecture such as "sm_90". Throws std::runtime_error where there is no NVRTC, or where it
/// refuses.
Code compile(const Name& name, const std::string& architecture);

}  // namespace reduce_ops::jit
