// Plans of boxes.cuh: which box of memory makes an element cheapest.

#include <algorithm>

#include "plan/families.h"

namespace reduce_ops::sum {
namespace {

/// A box while its ranges are chosen, by dimension: those of an output, then those of outputs.
struct Draft {
  const Problem& p;
  int line;  // Plan::line
  int64_t window;
  int dims = 0;
  int order[kMaxBoxDims] = {};
  int64_t size[kMaxBoxDims] = {};
  int64_t stride[kMaxBoxDims] = {};
  int64_t range[kMaxBoxDims] = {};
  int apart[kMaxBoxDims] = {};  // 0: in the run with those within, where that is possible; else bytes between runs / 16

  Draft(const Problem& problem, int line_dims, int64_t leaves_of_node)
      : p(problem), line(line_dims), window(leaves_of_node) {
    const auto add = [this](const Strides& s) {
      for (int d = 0; d < s.dims; ++d, ++dims) {
        order[dims] = dims;
        size[dims] = s.size[d].value;
        stride[dims] = s.stride[d];
        range[dims] = dims < line ? size[dims] : 1;
      }
    };
    add(p.reduced);
    add(p.kept);
    std::stable_sort(order, order + dims, [this](int a, int b) { return distance(stride[a]) < distance(stride[b]); });
  }

  int64_t length() const { return count(p.reduced, 0, line); }
  int64_t halo() const {
    return range[line] == size[line] ? 0 : std::min(ceil_div(window - 1, length()), size[line] - range[line]);
  }
  int64_t sequences() const {
    int64_t sequences = 1;
    for (int d = line + 1; d < dims; ++d) sequences *= range[d];
    return sequences;
  }
  /// Leaves of a sequence, in whole windows.
  int64_t leaves() const { return ceil_div(range[line] * length(), window) * window; }
  /// Leaves that a warp folds at once.
  int64_t chunk() const {
    int64_t chunk = kWarpSize * most_box_loads(p.accumulate_size);
    for (int loads = 8; loads >= 4 && leaves() <= loads * kWarpSize; loads /= 2) chunk = loads * kWarpSize;
    return chunk;
  }
};

/// The box of a draft, or none if its indices are not nested in memory.
std::optional<Box> lay_out(const Draft& draft) {
  constexpr int64_t kMostBytes = 1 << 20;
  const int64_t size = draft.p.element_size;
  Box box;
  int64_t extent = 1;    // elements in memory
  int64_t bytes = size;  // in shared memory
  int64_t runs = 1;
  int64_t run = size;
  for (int i = 0; i < draft.dims; ++i) {
    const int d = draft.order[i];
    const int64_t stride = draft.stride[d];
    const int64_t copied = draft.range[d] + (d == draft.line ? draft.halo() : 0);
    box.order[i] = d;
    box.range[d] = static_cast<int>(draft.range[d]);
    if (copied == 1) {
      box.in_run[d] = true;
      continue;
    }
    if (stride < extent || extent + (copied - 1) * stride >= int64_t{1} << 31) return std::nullopt;
    const bool joined = runs == 1 && draft.apart[d] == 0 && (stride - extent) * size <= kSectorBytes;
    int64_t pitch = stride * size;
    if (!joined) {
      // The words of a run that ends and of the next one that begins anywhere in a word; of neighbours in memory these
      // are the same words.
      pitch = stride == extent ? bytes + 16 : congruent(bytes + 15 + 15, stride * size);
      pitch += 16 * std::max(draft.apart[d] - 1, 0);
      runs *= copied;
    }
    box.in_run[d] = joined;
    box.pitch[d] = static_cast<int>(pitch);
    extent += (copied - 1) * stride;
    bytes += (copied - 1) * pitch;
    if (joined) run = bytes;
    if (bytes > kMostBytes) return std::nullopt;
  }
  box.halo = static_cast<int>(draft.halo());
  box.run = static_cast<int>(run);
  box.runs = static_cast<int>(runs);
  box.bytes = static_cast<int>(ceil_div(bytes + 15 + 15, 16) * 16);
  box.sequences = static_cast<int>(draft.sequences());
  box.chunks = static_cast<int>(ceil_div(draft.leaves(), draft.chunk()));
  const int64_t chunks = int64_t{box.sequences} * box.chunks;
  const int64_t places = draft.length() + draft.chunk();
  box.shared = static_cast<int>(box.bytes + chunks * kChunkBytes + runs * kRunBytes + places * kPlaceBytes);
  return box;
}

/// What one more lane of a warp in a bank costs, in instructions of a lane (H200).
constexpr double kCostOfConflict = 3.5;

/// What an element costs, in these.
double cost_of(const Draft& draft, const Box& box) {
  const Problem& p = draft.p;
  double elements = static_cast<double>(draft.length());  // of boxes, in the mean
  double ends = draft.line + 1 < p.reduced.dims ? 1 : 0;  // shares of boxes that hold the last lines
  for (int d = draft.line; d < draft.dims; ++d) {
    const int64_t boxes = ceil_div(draft.size[d], draft.range[d]);
    elements *= static_cast<double>(draft.size[d]) / static_cast<double>(boxes);
    if (d == draft.line) ends /= static_cast<double>(boxes);
  }
  const auto chunk = static_cast<double>(draft.chunk());
  const double bytes = static_cast<double>(box.runs) * (box.run + kSectorBytes);
  const double words = static_cast<double>(box.runs) * (box.run + 15) / 16;
  const double chunks = static_cast<double>(box.sequences) * box.chunks;
  const double behind = box.sequences * ends * static_cast<double>(draft.window) / 2;  // loaded one by one: they wait
  const double slots = box.sequences * static_cast<double>(draft.leaves());
  const double instructions = 12. * words + 30. * box.runs + 90. * chunks + 5 * slots + 4 * chunk * chunks +
                              350 * behind + (8. + 5 * draft.line) * (static_cast<double>(draft.length()) + chunk) +
                              100. * kBoxThreads;
  const double of_nodes = 2. * kCostOfByte * p.accumulate_size / static_cast<double>(draft.window);
  return (kCostOfByte * bytes + instructions) / elements + of_nodes;
}

/// How many lanes of a warp, which read the first leaves of a line, meet in a bank.
int conflicts_of(const Draft& draft, const Box& box) {
  const int size = draft.p.element_size;
  int most = 0;
  int lanes[kWarpSize] = {};
  unsigned seen[kWarpSize];
  for (int leaf = 0; leaf < kWarpSize * 4 / std::max(size, 4); ++leaf) {
    int64_t rest = leaf, at = 0;
    for (int d = 0; d <= draft.line; ++d) {
      const int64_t next = d < draft.line ? rest / draft.size[d] : 0;
      at += (rest - (d < draft.line ? next * draft.size[d] : 0)) * box.pitch[d];
      rest = next;
    }
    const auto word = static_cast<unsigned>(at / 4);
    if (std::find(seen, seen + leaf, word) == seen + leaf) most = std::max(most, ++lanes[word % kWarpSize]);
    seen[leaf] = word;
  }
  return most;
}

/// Makes the box of a draft larger by the dimension that makes an element cheapest, until it is full.
class BoxSearch {
 public:
  explicit BoxSearch(int64_t room) : room_(room) {}

  /// What an element costs with a draft, or 0 if there is no such box, or no room for it. The cheapest one is kept.
  double consider(const Draft& draft) {
    const auto box = lay_out(draft);
    if (!box || box->shared > room_) return 0;
    const double cost = cost_of(draft, *box);
    if (!best_ || cost < least_) {
      best_.emplace(draft);
      least_ = cost;
    }
    return cost;
  }

  void grow(Draft draft) {
    if (consider(draft) == 0) return;
    for (const int quarters : {8, 6, 5}) {
      for (;;) {
        int dim = -1;
        int64_t range = 0;
        double cheapest = 0;
        for (int d = draft.line; d < draft.dims; ++d) {
          const int64_t before = draft.range[d];
          if (before == draft.size[d] || draft.stride[d] <= 0) continue;
          draft.range[d] = std::min(std::max(before + 1, before * quarters / 4), draft.size[d]);
          const double cost = consider(draft);
          if (cost > 0 && (dim < 0 || cost < cheapest)) {
            dim = d;
            range = draft.range[d];
            cheapest = cost;
          }
          draft.range[d] = before;
        }
        if (dim < 0) break;
        draft.range[dim] = range;
      }
    }
  }

  const std::optional<Draft>& best() const { return best_; }
  double least() const { return least_; }

 private:
  int64_t room_;
  std::optional<Draft> best_;
  double least_ = 0;
};

/// Puts runs of the lines further apart, so that fewer lanes meet in a bank. Returns how many are left. A box may
/// outgrow the room it was chosen for, by a block of a multiprocessor: of layouts that do 47 of more than 40 MB are
/// 0.80 times as fast otherwise, 86 of less 0.98 (H100).
int spread(Draft& draft) {
  int fewest = conflicts_of(draft, *lay_out(draft));
  for (int i = 0; i < draft.dims && fewest > 2; ++i) {
    const int d = draft.order[i];
    if (d > draft.line) continue;
    Draft wider = draft;
    for (wider.apart[d] = 1; wider.apart[d] <= 8; ++wider.apart[d]) {
      const auto box = lay_out(wider);
      if (!box || box->run < kMinStagedRun || box->shared > kMaxTileBytes / 2) continue;
      if (const int conflicts = conflicts_of(wider, *box); conflicts < fewest) {
        fewest = conflicts;
        draft.apart[d] = wider.apart[d];
      }
    }
  }
  return fewest;
}

}  // namespace

/// Family::boxes, or none if indices are not nested in memory, or there is no room for a box or for the nodes.
///
/// A box grows from what a warp folds at once, or from all lines. Lines of one dimension less are tried too, in case
/// those of as many as a table has room for leave none for others.
std::optional<Boxed> plan_boxes(const Problem& p, const Gpu& gpu) {
  const int all_dims = p.reduced.dims + p.kept.dims;
  if (!p.ordered || !have_tiles(p)) return std::nullopt;
  if (p.n < 4 * kMinWindow || all_dims > kMaxBoxDims) return std::nullopt;
  if (!has_32_bit_offsets(p.reduced)) return std::nullopt;
  int64_t window = kMinWindow;
  const int64_t most_window = std::min(kMaxTileWindow, kWarpSize * most_box_loads(p.accumulate_size));
  while (window < most_window && !have_room(p, window)) window *= 2;
  if (!have_room(p, window)) return std::nullopt;

  // Room for five blocks a multiprocessor, or for six where most boxes are there at once, all of them copying first and
  // then folding: of 2400 random layouts of up to 40 MB 132 are under half of torch.sum's speed then, with five 159,
  // and all 1.02 times as fast; 600 of more 0.97 times (H100). Of little data less, so that there are two boxes for
  // each multiprocessor.
  const auto share = static_cast<int64_t>(bytes_of(p)) / (2 * gpu.multiprocessors);
  const int64_t room = std::clamp<int64_t>(share, 8 << 10, (share < 140 << 10 ? 35 : 42) << 10);
  BoxSearch search(room);
  int longest = 0;
  while (longest + 1 < p.reduced.dims && count(p.reduced, 0, longest + 1) <= kMaxBoxLine) ++longest;
  const double good = 1.2 * kCostOfByte * p.element_size + 16;
  const auto found = [&] { return search.best() && search.least() <= good; };
  for (int line = longest; line >= 0 && !found() && (line >= longest - 1 || !search.best()); --line) {
    Draft draft(p, line, window);
    // What shares sectors is there together.
    for (int d = line + 1; d < draft.dims; ++d) {
      const int64_t bytes = draft.stride[d] * p.element_size;
      if (bytes <= 0) continue;
      draft.range[d] = draft.size[d] * bytes <= kLineBytes ? draft.size[d]
                                                           : std::min(ceil_div(2 * kSectorBytes, bytes), draft.size[d]);
    }
    const int64_t chunk = ceil_div(most_window, draft.length());
    for (const int64_t lines : {draft.size[line], std::min(chunk, draft.size[line])}) {
      draft.range[line] = lines;
      if (!found()) search.grow(draft);
    }
    while (!search.best() && draft.range[line] > 1) {
      draft.range[line] /= 2;
      search.grow(draft);
    }
  }
  if (!search.best()) return std::nullopt;

  Draft whole_chunks = *search.best();
  const int64_t chunks = whole_chunks.leaves() / most_window * most_window / whole_chunks.length();
  if (chunks < whole_chunks.range[whole_chunks.line]) {
    whole_chunks.range[whole_chunks.line] = std::max<int64_t>(chunks, 1);
    search.consider(whole_chunks);
  }
  Draft draft = *search.best();
  double cost = search.least();
  for (Draft wider = draft; 2 * wider.window <= most_window;) {
    wider.window *= 2;
    const auto box = lay_out(wider);  // not if it has more lines now than lie apart
    if (!box || box->shared > room) break;
    const double of_wider = cost_of(wider, *box);
    if (of_wider >= cost) break;
    cost = of_wider;
    draft.window = wider.window;
  }
  Draft even = draft;  // boxes of one size, unless smaller ranges leave gaps that break a run
  for (int d = even.line; d < even.dims; ++d) {
    even.range[d] = ceil_div(even.size[d], ceil_div(even.size[d], even.range[d]));
  }
  if (const auto box = lay_out(even); box && box->shared <= room) {
    std::copy(even.range, even.range + even.dims, draft.range);
  }
  cost += kCostOfConflict * std::max(p.element_size, 4) / 4 * (spread(draft) - 1);
  const Box box = *lay_out(draft);
  int64_t blocks = 1;
  for (int d = draft.line; d < draft.dims; ++d) {
    blocks *= ceil_div(draft.size[d], draft.range[d]);
    if (blocks >= int64_t{1} << 31) return std::nullopt;
  }
  return Boxed{.plan = {.family = Family::boxes,
                        .threads = box.bytes >= 16 << 10 ? kBoxThreads : kBoxThreads / 2,
                        .loads = static_cast<int>(draft.chunk() / kWarpSize),
                        .segments = 1,
                        .line = draft.line,
                        .window = static_cast<int>(draft.window),
                        .box = box},
               .cost = cost};
}

}  // namespace reduce_ops::sum
