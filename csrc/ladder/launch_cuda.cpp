// From a rung and its types to a kernel, of nvcc's or of the engine's.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <string>

#include "jit/kernel.h"
#include "ladder/ladder_kernels.h"

namespace reduce_ops::ladder {
namespace {

LaunchRung compiled = nullptr;
std::atomic<bool> always_engine{false};

/// Which kernel: all that its name says.
struct Instance {
  int16_t version;
  int16_t threads;  // of a rung that takes a block size; 0 of others
  int32_t unused;   // makes up 16 bytes
  Type in, out;
};

struct Types {
  Type in, accumulate, out;
};

constexpr std::array kTypes = {
#define PASS(in, acc, out) Types{Type::in, Type::acc, Type::out},
#include "ladder/types.def"
};

const char* argument_of(Type type) {
  return name_of(type == Type::int64 ? Type::uint64 : type);  // wraps by definition
}

jit::Name name_of(const Instance& i, Type accumulate) {
  std::string title = rungs()[i.version].title;
  std::replace(title.begin(), title.end(), ' ', '_');
  const std::string number = "v" + std::to_string(i.version);
  const std::string threads = i.threads > 0 ? ", " + std::to_string(i.threads) : "";
  return {"ladder/" + number + "_" + title + ".cuh", "ladder::sum_" + number + "<" + argument_of(i.in) + ", " +
                                                         argument_of(accumulate) + ", " + argument_of(i.out) + threads +
                                                         ">"};
}

cudaError_t launch_by_engine(int version, const Pass& p, cudaStream_t stream) {
  static auto* const table = new jit::Table(/*waits=*/false);
  const auto* types = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&p](const Types& t) { return t.in == p.a_type && t.out == p.sums_type; });
  const Rung& rung = rungs()[version];
  const auto& sizes = rung.block_sizes;
  if (types == kTypes.end() || std::find(sizes.begin(), sizes.end(), p.grid.threads) == sizes.end()) {
    return cudaErrorInvalidValue;
  }
  const bool takes_size = sizes.size() > 1;
  const Instance instance{static_cast<int16_t>(version), static_cast<int16_t>(takes_size ? p.grid.threads : 0), 0,
                          p.a_type, p.sums_type};
  jit::Kernel& kernel =
      table->get(std::bit_cast<jit::Key>(instance), [&] { return name_of(instance, types->accumulate); });
  const void* arguments[] = {&p.a, &p.n, &p.sums, nullptr};
  if (rung.elements == MANY) {
    arguments[2] = &p.grid.elements;
    arguments[3] = &p.sums;
  }
  const jit::Geometry geometry{dim3(static_cast<unsigned>(p.grid.blocks)), dim3(p.grid.threads)};
  return jit::launch(kernel, geometry, {}, stream, const_cast<void**>(arguments));
}

}  // namespace

bool set_compiled(LaunchRung launch) {
  compiled = launch;
  return true;
}

bool use_engine(bool always) {
  always_engine = always;
  return compiled == nullptr;
}

cudaError_t launch(int version, const Pass& pass, cudaStream_t stream) {
  return compiled != nullptr && !always_engine ? compiled(version, pass, stream)
                                               : launch_by_engine(version, pass, stream);
}

}  // namespace reduce_ops::ladder
