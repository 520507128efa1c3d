// From types and plans to kernels.

#include <bit>
#include <string>

#include "exact/exact_kernels.h"
#include "jit/kernel.h"

namespace reduce_ops::exact {
namespace {

constexpr int kWarp = 32;

/// Which kernel: all that its name says.
struct Instance {
  enum Of : int16_t { run, rows, columns, round } of;
  Term term;
  Type in;
  int number;  // run: loads; round: words of a state
  int flag;    // run: whether there are several outputs; columns: whether elements of one are one distance apart
};

jit::Name name_of(const Instance& i) {
  const std::string element = reduce_ops::name_of(i.in);
  const std::string in = i.term == Term::element  ? element
                         : i.term == Term::square ? "exact::Square<" + element + ">"
                                                  : "exact::Magnitude<" + element + ">";
  const std::string flag = i.flag != 0 ? "true" : "false";
  switch (i.of) {
    case Instance::run:
      return {"exact/exact_rows.cuh", "exact::exact_run<" + in + ", " + std::to_string(i.number) + ", " + flag + ">"};
    case Instance::rows:
      return {"exact/exact_rows.cuh", "exact::exact_rows<" + in + ">"};
    case Instance::columns:
      return {"exact/exact_columns.cuh", "exact::exact_columns<" + in + ", " + flag + ">"};
    case Instance::round:
      break;
  }
  const char* const layout = i.number == Layout32::kWords          ? "Layout32"
                             : i.number == Layout64::kWords        ? "Layout64"
                             : i.number == SquaresLayout32::kWords ? "SquaresLayout32"
                                                                   : "SquaresLayout64";
  return {"exact/exact_round.cuh", std::string("exact::exact_round<exact::") + layout + ">"};
}

template <typename... Arguments>
cudaError_t start(const Instance& instance, dim3 grid, int threads, size_t bytes, int most_bytes, cudaStream_t stream,
                  const Arguments&... arguments) {
  static auto* const table = new jit::Table(/*waits=*/true);
  jit::Kernel& kernel = table->get(std::bit_cast<jit::Key>(instance), [&] { return name_of(instance); });
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return jit::launch(kernel, {grid, dim3(threads), bytes}, {most_bytes}, stream, pointers);
}

}  // namespace

cudaError_t launch(const Launch& l, cudaStream_t stream) {
  const Problem& p = l.problem;
  const Plan& plan = l.plan;
  const size_t bins = static_cast<size_t>(bins_bytes(l.terms())) * plan.warps;
  const int threads = plan.warps * kWarp;
  const int most = l.gpu.shared_memory - kStaticBytes;
  switch (plan.family) {
    case Family::run: {
      const bool several = p.outputs > 1;
      const dim3 grid(plan.segments, static_cast<unsigned>(p.outputs));
      return start({Instance::run, l.term, l.in, several ? 4 : plan.loads, several}, grid, threads, bins, most, stream,
                   l.data, p.n, l.slots, l.result, p.kept, p.places);
    }
    case Family::rows:
      return start({Instance::rows, l.term, l.in, 0, 0}, dim3(plan.blocks), threads, bins, most, stream, l.data, p.kept,
                   p.places, p.outputs, p.n, l.result);
    case Family::columns: {
      const dim3 grid(static_cast<unsigned>((p.outputs + plan.width - 1) / plan.width), plan.segments);
      return start({Instance::columns, l.term, l.in, 0, p.reduced.dims == 1}, grid, threads,
                   bins + totals_bytes(l.terms()), most, stream, l.data, p, plan.width, l.slots, l.result);
    }
  }
  return cudaErrorInvalidValue;
}

cudaError_t launch_round(const int64_t* states, int words, int64_t count, const Result& result, cudaStream_t stream) {
  constexpr int kABlock = kRoundThreads / kWarp;
  const dim3 grid(static_cast<unsigned>((count + kABlock - 1) / kABlock));
  return start({Instance::round, Term::element, Type::int64, words, 0}, grid, kRoundThreads, 0, 0, stream, states,
               count, result);
}

std::vector<jit::Name> kernel_names() {
  std::vector<jit::Name> names;
  for (const Type in :
       {Type::float8_e4m3fn, Type::float8_e5m2, Type::float16, Type::bfloat16, Type::float32, Type::float64}) {
    for (const Instance& i : {Instance{Instance::run, Term::element, in, 2, 0},
                              {Instance::run, Term::element, in, 4, 0},
                              {Instance::run, Term::element, in, 4, 1},
                              {Instance::rows, Term::element, in, 0, 0},
                              {Instance::columns, Term::element, in, 0, 0},
                              {Instance::columns, Term::element, in, 0, 1}}) {
      names.push_back(name_of(i));
    }
  }
  for (const int words : {Layout32::kWords, Layout64::kWords}) {
    names.push_back(name_of({Instance::round, Term::element, Type::int64, words, 0}));
  }
  return names;
}

}  // namespace reduce_ops::exact
