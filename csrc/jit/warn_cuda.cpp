#include <atomic>
#include <cstdio>

#include "jit/warn.h"

namespace reduce_ops::jit {
namespace {

void on_stderr(const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); }

std::atomic<void (*)(const std::string&)> shows{&on_stderr};

}  // namespace

void warn(const std::string& message) { shows.load()(message); }

void set_warn(void (*show)(const std::string& message)) { shows = show; }

}  // namespace reduce_ops::jit
