#include "emulator.h"

#include <sanitizer/asan_interface.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/kernel.h"
#include "plan/plan.h"

/// What blocks are given of shared memory when they are launched: those of csrc/device, and those of csrc/exact.
namespace reduce_ops::sum {
thread_local uint4 shared[kCounterBytes / sizeof(uint4)];
}  // namespace reduce_ops::sum
namespace reduce_ops::exact {
alignas(16) thread_local char memory[227 << 10];
}  // namespace reduce_ops::exact

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace emulator {

Lane* lane;

namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr unsigned long kDeadlock = 100'000'000;  // turns without a barrier that was passed

/// Where a fiber goes on, or run_block.
using Place = void* [5];

Place launcher;

[[noreturn, gnu::noinline, gnu::no_sanitize_address]] void go_on(Place& there) { __builtin_longjmp(there, 1); }

/// Comes back when somebody goes on here. Not swapcontext, each of which sets the signal mask: all the driver's sums
/// would take 67 seconds instead of 11. Unknown to AddressSanitizer, which has no need to know that frames stay where
/// they are.
[[gnu::noinline, gnu::no_sanitize_address]] void switch_to(Place& there, Place& here) {
  if (__builtin_setjmp(here) == 0) go_on(there);
}

[[gnu::noinline, gnu::no_sanitize_address]] void begin(const ucontext_t& fiber, Place& here) {
  if (__builtin_setjmp(here) == 0) setcontext(&fiber);
}

void run_threads();

/// Runs a thread of one block after the other.
struct Fiber : Lane {
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  Place place;
  bool ended = false;

  Fiber() {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, run_threads, 0);
    lane = this;
    begin(context, launcher);
  }
};

std::vector<std::unique_ptr<Fiber>> fibers;  // of the block, and of larger ones before
unsigned threads;                            // of the block
unsigned left;                               // of these, that have not ended
unsigned waiting;                            // for the others, at a barrier
unsigned long barriers;                      // that were passed
unsigned long turns;                         // since then
const std::function<void()>* kernel;

unsigned index_of(const uint3& thread) { return (thread.z * blockDim.y + thread.y) * blockDim.x + thread.x; }

/// Lets it go on, and comes back when somebody goes on here.
void resume(Fiber& fiber, Place& here) {
  lane = &fiber;
  threadIdx = fiber.thread;
  switch_to(fiber.place, here);
}

void pass_barrier() {
  waiting = 0;
  ++barriers;
  turns = 0;
}

void run_threads() {
  Fiber& fiber = *static_cast<Fiber*>(lane);
  switch_to(launcher, fiber.place);  // which waits for it to begin
  for (;;) {
    (*kernel)();
    fiber.ended = true;
    if (--left > 0 && waiting == left) pass_barrier();
    if (left > 0) {
      yield();
    } else {
      switch_to(launcher, fiber.place);
    }
  }
}

void run_block() {
  std::vector<Warp> warps((threads + kWarpSize - 1) / kWarpSize);
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = *fibers[i];
    fiber.thread = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    fiber.number = i % kWarpSize;
    fiber.warp = &warps[i / kWarpSize];
    fiber.exchanges = 0;
    fiber.ended = false;
  }
  left = threads;
  waiting = 0;
  turns = 0;
  resume(*fibers[0], launcher);
}

}  // namespace

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "emulator: %s\n", what);
  std::abort();
}

void yield() {
  require(++turns < kDeadlock, "lanes wait for each other");
  auto* const from = static_cast<Fiber*>(lane);
  unsigned next = index_of(from->thread);
  do {
    next = (next + 1) % threads;
  } while (fibers[next]->ended);
  if (fibers[next].get() == from) return;
  resume(*fibers[next], from->place);
}

void wait_for_block() {
  const unsigned long before = barriers;
  if (++waiting == left) pass_barrier();
  while (barriers == before) yield();
}

void run(dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()>& body) {
  using reduce_ops::sum::shared;
  blockDim = size;
  gridDim = grid;
  threads = size.x * size.y * size.z;
  kernel = &body;
  require(threads > 0 && threads <= 1024, "no block of so many threads");
  using reduce_ops::exact::memory;
  require(shared_bytes <= sizeof memory, "no block of so much shared memory");
  while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
  const size_t of_sums = std::min(shared_bytes, sizeof shared);
  ASAN_POISON_MEMORY_REGION(reinterpret_cast<char*>(shared) + of_sums, sizeof shared - of_sums);
  ASAN_POISON_MEMORY_REGION(memory + shared_bytes, sizeof memory - shared_bytes);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        std::memset(shared, 0x7f, of_sums);  // no sum of any dtype
        std::memset(memory, 0x7f, shared_bytes);
        run_block();
      }
    }
  }
  ASAN_UNPOISON_MEMORY_REGION(shared, sizeof shared);
  ASAN_UNPOISON_MEMORY_REGION(memory, sizeof memory);
}

}  // namespace emulator

// ---- the runtime

extern "C" {

/// Fibers have stacks of their own.
const char* __asan_default_options() { return "detect_stack_use_after_return=0:detect_leaks=0"; }

cudaError_t cudaMalloc(void** p, size_t bytes) {
  *p = std::malloc(bytes);
  return *p != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  std::memset(p, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t) { return "an error"; }
}

// ---- in place of csrc/gpu_cuda.cpp and csrc/jit: kernels are those that are registered; EMULATOR_LIST asks for their
// names alone

namespace emulator {
namespace {

std::map<std::string, Call>& registered() {
  static std::map<std::string, Call> calls;
  return calls;
}

}  // namespace

Registered::Registered(const char* expression, Call call) { registered()[expression] = call; }

}  // namespace emulator

namespace reduce_ops {

const Gpu& current_gpu() {
  static constexpr Gpu gpu = gpu_of(1);
  return gpu;
}

}  // namespace reduce_ops

namespace reduce_ops::jit {

Kernel& Table::get_slowly(const LoadedKey& key, const Name& name) {
  auto& entry = entries_[key];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
    const auto found = emulator::registered().find(name.expression);
    const bool is_there = found != emulator::registered().end();
    if (std::getenv("EMULATOR_LIST") != nullptr) {
      std::printf("%s %s\n", name.header.c_str(), name.expression.c_str());
    } else {
      emulator::require(is_there, name.expression.c_str());
    }
    entry->kernel =
        new Kernel{name.expression, is_there ? reinterpret_cast<const void*>(found->second) : nullptr, false, {}};
  }
  return *entry->kernel;
}

cudaError_t launch(Kernel& kernel, const Geometry& g, SharedLimit, cudaStream_t, void** arguments) {
  const auto call = reinterpret_cast<emulator::Call>(const_cast<void*>(kernel.handle));
  if (call != nullptr) emulator::run(g.grid, g.block, g.shared_bytes, [&] { call(arguments); });
  return cudaSuccess;
}

}  // namespace reduce_ops::jit
