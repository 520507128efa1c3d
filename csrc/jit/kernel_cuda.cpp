#include <dlfcn.h>
#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "early_start.h"
#include "jit/cache.h"
#include "jit/compiler.h"
#include "jit/kernel.h"
#include "jit/warn.h"

namespace reduce_ops::jit {
namespace {

namespace fs = std::filesystem;

/// Dynamic shared memory that no kernel has to ask for: 48 KiB less what it has of its own.
constexpr int kUsualShared = 40 << 10;

/// How long a process waits for another one that compiles the same kernel. One that died gives its lock back at once.
constexpr auto kPatience = std::chrono::seconds(120);

std::atomic<int64_t> loaded_count{0};
std::atomic<int64_t> compiled_count{0};

/// kernels/ beside the library: those that the package was built with.
fs::path package_folder() {
  Dl_info library{};
  if (dladdr(reinterpret_cast<void*>(&cache_folder), &library) == 0) return {};
  return fs::path(library.dli_fname).parent_path() / "kernels";
}

fs::path user_folder() {
  if (const char* folder = std::getenv("REDUCE_OPS_CACHE"); folder != nullptr && *folder != '\0') return folder;
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); caches != nullptr && *caches != '\0') {
    return fs::path(caches) / "reduce_ops";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    const passwd* user = getpwuid(getuid());
    home = user != nullptr ? user->pw_dir : "/tmp";
  }
  return fs::path(home) / ".cache" / "reduce_ops";
}

void warn_that_nothing_is_kept(const fs::path& folder) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  warn("reduce_ops: compiled kernels cannot be kept in " + folder.string() +
       ", so every process compiles them again. Set REDUCE_OPS_CACHE to a folder that can be written to.");
}

struct Found {
  Code code;
  fs::path path;
  bool compiled;
  bool kept = true;  // on disk
};

/// From a folder, or compiled into it: by one process at a time, whose file the others then find.
Found find_or_compile(const Name& name, const std::string& architecture, const fs::path& folder) {
  const std::string& compiler = compiler_version();
  if (compiler.empty()) {
    if (auto code = read_any_entry(folder, name, architecture)) return {*std::move(code), folder, false};
    return {compile(name, architecture), {}, true};  // says what is missing
  }
  const fs::path path = entry_path(folder, name, architecture, compiler);
  if (auto code = read_entry(path, name, architecture, compiler)) return {*std::move(code), path, false};
  EntryLock lock(path);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const bool locked = lock.try_lock();
    if (auto code = read_entry(path, name, architecture, compiler)) return {*std::move(code), path, false};
    if (locked || std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Found found{compile(name, architecture), path, true};
  ++compiled_count;
  found.kept = write_entry(path, name, architecture, compiler, found.code);
  return found;
}

Found find(const Name& name, const std::string& architecture) {
  static const fs::path package = package_folder();
  if (auto code = read_any_entry(package, name, architecture)) return {*std::move(code), package, false};
  Found found = find_or_compile(name, architecture, user_folder());
  if (!found.kept) warn_that_nothing_is_kept(user_folder());
  return found;
}

void check(cudaError_t error, const Name& name, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error("reduce_ops: " + std::string(what) + " " + name.expression + ": " +
                           cudaGetErrorString(error));
}

/// What a stream captures elsewhere meanwhile must not forbid to load code.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// A library of the CUDA runtime belongs to no device: one serves all of an architecture.
Kernel* load(const Name& name, int architecture, bool waits) {
  const std::string target = "sm_" + std::to_string(architecture);
  const Found found = find(name, target);
  Code code = found.code;
  const RelaxedCapture relaxed;
  cudaLibrary_t library = nullptr;
  cudaError_t error = cudaLibraryLoadData(&library, code.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (error != cudaSuccess && !found.compiled && !compiler_version().empty()) {
    cudaGetLastError();  // of a file by another NVRTC, newer than this driver, say
    code = compile(name, target);
    error = cudaLibraryLoadData(&library, code.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  check(error, name, "loading");
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, library, code.symbol.c_str()), name, "finding");
  ++loaded_count;
  return new Kernel{name.expression, reinterpret_cast<const void*>(kernel), waits && architecture >= 90, {}};
}

cudaError_t allow_shared(Kernel& kernel, const Geometry& g, SharedLimit limit) {
  if (g.shared_bytes <= kUsualShared) return cudaSuccess;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  std::atomic<int>& allowed = kernel.shared_bytes[device % kMaxDevices];
  if (static_cast<int>(g.shared_bytes) <= allowed.load(std::memory_order_acquire)) return cudaSuccess;
  error = cudaFuncSetAttribute(kernel.handle, cudaFuncAttributeMaxDynamicSharedMemorySize, limit.bytes);
  if (error == cudaSuccess) allowed.store(limit.bytes, std::memory_order_release);
  return error;
}

}  // namespace

Kernel& Table::get_slowly(const LoadedKey& key, const Name& name) {
  Entry* entry = nullptr;
  {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    auto& place = entries_[key];
    if (place == nullptr) place = std::make_unique<Entry>();
    entry = place.get();
  }
  const std::lock_guard<std::mutex> lock(entry->mutex);
  Kernel* kernel = entry->kernel.load(std::memory_order_acquire);
  if (kernel == nullptr) {
    kernel = load(name, key.architecture, waits_);
    entry->kernel.store(kernel, std::memory_order_release);
  }
  return *kernel;
}

Made make(const Name& name, const std::string& architecture, const std::string& folder) {
  const Found found = find_or_compile(name, architecture, folder.empty() ? user_folder() : fs::path(folder));
  if (!found.kept) {
    throw std::runtime_error("reduce_ops: kernels cannot be written to " + found.path.parent_path().string());
  }
  return {found.path.string(), static_cast<int64_t>(found.code.image.size()), found.compiled};
}

Made make_ready(const Name& name, const std::string& architecture) {
  const Found found = find(name, architecture);
  return {found.path.string(), static_cast<int64_t>(found.code.image.size()), found.compiled};
}

cudaError_t launch(Kernel& kernel, const Geometry& g, SharedLimit limit, cudaStream_t stream, void** arguments) {
  cudaError_t error = allow_shared(kernel, g, limit);
  if (error == cudaSuccess) error = launch_early(kernel.handle, kernel.starts_early, g, stream, arguments);
  if (error == cudaSuccess) return error;
  cudaGetLastError();  // it is told here, and the next one to ask for it is not us
  if (error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration ||
      error == cudaErrorLaunchOutOfResources) {
    const auto text = [](const dim3& d) {
      return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
    };
    throw std::runtime_error("reduce_ops: " + kernel.expression + " does not start with a grid of " + text(g.grid) +
                             " blocks of " + text(g.block) + " threads and " + std::to_string(g.shared_bytes) +
                             " bytes of shared memory: " + cudaGetErrorString(error));
  }
  return error;
}

Counts counts() { return {loaded_count, compiled_count}; }

std::string cache_folder() { return user_folder().string(); }

}  // namespace reduce_ops::jit
