// The CPU twin: runs the schedule of each rung, so that it adds what the GPU adds, in the GPU's order, to the bit.

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "denormals_cpu.h"
#include "ladder/ladder_op.h"

namespace reduce_ops::ladder {
namespace {

/// The host type behind each name of types.def.
namespace host {
using float16 = c10::Half;
using bfloat16 = c10::BFloat16;
using float32 = float;
using float64 = double;
using int32 = std::int32_t;
using int64 = std::uint64_t;  // wraps by definition, where a signed overflow would be undefined
using complex64 = c10::complex<float>;
using complex128 = c10::complex<double>;
}  // namespace host

namespace scalar_type {
constexpr auto float16 = at::kHalf;
constexpr auto bfloat16 = at::kBFloat16;
constexpr auto float32 = at::kFloat;
constexpr auto float64 = at::kDouble;
constexpr auto int32 = at::kInt;
constexpr auto int64 = at::kLong;
constexpr auto complex64 = at::kComplexFloat;
constexpr auto complex128 = at::kComplexDouble;
}  // namespace scalar_type

/// What a missing element counts as: x + identity has the bits of x for every x.
template <typename Acc>
Acc identity() {
  if constexpr (c10::is_complex<Acc>::value) {
    using Part = typename Acc::value_type;
    return {Part(-0.0), Part(-0.0)};
  } else {
    return static_cast<Acc>(-0.0);  // 0 for integers
  }
}

constexpr int64_t kGrain = 32768;  // elements worth a thread of their own, as in PyTorch's own CPU kernels

/// The values of one block: value[t] is what thread t holds, in its shared-memory slot or in a register.
template <typename Acc>
using Values = std::array<Acc, kMaxBlockSize>;

/// Each thread sums its elements in order.
template <typename In, typename Acc>
void load(const In* a, int64_t n, const Grid& grid, int64_t block, Values<Acc>& value) {
  const int64_t begin = block * grid.elements * grid.threads;
  const int64_t end = std::min(n, begin + grid.elements * grid.threads);
  std::fill_n(value.begin(), grid.threads, identity<Acc>());
  for (int64_t row = begin; row < end; row += grid.threads) {
    const int64_t count = std::min<int64_t>(grid.threads, end - row);
    for (int64_t t = 0; t < count; ++t) value[t] += static_cast<Acc>(a[row + t]);
  }
}

/// Workers run in ascending order. That equals "all read before any writes", because every worker reads its own slot
/// and one further up, which only a later worker writes.
template <typename Acc>
void run(const Round& round, int threads, Values<Acc>& value) {
  switch (round.step) {
    case Step::shared:
    case Step::fetch:  // nobody else reads the slot afterwards: it may stand for the worker's register
      for (int i = 0; i < round.workers; ++i) {
        const int slot = i * round.slot_step;
        value[slot] += value[slot + round.distance];
      }
      break;
    case Step::shuffle:  // without the lanes that find no lane to read: lane 0 never sees what they get
      for (int warp = 0; warp < round.workers; warp += kWarpSize) {
        Acc* lane = &value[warp];
        for (int i = 0; i < kWarpSize - round.distance; ++i) lane[i] += lane[i + round.distance];
      }
      break;
    case Step::collect:
      for (int w = 0; w < round.workers; ++w) value[w] = value[w * kWarpSize];
      std::fill(value.begin() + round.workers, value.begin() + std::min(threads, kWarpSize), identity<Acc>());
      break;
  }
}

template <typename In, typename Acc, typename Out>
void run_pass_typed(const Rung& rung, const Grid& grid, const at::Tensor& a, const at::Tensor& sums) {
  const In* in = static_cast<const In*>(a.const_data_ptr());
  Out* out = static_cast<Out*>(sums.mutable_data_ptr());
  const int64_t n = a.numel();
  const auto rounds = make_schedule(rung.number, grid.threads).rounds;
  const int64_t grain = std::max<int64_t>(1, kGrain / (grid.elements * grid.threads));
  at::parallel_for(0, grid.blocks, grain, [&](int64_t begin, int64_t end) {
    const DenormalsKept kept;
    Values<Acc> value;
    for (int64_t block = begin; block < end; ++block) {
      load(in, n, grid, block, value);
      for (const Round& round : rounds) run(round, grid.threads, value);
      out[block] = static_cast<Out>(value[0]);
    }
  });
}

}  // namespace

void run_pass_cpu(const Rung& rung, const Grid& grid, const at::Tensor& a, const at::Tensor& sums) {
  const auto in_type = a.scalar_type();
  const auto out_type = sums.scalar_type();
#define PASS(in, acc, out)                                        \
  if (in_type == scalar_type::in && out_type == scalar_type::out) \
    return run_pass_typed<host::in, host::acc, host::out>(rung, grid, a, sums);
#include "ladder/types.def"
  TORCH_INTERNAL_ASSERT(false, "no pass from ", in_type, " to ", out_type);
}

}  // namespace reduce_ops::ladder
