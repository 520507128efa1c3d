// Sums keep numbers below the least normal one, whatever the thread that they run in does with them otherwise:
// torch.set_flush_denormal(True) is of the thread that calls it, not of those that share its work, so that a sum would
// depend on how many these are.

#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace reduce_ops {

/// For as long as it lives, its thread takes no number for zero.
class DenormalsKept {
 public:
  DenormalsKept() : control_(get()) {
    if (control_ & kFlush) set(control_ & ~kFlush);
  }
  ~DenormalsKept() {
    if (control_ & kFlush) set(control_);
  }
  DenormalsKept(const DenormalsKept&) = delete;
  DenormalsKept& operator=(const DenormalsKept&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr std::uint64_t kFlush = 1 << 15 | 1 << 6;  // what comes out, and what goes in
  static std::uint64_t get() { return _mm_getcsr(); }
  static void set(std::uint64_t control) { _mm_setcsr(static_cast<unsigned>(control)); }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlush = 1 << 24;
  static std::uint64_t get() {
    std::uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void set(std::uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control)); }
#else
  static constexpr std::uint64_t kFlush = 0;
  static std::uint64_t get() { return 0; }
  static void set(std::uint64_t) {}
#endif

  std::uint64_t control_;
};

}  // namespace reduce_ops
