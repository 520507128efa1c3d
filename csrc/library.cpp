// Every operator of the package, and its kernels on the CPU. Those on CUDA are in library_cuda.cpp, derivatives in
// autograd.cpp; transforms.cpp has Meta, autocast, vmap and functionalization.

#include <torch/library.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "exact/register.h"
#include "isa_cpu.h"
#include "ladder/register.h"
#include "override.h"
#include "read/read_op.h"
#include "sum/overloads.h"
#include "transform/register.h"

namespace reduce_ops {
namespace {

void reject_tensor(const std::string& op, const std::string& argument, const at::Tensor& tensor) {
  const char* kind = tensor.is_quantized()             ? "quantized"
                     : tensor.is_nested()              ? "nested"
                     : tensor.layout() != at::kStrided ? "not strided"
                                                       : nullptr;
  TORCH_CHECK_NOT_IMPLEMENTED(kind == nullptr, op, ": ", argument, " is ", kind, " (layout ", tensor.layout(),
                              ", dtype ", tensor.scalar_type(), "); accepted is a dense, strided tensor");
}

/// Sparse, nested and quantized tensors have no single run of elements to sum, or to write to; say so instead of "no
/// kernel found".
void reject_layout(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = (*stack)[stack->size() - arguments.size() + i];
    if (value.isTensor()) reject_tensor(schema.name(), arguments[i].name(), value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) reject_tensor(schema.name(), arguments[i].name(), tensor);
    }
  }
  TORCH_INTERNAL_ASSERT(false, schema.name(), ": no tensor has a layout to reject");
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
  for (const std::string name : {"sum", "mean"}) {
    const std::string along = "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None";
    m.def((name + ".dim_IntList" + along + ") -> Tensor").c_str(), pure);
    m.def((name + "(Tensor self, *, ScalarType? dtype=None) -> Tensor").c_str(), pure);
    m.def((name + ".IntList_out" + along + ", Tensor(a!) out) -> Tensor(a!)").c_str(), pure);
    m.def((name + ".out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)").c_str(), pure);
  }
  const std::pair<std::string, std::string> others[] = {
      {"nansum", "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None"},
      {"vector_norm", "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None"},
      {"vector_norm_exact",
       "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None"},
      {"amax", "(Tensor self, int[1] dim=[], bool keepdim=False"},
      {"amin", "(Tensor self, int[1] dim=[], bool keepdim=False"}};
  for (const auto& [name, arguments] : others) {
    const char* const out = arguments.ends_with("dtype=None") ? ", Tensor(a!) out" : ", *, Tensor(a!) out";
    m.def((name + arguments + ") -> Tensor").c_str(), pure);
    m.def((name + ".out" + arguments + out + ") -> Tensor(a!)").c_str(), pure);
  }
  m.def(
      "transform_sum(Tensor[] tensors, str formula, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) "
      "-> Tensor",
      pure);
  m.def(
      "transform_sum.out(Tensor[] tensors, str formula, int[1]? dim=None, bool keepdim=False, *, "
      "ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
      pure);
  m.def("vecdot(Tensor x, Tensor y, int? dim=-1) -> Tensor", pure);
  m.def("vecdot.out(Tensor x, Tensor y, int? dim=-1, *, Tensor(a!) out) -> Tensor(a!)", pure);
  for (const std::string name : {"var", "std"}) {
    const std::string arguments = "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False";
    m.def((name + arguments + ") -> Tensor").c_str(), pure);
    m.def((name + ".out" + arguments + ", Tensor(a!) out) -> Tensor(a!)").c_str(), pure);
    m.def((name + "_mean" + arguments + ") -> (Tensor, Tensor)").c_str(), pure);
  }
  m.def(
      "_var_mean(Tensor self, int[1]? dim=None, Scalar? correction=None, bool keepdim=False, bool root=False) "
      "-> (Tensor, Tensor)",
      pure);
  m.def(
      "_plans(Tensor self, int[1]? dim=None, *, ScalarType? dtype=None, int multiprocessors, int? l2_bytes=None) "
      "-> str");  // JSON
  m.def(
      "_plan(Tensor self, int[1]? dim=None, *, ScalarType? dtype=None, int multiprocessors, int? l2_bytes=None) "
      "-> str");  // JSON
  m.def("_cpu() -> (str capability, str reads)",
        [] { return std::tuple(std::string(capability(isa())), std::string(name_of(reads_best()))); });
  m.def(
      "_kernels(Tensor self, int[1]? dim=None, *, ScalarType? dtype=None, int multiprocessors, int? l2_bytes=None, "
      "str operator='sum') -> str[]");
  m.def(
      "_transform_kernels(Tensor[] tensors, str formula, int[1]? dim=None, *, ScalarType? dtype=None, "
      "int multiprocessors, int? l2_bytes=None, str operator='sum') -> str[]");
  m.def("_exact_kernels() -> str[]");
  m.def("_compile(str kernel, str architecture, str folder) -> (str path, int bytes, bool compiled)");
  m.def("_find_kernel(str kernel, str architecture) -> (str path, int bytes, bool compiled)");
  m.def("_compiler() -> str");      // the version of NVRTC, or nothing where there is none
  m.def("_cache_folder() -> str");  // of compiled kernels
  m.def("_sources() -> str");       // the hash of their sources, which is in the path of each
  m.def("_kernel_counts() -> (int loaded, int compiled)");
  m.def("_ladder_engine(bool always) -> bool");
  m.def(
      "_sum_with_plan(Tensor self, int[1]? dim=None, *, str plan, int multiprocessors, int? l2_bytes=None) -> Tensor");
  m.def("_sum_as_on(Tensor self, int[1]? dim=None, *, int multiprocessors, int? l2_bytes=None) -> Tensor");

  for (const std::string name : {"sum_exact", "mean_exact"}) {
    const char* const along =
        ".dim_IntList(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None";
    m.def((name + along + ") -> Tensor").c_str(), pure);
    m.def((name + "(Tensor self, *, ScalarType? dtype=None) -> Tensor").c_str(), pure);
  }
  m.def("exact_state.dim_IntList(Tensor self, int[1]? dim=None, bool keepdim=False, *, str of='elements') -> Tensor",
        pure);
  m.def("exact_state(Tensor self) -> Tensor", pure);
  m.def("exact_round(Tensor state, *, ScalarType dtype, SymInt count=1, bool root=False) -> Tensor", pure);

  m.def("_override_aten(str[] operators) -> ()", [](std::vector<std::string> names) { override_aten(names); });
  m.def("_read(Tensor self) -> Tensor");  // for benchmarks: what no sum of self can beat
}

TORCH_LIBRARY_IMPL(reduce, CPU, m) {
  ladder::register_rungs<ladder::Backend<ladder::run_pass_cpu>>(m);
  sum::register_operators<sum::Backend<sum::sum_cpu, sum::empty_cpu>::Kernel>(m);
  transform::register_backend<transform::transform_cpu, sum::sum_cpu, sum::empty_cpu, nullptr>(m);
  exact::register_overloads<exact::Ops<exact::exact_cpu, exact::round_cpu, sum::empty_cpu>>(m);
  m.impl("_read", &read_cpu);
}

/// Gives every public operator above an answer for a dispatch key that none of them takes, but for those that are made
/// of others (transform/composites.cpp), which answer for them.
void reject(torch::Library& m) {
  static const std::vector<c10::OperatorName> all = c10::Dispatcher::singleton().getAllOpNames();
  static const std::set<std::string> composites = {"reduce::vecdot", "reduce::var", "reduce::std", "reduce::var_mean",
                                                   "reduce::std_mean"};
  for (const c10::OperatorName& name : all) {
    if (!name.name.starts_with("reduce::") || name.name.starts_with("reduce::_")) continue;
    if (composites.contains(name.name) || (name.name == "reduce::transform_sum" && name.overload_name == "out"))
      continue;
    const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
    m.impl((name.name.substr(8) + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&reject_layout>());
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
