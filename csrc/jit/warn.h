// Warnings of code that does not know PyTorch.

#pragma once

#include <string>

namespace reduce_ops::jit {

/// Shows a warning: on stderr, or as set_warn() has it.
void warn(const std::string& message);

void set_warn(void (*show)(const std::string& message));

}  // namespace reduce_ops::jit
