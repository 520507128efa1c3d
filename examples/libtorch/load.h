#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

/// Registers the operators: that is all that loading the library does. It stays loaded. Where another library has
/// defined the namespace `reduce`, the process ends with a c10::Error that names the source lines of both.
inline void load_operators(const char* library) {
  if (dlopen(library, RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
}
