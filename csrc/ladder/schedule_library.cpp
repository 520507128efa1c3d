// The schedule as a shared library of its own, without PyTorch, whose import takes longer than all of `explain`.
// Python reads it as JSON, through ctypes.

#include <sstream>

#include "ladder/schedule.cpp"

namespace reduce_ops::ladder {
namespace {

const char* name(Load load) {
  switch (load) {
    case Load::keep:
      return "keep";
    case Load::store:
      return "store";
    case Load::accumulate:
      return "accumulate";
  }
  return "";
}

const char* name(Step step) {
  switch (step) {
    case Step::shared:
      return "shared";
    case Step::fetch:
      return "fetch";
    case Step::shuffle:
      return "shuffle";
    case Step::collect:
      return "collect";
  }
  return "";
}

const char* name(Barrier barrier) {
  switch (barrier) {
    case Barrier::none:
      return "none";
    case Barrier::warp:
      return "warp";
    case Barrier::block:
      return "block";
  }
  return "";
}

/// An array, of what write(item) writes for each item.
template <typename Items, typename Write>
void write_array(std::ostream& out, const Items& items, const Write& write) {
  out << '[';
  for (const auto& item : items) {
    if (&item != &items.front()) out << ", ";
    write(item);
  }
  out << ']';
}

std::string ladder_json() {
  std::ostringstream out;
  write_array(out, rungs(), [&](const Rung& rung) {
    out << R"({"title": ")" << rung.title << R"(", "summary": ")" << rung.summary << R"(", "block_sizes": )";
    write_array(out, rung.block_sizes, [&](int64_t size) { out << size; });
    out << '}';
  });
  return out.str();
}

std::string schedule_json(int version, int block_size, int64_t n) {
  const Grid grid = make_grid<int64_t>(rungs()[version], block_size, n);
  const Schedule schedule = make_schedule(version, block_size);
  std::ostringstream out;
  out << R"({"n": )" << n << R"(, "elements": )" << grid.elements << R"(, "blocks": )" << grid.blocks
      << R"(, "max_blocks": )" << kMaxGrid << R"(, "load": ")" << name(schedule.load) << R"(", "rounds": )";
  write_array(out, schedule.rounds, [&](const Round& round) {
    out << R"({"step": ")" << name(round.step) << R"(", "workers": )" << round.workers << R"(, "thread_step": )"
        << round.thread_step << R"(, "slot_step": )" << round.slot_step << R"(, "distance": )" << round.distance
        << R"(, "barrier": ")" << name(round.barrier) << R"("})";
  });
  out << '}';
  return out.str();
}

}  // namespace
}  // namespace reduce_ops::ladder

#define REDUCE_OPS_EXPORT extern "C" __attribute__((visibility("default")))

/// What ladder.def says of v0, v1, ...: an array of {title, summary, block_sizes}.
REDUCE_OPS_EXPORT const char* reduce_ops_ladder() {
  static const std::string json = reduce_ops::ladder::ladder_json();
  return json.c_str();
}

/// One pass of a rung over n elements: its grid, and what Schedule says of a block. For pictures, block_size may be any
/// power of two from 64 to 1024, also one that the rung does not take. Valid until the thread calls it again.
REDUCE_OPS_EXPORT const char* reduce_ops_schedule(int version, int block_size, int64_t n) {
  thread_local std::string json;
  json = reduce_ops::ladder::schedule_json(version, block_size, n);
  return json.c_str();
}
