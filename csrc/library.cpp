// Every operator of the package. Kernels are registered next to their code, in *_cpu.cpp, *_cuda.cpp and *_meta.cpp.

#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "ladder/ladder_op.h"
#include "ladder/schedule.h"
#include "override.h"

namespace reduce_ops {
namespace {

/// The columns of ladder.def that Python shows, a row for each rung v0, v1, ...: titles, summaries, block sizes.
std::tuple<std::vector<std::string>, std::vector<std::string>, std::vector<std::vector<int64_t>>> ladder_columns() {
  std::vector<std::string> titles, summaries;
  std::vector<std::vector<int64_t>> block_sizes;
  for (const auto& rung : ladder::rungs()) {
    titles.push_back(rung.title);
    summaries.push_back(rung.summary);
    block_sizes.push_back(rung.block_sizes);
  }
  return {titles, summaries, block_sizes};
}

using ScheduleColumns = std::tuple<int64_t, int64_t, std::string, std::vector<std::string>, std::vector<std::string>,
                                   std::vector<std::vector<int64_t>>>;

/// The schedule of one pass of a rung over n elements, for `explain`: elements a thread, blocks, how a block loads, and
/// for each round its step, its barrier and {workers, thread_step, slot_step, distance}. For pictures, also of blocks
/// of a size that the rung does not take.
ScheduleColumns schedule_columns(int64_t version, int64_t block_size, int64_t n) {
  const auto& rungs = ladder::rungs();
  TORCH_CHECK_VALUE(version >= 0 && version < static_cast<int64_t>(rungs.size()), "_schedule: no rung v", version);
  const ladder::Rung& rung = rungs[version];
  const bool power_of_two = block_size > 0 && (block_size & (block_size - 1)) == 0;
  TORCH_CHECK_VALUE(power_of_two && block_size >= 2 * ladder::kWarpSize && block_size <= ladder::kMaxBlockSize,
                    "_schedule: block_size=", block_size, " is no power of two from 64 to 1024");
  const auto grid = ladder::make_grid<int64_t>(rung, static_cast<int>(block_size), n);
  ladder::check_grid(rung, grid, n);
  const auto schedule = ladder::make_schedule(rung.number, grid.threads);
  std::vector<std::string> steps, barriers;
  std::vector<std::vector<int64_t>> numbers;
  for (const ladder::Round& round : schedule.rounds) {
    steps.push_back(to_string(round.step));
    barriers.push_back(to_string(round.barrier));
    numbers.push_back({round.workers, round.thread_step, round.slot_step, round.distance});
  }
  return {grid.elements, grid.blocks, to_string(schedule.load), steps, barriers, numbers};
}

/// Sparse, nested and quantized tensors have no single run of elements to sum; say so instead of "no kernel found".
void reject_layout(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const at::Tensor& self = (*stack)[stack->size() - schema.arguments().size()].toTensor();
  const std::string& name = schema.arguments()[0].name();
  const char* kind = self.is_quantized() ? "quantized" : self.is_nested() ? "nested" : "not strided";
  TORCH_CHECK_NOT_IMPLEMENTED(false, schema.name(), ": ", name, " is ", kind, " (layout ", self.layout(), ", dtype ",
                              self.scalar_type(), "); accepted is a dense, strided tensor");
}

}  // namespace

TORCH_LIBRARY(reduce, m) {
  // flexible_layout: Inductor need not copy an input to give it the strides that it had in eager mode.
  const std::vector<at::Tag> pure = {at::Tag::pt2_compliant_tag, at::Tag::flexible_layout};
#define RUNG(N, ...)                                                            \
  m.def("sum_v" #N "(Tensor self, *, ScalarType? dtype=None) -> Tensor", pure); \
  m.def("block_sums_v" #N "(Tensor self, *, ScalarType? dtype=None) -> Tensor", pure);
#define RUNG_WITH_BLOCK_SIZE(N, ...)                                                                \
  m.def("sum_v" #N "(Tensor self, *, ScalarType? dtype=None, int block_size=256) -> Tensor", pure); \
  m.def("block_sums_v" #N "(Tensor self, *, ScalarType? dtype=None, int block_size=256) -> Tensor", pure);
#include "ladder/ladder.def"
  // What vmap makes of them: the rung on every self[i].
  m.def("_sums_of_rows(Tensor self, int version, *, ScalarType? dtype=None, int block_size=256) -> Tensor", pure);
  m.def("_block_sums_of_rows(Tensor self, int version, *, ScalarType? dtype=None, int block_size=256) -> Tensor", pure);

  // An overload packet, such as torch.ops.reduce.sum, tries overloads in this order, and each that does not fit costs
  // it 7 us. So the one that fits most calls is first, and has a default for dim, which aten's has not.
  m.def("sum.dim_IntList(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        pure);
  m.def("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", pure);
  m.def(
      "sum.IntList_out(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) "
      "-> "
      "Tensor(a!)",
      pure);
  m.def("sum.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)", pure);
  m.def(
      "_plan(Tensor self, int[1]? dim=None, *, int multiprocessors) -> (str family, str layout, int threads, int "
      "width, int vector, int loads, int tiles, int segments)");
  m.def("_sum_as_on(Tensor self, int[1]? dim=None, *, int multiprocessors) -> Tensor");

  m.def("sum_exact.dim_IntList(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        pure);
  m.def("sum_exact(Tensor self, *, ScalarType? dtype=None) -> Tensor", pure);
  m.def("exact_state.dim_IntList(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor", pure);
  m.def("exact_state(Tensor self) -> Tensor", pure);
  m.def("exact_round(Tensor state, *, ScalarType dtype) -> Tensor", pure);

  m.def("_override_aten(bool enabled) -> ()", &override_aten);
  m.def("_ladder() -> (str[] titles, str[] summaries, int[][] block_sizes)", &ladder_columns);
  m.def(
      "_schedule(int version, int block_size, int n) -> (int elements, int blocks, str load, str[] steps, "
      "str[] barriers, int[][] rounds)",
      &schedule_columns);
}

/// Gives every operator above an answer for a dispatch key that none of them sums.
void reject(torch::Library& m) {
  std::vector<std::string> names = {"sum",
                                    "sum.out",
                                    "sum.dim_IntList",
                                    "sum.IntList_out",
                                    "sum_exact",
                                    "sum_exact.dim_IntList",
                                    "exact_state",
                                    "exact_state.dim_IntList",
                                    "exact_round"};
  for (const auto& rung : ladder::rungs()) {
    names.push_back("sum_v" + std::to_string(rung.number));
    names.push_back("block_sums_v" + std::to_string(rung.number));
  }
  for (const auto& name : names) {
    m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&reject_layout>());
  }
}

#define REDUCE_OPS_REJECT(key) \
  TORCH_LIBRARY_IMPL(reduce, key, m) { reject(m); }
REDUCE_OPS_REJECT(SparseCPU)
REDUCE_OPS_REJECT(SparseCUDA)
REDUCE_OPS_REJECT(SparseCsrCPU)
REDUCE_OPS_REJECT(SparseCsrCUDA)
REDUCE_OPS_REJECT(QuantizedCPU)
REDUCE_OPS_REJECT(QuantizedCUDA)
REDUCE_OPS_REJECT(NestedTensorCPU)
REDUCE_OPS_REJECT(NestedTensorCUDA)
REDUCE_OPS_REJECT(AutogradNestedTensor)
REDUCE_OPS_REJECT(MkldnnCPU)

}  // namespace reduce_ops
