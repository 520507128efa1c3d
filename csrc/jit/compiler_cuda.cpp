#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "jit/compiler.h"
#include "jit/sources.h"

namespace reduce_ops::jit {

namespace {

constexpr int kMajor = CUDART_VERSION / 1000;

/// What is used of libnvrtc. It is loaded with the first kernel of a process, in 7 ms, as files tell by which version
/// they were compiled.
struct Nvrtc {
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcGetErrorString) error_string = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcAddNameExpression) add_name = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetLoweredName) lowered_name = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&nvrtcGetPTX) ptx = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) architecture_count = nullptr;
  decltype(&nvrtcGetSupportedArchs) architectures = nullptr;
  std::string version_text;
  std::string error;  // why there is none

  explicit operator bool() const { return !version_text.empty(); }
};

template <typename Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// Beside the CUDA runtime, as NVIDIA's packages and the toolkit have it, then wherever a loader looks; or where
/// $REDUCE_OPS_NVRTC says.
void* open_library() {
  if (const char* path = std::getenv("REDUCE_OPS_NVRTC"); path != nullptr && *path != '\0') {
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  }
  const std::string file = "libnvrtc.so." + std::to_string(kMajor);
  std::vector<std::filesystem::path> candidates;
  Dl_info runtime{};
  if (dladdr(reinterpret_cast<void*>(&cudaRuntimeGetVersion), &runtime) != 0) {
    candidates.push_back(std::filesystem::path(runtime.dli_fname).parent_path() / file);
  }
  candidates.emplace_back(file);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) candidates.push_back(std::filesystem::path(home) / "lib64" / file);
  }
  candidates.push_back(std::filesystem::path("/usr/local/cuda/lib64") / file);
  for (const auto& candidate : candidates) {
    if (void* library = dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

Nvrtc load() {
  Nvrtc n;
  void* const library = open_library();
  if (library == nullptr) {
    const char* error = dlerror();
    n.error = error != nullptr ? error : "";
    return n;
  }
  int major = 0, minor = 0;
  const bool complete =
      resolve(library, "nvrtcVersion", n.version) && resolve(library, "nvrtcGetErrorString", n.error_string) &&
      resolve(library, "nvrtcCreateProgram", n.create) && resolve(library, "nvrtcDestroyProgram", n.destroy) &&
      resolve(library, "nvrtcAddNameExpression", n.add_name) && resolve(library, "nvrtcCompileProgram", n.compile) &&
      resolve(library, "nvrtcGetProgramLogSize", n.log_size) && resolve(library, "nvrtcGetProgramLog", n.log) &&
      resolve(library, "nvrtcGetLoweredName", n.lowered_name) && resolve(library, "nvrtcGetCUBINSize", n.cubin_size) &&
      resolve(library, "nvrtcGetCUBIN", n.cubin) && resolve(library, "nvrtcGetPTXSize", n.ptx_size) &&
      resolve(library, "nvrtcGetPTX", n.ptx) && resolve(library, "nvrtcGetNumSupportedArchs", n.architecture_count) &&
      resolve(library, "nvrtcGetSupportedArchs", n.architectures);
  if (complete && n.version(&major, &minor) == NVRTC_SUCCESS) {
    n.version_text = std::to_string(major) + "." + std::to_string(minor);
  }
  return n;
}

const Nvrtc& nvrtc() {
  static const Nvrtc loaded = load();
  return loaded;
}

void check(nvrtcResult result, const char* what) {
  if (result == NVRTC_SUCCESS) return;
  throw std::runtime_error(std::string("reduce_ops: NVRTC: ") + what + ": " + nvrtc().error_string(result));
}

/// The option for an architecture: for one that this NVRTC does not know yet, PTX of the newest that it knows before.
std::string target_of(const std::string& architecture) {
  int count = 0;
  check(nvrtc().architecture_count(&count), "its architectures");
  std::vector<int> known(count);
  check(nvrtc().architectures(known.data()), "its architectures");
  const int wanted = std::atoi(architecture.c_str() + 3);  // behind "sm_"
  if (std::find(known.begin(), known.end(), wanted) != known.end()) return architecture;
  int newest = 0;
  for (const int a : known) newest = a < wanted ? std::max(newest, a) : newest;
  if (newest == 0) {
    throw std::runtime_error("reduce_ops: NVRTC " + nvrtc().version_text + " does not compile for " + architecture +
                             "; its oldest GPUs are sm_" + std::to_string(known.front()));
  }
  return "compute_" + std::to_string(newest);
}

class Program {
 public:
  explicit Program(const std::string& source) {
    std::vector<const char*> texts, names;
    for (int i = 0; i < kSourceCount; ++i) {
      texts.push_back(kSources[i].text);
      names.push_back(kSources[i].name);
    }
    check(nvrtc().create(&program_, source.c_str(), "kernel.cu", kSourceCount, texts.data(), names.data()), "program");
  }
  ~Program() { nvrtc().destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcProgram get() const { return program_; }

  std::string log() const {
    size_t size = 0;
    check(nvrtc().log_size(program_, &size), "log");
    std::string text(size, '\0');
    check(nvrtc().log(program_, text.data()), "log");
    return text.c_str();
  }

 private:
  nvrtcProgram program_ = nullptr;
};

}  // namespace

std::vector<std::string> options() {
  std::vector<std::string> all = {
      "--std=c++20",
      "--fmad=false",     // a * b + c in two roundings, as on a CPU: the bits are part of the interface
      "--device-int128",  // exact/digits.cuh
      "-default-device",  // functions that kernels share with the host need no word for it
      "--minimal",        // no textures, no kernels that launch kernels: 0.33 s for a full sum's kernel instead of 0.44
  };
  if (const char* debug = std::getenv("REDUCE_OPS_DEBUG"); debug != nullptr && *debug != '\0' && *debug != '0') {
    all.insert(all.end(), {"-DREDUCE_OPS_DEBUG", "-lineinfo"});
  }
  return all;
}

const std::string& compiler_version() { return nvrtc().version_text; }

Code compile(const Name& name, const std::string& architecture) {
  if (!nvrtc()) {
    const std::string major = std::to_string(kMajor);
    throw std::runtime_error("reduce_ops: this kernel has to be compiled, and libnvrtc.so." + major +
                             " was not found (" + nvrtc().error + "): " + name.expression + " for " + architecture +
                             ". Install it (pip install nvidia-cuda-nvrtc, or the CUDA toolkit " + major +
                             "), name it by $REDUCE_OPS_NVRTC, or run `python -m reduce_ops compile` on a machine that "
                             "has it and copy its cache folder to " +
                             cache_folder());
  }
  // Names of element types are seen without their namespace.
  const Program program("#include \"" + name.header + "\"\nusing namespace reduce_ops;\n");
  check(nvrtc().add_name(program.get(), name.expression.c_str()), "name");
  const std::string target = "--gpu-architecture=" + target_of(architecture);
  std::vector<std::string> words = options();
  words.push_back(target);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  const nvrtcResult result = nvrtc().compile(program.get(), static_cast<int>(pointers.size()), pointers.data());
  if (result != NVRTC_SUCCESS) {
    constexpr size_t kMostOfLog = 4000;  // a template's errors go on for pages
    throw std::runtime_error("reduce_ops: NVRTC " + nvrtc().version_text + " refuses " + name.expression + " for " +
                             architecture + ": " + nvrtc().error_string(result) + "\n" +
                             program.log().substr(0, kMostOfLog));
  }
  const char* symbol = nullptr;
  check(nvrtc().lowered_name(program.get(), name.expression.c_str(), &symbol), "symbol");
  Code code{symbol, {}};
  const bool is_ptx = target.find("compute_") != std::string::npos;
  size_t size = 0;
  check(is_ptx ? nvrtc().ptx_size(program.get(), &size) : nvrtc().cubin_size(program.get(), &size), "code");
  code.image.resize(size);
  check(is_ptx ? nvrtc().ptx(program.get(), code.image.data()) : nvrtc().cubin(program.get(), code.image.data()),
        "code");
  return code;
}

}  // namespace reduce_ops::jit
