// Kernels that are compiled when they are first needed. A caller names a kernel by an expression of C++; where its
// machine code comes from (this process, the package, the disk cache, NVRTC) is not the caller's to know. No PyTorch.

#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "gpu.h"

namespace reduce_ops::jit {

/// A kernel's name: a header of csrc, and what instance of which template of it, seen from namespace reduce_ops.
struct Name {
  std::string header;
  std::string expression;
};

/// A kernel of a GPU's architecture, loaded. It is never unloaded.
struct Kernel {
  std::string expression;
  const void* handle;  // a cudaKernel_t
  bool starts_early;   // whether it may: it waits for the kernel ahead itself (device/early_start.cuh)
  std::array<std::atomic<int>, kMaxDevices> shared_bytes{};  // that were asked for on each device, if more than usual
};

/// What tells a kernel from all others of its table.
using Key = std::array<uint64_t, 2>;

/// The kernels of one module, by key.
class Table {
 public:
  /// waits: whether all of them call wait_for_stream(), so that they may start early on GPUs that can.
  explicit Table(bool waits) : waits_(waits) {}

  /// The kernel for the current device, from wherever it is to be had; `name` is asked for where it is not loaded yet.
  /// Safe from any thread, and while a stream captures. Throws std::runtime_error, which says what is to be done, where
  /// there is no such kernel.
  template <typename NameOf>
  Kernel& get(const Key& key, const NameOf& name) {
    const LoadedKey loaded{this, key, current_gpu().architecture};
    // What this thread took last costs neither a lock nor a search.
    thread_local std::array<Recent, 64> recent{};
    Recent& last = recent[Hash()(loaded) % recent.size()];
    if (last.kernel == nullptr || !(last.key == loaded)) last = {loaded, &find(loaded, name)};
    return *last.kernel;
  }

 private:
  struct LoadedKey {
    const Table* table;
    Key key;
    int architecture;
    bool operator==(const LoadedKey&) const = default;
  };
  struct Recent {
    LoadedKey key;
    Kernel* kernel;
  };
  struct Hash {
    size_t operator()(const LoadedKey& k) const {
      const uint64_t hash = (k.key[0] * 0x9e3779b97f4a7c15u) ^ (k.key[1] * 0xc2b2ae3d27d4eb4fu);
      return static_cast<size_t>(hash >> 32 ^ hash ^ static_cast<uint64_t>(k.architecture));
    }
  };
  /// Who loads a kernel holds its mutex; others wait there.
  struct Entry {
    std::mutex mutex;
    std::atomic<Kernel*> kernel{};
  };

  template <typename NameOf>
  Kernel& find(const LoadedKey& key, const NameOf& name) {
    {
      const std::shared_lock<std::shared_mutex> lock(mutex_);
      if (const auto found = entries_.find(key); found != entries_.end()) {
        if (Kernel* kernel = found->second->kernel.load(std::memory_order_acquire)) return *kernel;
      }
    }
    return get_slowly(key, name());
  }

  Kernel& get_slowly(const LoadedKey& key, const Name& name);

  const bool waits_;
  std::shared_mutex mutex_;
  std::unordered_map<LoadedKey, std::unique_ptr<Entry>, Hash> entries_;
};

/// Blocks, threads and dynamic shared memory of a launch.
struct Geometry {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
};

/// The most dynamic shared memory that any launch of a kernel asks for. Where one asks for much, that is what the
/// kernel is allowed, so that threads that launch it with different geometries at the same time agree.
struct SharedLimit {
  int bytes;
};

/// Launches on `stream` of the current device, early where that is allowed (early_start.h). Returns what CUDA said, and
/// leaves no error behind; throws std::runtime_error with kernel and geometry where CUDA does not take these.
cudaError_t launch(Kernel& kernel, const Geometry& geometry, SharedLimit limit, cudaStream_t stream, void** arguments);

/// Machine code of a kernel.
struct Made {
  std::string path;  // of its file, or where that would be if files could be written there
  int64_t bytes;
  bool compiled;  // false: it was there
};

/// Makes it ready in `folder` (empty: the disk cache) for an architecture such as "sm_90". Needs no GPU. Throws
/// std::runtime_error where the folder cannot be written to, or where there is no compiler.
Made make(const Name& name, const std::string& architecture, const std::string& folder);

/// The same as a launch does it: from the package, the disk cache or the compiler, and without an error where nothing
/// can be written.
Made make_ready(const Name& name, const std::string& architecture);

/// How many kernels this process has loaded, and how many of these it compiled.
struct Counts {
  int64_t loaded;
  int64_t compiled;
};
Counts counts();

/// Where the disk cache is, or would be.
std::string cache_folder();

}  // namespace reduce_ops::jit
