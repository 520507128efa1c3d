// The text of every header that kernels are compiled from, put into the library by embed.py.

#pragma once

#include <string_view>

namespace reduce_ops::jit {

struct Source {
  const char* name;  // as it is included
  const char* text;
};

extern const Source kSources[];
extern const int kSourceCount;

/// Of all names and texts: kernels of two versions of the package never meet.
extern const std::string_view kSourcesHash;

}  // namespace reduce_ops::jit
