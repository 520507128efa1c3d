// Compiled with optimisation and without AddressSanitizer, which kernels have: lanes take turns millions of times.

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

[[noreturn, gnu::noipa]] void go_on(Place& there) { __builtin_longjmp(there, 1); }

/// Comes back when somebody goes on here. Not swapcontext, each of which sets the signal mask: all the driver's sums
/// would take 67 seconds instead of 11. Unknown to AddressSanitizer, which has no need to know that frames stay where
/// they are; and to the compiler, or it would keep in registers what others change meanwhile.
[[gnu::noipa]] void switch_to(Place& there, Place& here) {
  if (__builtin_setjmp(here) == 0) go_on(there);
}

[[gnu::noipa]] void begin(const ucontext_t& fiber, Place& here) {
  if (__builtin_setjmp(here) == 0) setcontext(&fiber);
}

void run_threads();

/// Runs a thread of one block after the other.
struct Fiber : Lane {
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  Place place;
  bool ended = false;
  Fiber* before = nullptr;  // in the ring of those that neither ended nor wait at a barrier, which take turns
  Fiber* next = nullptr;

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
unsigned long turns;                         // since a barrier was passed
const std::function<void()>* kernel;

/// Lets it go on, and comes back when somebody goes on here.
void resume(Fiber& fiber, Place& here) {
  lane = &fiber;
  threadIdx = fiber.thread;
  switch_to(fiber.place, here);
}

/// Has all that have not ended take turns again, and returns one.
Fiber& pass_barrier() {
  waiting = 0;
  turns = 0;
  Fiber* first = nullptr;
  Fiber* last = nullptr;
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = *fibers[i];
    if (fiber.ended) continue;
    if (first == nullptr) first = last = &fiber;
    last->next = &fiber;
    fiber.before = last;
    last = &fiber;
  }
  last->next = first;
  first->before = last;
  return *first;
}

/// Takes it out of the ring, and returns the next one.
Fiber& step_aside(Fiber& fiber) {
  fiber.before->next = fiber.next;
  fiber.next->before = fiber.before;
  return *fiber.next;
}

void run_threads() {
  Fiber& fiber = *static_cast<Fiber*>(lane);
  switch_to(launcher, fiber.place);  // which waits for it to begin
  for (;;) {
    (*kernel)();
    fiber.ended = true;
    Fiber& next = step_aside(fiber);
    if (--left == 0) {
      switch_to(launcher, fiber.place);
    } else {
      resume(waiting == left ? pass_barrier() : next, fiber.place);
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
  resume(pass_barrier(), launcher);
}

}  // namespace

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "emulator: %s\n", what);
  std::abort();
}

void yield() {
  require(++turns < kDeadlock, "lanes wait for each other");
  auto& from = static_cast<Fiber&>(*lane);
  if (from.next != &from) resume(*from.next, from.place);
}

void wait_for_block() {
  auto& from = static_cast<Fiber&>(*lane);
  if (++waiting == left) {
    pass_barrier();
  } else {
    resume(step_aside(from), from.place);
  }
}

const Value* show(const Value& value) {
  const unsigned long turn = lane->exchanges++;
  Board& board = lane->warp->boards[turn % 2];
  board.values[lane->number] = value;
  ++board.shown;
  while (board.shown < (turn / 2 + 1) * kWarpSize) yield();
  return board.values;
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
  __asan_poison_memory_region(reinterpret_cast<char*>(shared) + of_sums, sizeof shared - of_sums);
  __asan_poison_memory_region(memory + shared_bytes, sizeof memory - shared_bytes);
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
  __asan_unpoison_memory_region(shared, sizeof shared);
  __asan_unpoison_memory_region(memory, sizeof memory);
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
