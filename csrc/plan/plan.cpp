#include "plan/plan.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "plan/families.h"

namespace reduce_ops::sum {
namespace {

/// Whether lanes go along an output, whose elements are closer than outputs are, as it has enough of them: in one run
/// half a KiB, (17492, 96) float64 over dimension 1 8 us instead of 15. Of bytes columns are better up to 5 times as
/// far apart, if there are some: 156 random layouts 1.5 times as fast in the geometric mean (H200).
bool are_rows(const Problem& p) {
  const bool one_run = p.reduced.dims == 1 && p.reduced.stride[0] == 1 && p.kept.dims == 1;
  const int64_t least = one_run && p.element_size == 8 ? 64 : 128;
  const int64_t closer = p.element_size == 1 && p.outputs >= kWarpSize ? 5 : 1;
  return p.n >= least && closer * std::abs(p.reduced.stride[0]) < std::abs(p.columns.stride[0]);
}

/// Of an order across memory, in lines that none of their plans takes, since they are too short or their nodes have no
/// room: whether columns lie so far apart that rows element by element are better. A load of a warp takes a piece of a
/// sector for every column; of a row it takes neighbours in the order, and what lies beside these in memory comes soon
/// enough for caches. (6543, 3950, 10) int8 to float32 over dimensions 1 and 2, the last one outermost in memory, takes
/// 282 us instead of 5814. Of 6524 random layouts that convert 4751 are 1.68 times as fast for it in the geometric
/// mean, 582 of them more than a tenth slower; 396 were under half of torch.sum's speed, now none (H200).
bool are_far_columns(const Problem& p) {
  constexpr int64_t kLeast = 512;      // elements of a row, or its block is not full
  constexpr int64_t kMost = 8192;      // beyond which columns are as bad at any distance
  constexpr int64_t kFar = 256 << 10;  // elements times bytes to the next column
  if (have_tiles(p) || p.n < kLeast) return false;
  const Strides& c = p.columns;
  const auto bytes = [&](int d) { return std::abs(c.stride[d]) * p.element_size; };
  int next = 0;  // dimension; columns that a sector holds together count as one
  while (next + 1 < c.dims && bytes(next) * c.size[next].value <= kSectorBytes) ++next;
  return bytes(next) * std::min(p.n, kMost) >= kFar;
}

/// Rows instead of `columns`, of so little data that to read it takes no time beside what blocks of columns do to add
/// up their parts and segments: a block an output has one trip to memory. (1869, 28) float32 over dimension 0 takes 2.2
/// us instead of 4.2, (84, 153) 1.8 and 2.7. Of 24 random sums of up to 512 KiB all are faster, 1.5 times in the
/// geometric mean; of 12 of up to 1 MiB four are slower. So are blocks of 1024 threads, if a multiprocessor gets two of
/// them: (1032, 209) bfloat16 takes 4.4 us instead of 3.2 (H200).
std::optional<Plan> plan_rows_of_little(const Problem& p, const Plan& columns, const Gpu& gpu) {
  constexpr double kLittle = 512 << 10;
  if (columns.family == Family::few_rows || bytes_of(p) > kLittle) return std::nullopt;
  const auto rows = plan_rows(p, gpu);
  if (!rows || rows->segments > 1 || (rows->layout != Layout::pitched && rows->layout != Layout::runs)) {
    return std::nullopt;
  }
  return p.outputs * rows->threads <= int64_t{1024} * gpu.multiprocessors ? rows : std::nullopt;
}

/// Columns that a thread takes: 16 bytes of neighbours if all rows allow that, but not if an odd few threads would then
/// lie side by side, of which a warp's lanes read in pieces of lines. (2^20, 24) float16 over dimension 0 takes 25.1
/// us, one column a thread 18.2; (2^18, 56) 18.4 and 12.6; (2^18, 28) float32 12.6 and 10.9. Of much data that hides,
/// and loads are fewer: (3000017, 24) float16 50.7 and 71.4. Of 8 bytes it is no gain (H200).
int columns_a_thread(const Problem& p, const Gpu& gpu) {
  const int vector = column_vector(p.element_size);
  if (!fits_vector(p, vector)) return 1;
  const int64_t side_by_side = p.outputs / vector;
  const bool odd = p.columns.dims == 1 && side_by_side % 2 == 1 && side_by_side >= 3 && side_by_side <= 9;
  return odd && vector >= 4 && p.element_size > 1 && waves_of(p, gpu) < 7 ? 1 : vector;
}

/// The plan but for Plan::prefetching and let_next.
std::optional<Plan> plan_kernel(const Problem& p, const Gpu& gpu) {
  if (p.outputs > 1) {
    if (const auto rows = plan_short_rows(p, gpu)) return rows;
    if (const auto narrow = plan_narrow_columns(p, gpu)) {
      return plan_rows_of_little(p, *narrow, gpu).value_or(*narrow);
    }
  }
  std::optional<Plan> rows;
  if (p.outputs == 1 || are_rows(p)) rows = plan_rows(p, gpu);
  const auto lines = lines_across(p);
  std::optional<Plan> plan;
  if (lines) {
    plan = plan_across(p, *lines, rows.has_value(), gpu);
    if (plan && plan->window == 0) return plan;  // in one launch, which rows do not beat
  }
  if (!plan) plan = rows;
  if (plan) {
    const Plan other = plan_boxes_instead(p, *plan, lines, gpu).value_or(*plan);
    const bool has_rival = rows && other.family != Family::rows;
    return has_rival && beat_lines(p, *rows, other, gpu) ? *rows : other;
  }
  if (lines && are_far_columns(p)) {
    if (const auto far = plan_rows(p, gpu)) return far;
  }
  auto columns = plan_columns(p, columns_a_thread(p, gpu), gpu);
  if (!columns) columns = plan_columns(p, 1, gpu);  // which takes 2^35 elements at least
  if (!columns) return std::nullopt;
  if (const auto rows_of_little = plan_rows_of_little(p, *columns, gpu)) return rows_of_little;
  return plan_boxes_instead(p, *columns, std::nullopt, gpu).value_or(*columns);
}

/// Whether the order goes down columns that fill memory without a gap, as the channels of images in channels_last, and
/// `rows` elements of each are better summed as columns. Of 16 to 256 MiB that is 1.1 to 1.2 times as fast as along
/// lines or by pitched rows, of 16 bits, full sums and those of each image, 1.2 and 1.4 times (1500 layouts of 3 to
/// 2048 channels, H200).
bool are_interleaved(const Problem& p, int64_t rows) {
  constexpr int64_t kLeastBytes = 16 << 20;  // of less, as many layouts lose as gain
  const Strides& r = p.reduced;
  const int64_t columns = r.stride[0];
  const int64_t elements = p.n * p.outputs;
  if (are_words(p) || elements * p.element_size < kLeastBytes || reach(p.kept) + reach(r) + 1 != elements) return false;
  const auto are_columns = [&](int d) { return r.stride[d] == 1 && r.size[d].value == columns; };
  for (int d = 1; d < r.dims; ++d) {
    if (!are_columns(d)) continue;
    // Matrices of less than two words a row lose: 128 rows of four float32 take 1.3 times as long as by lines (H200).
    const int64_t bytes = columns * p.element_size;
    const bool by_words = p.misalignment == 0 && bytes % 16 == 0 && bytes >= 32;
    return by_words || are_narrow(p, columns, rows, elements / (rows * columns));
  }
  return false;
}

}  // namespace

bool have_room(const Problem& p, int64_t window) {
  const int64_t nodes = nodes_of(p, window);
  const int64_t input = (reach(p.kept) + reach(p.reduced) + 1) * p.element_size;
  const int64_t most = std::max(kScratchBytes, input / 100) / p.accumulate_size;
  return p.outputs <= most / nodes && p.outputs <= (int64_t{1} << 31) / nodes;
}

int64_t row_across_memory(const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const Strides& r = p.reduced;
  if (r.dims < 2) return 0;
  const int64_t size = r.size[0].value;
  const int64_t row = std::min(size & -size, kMost);  // the largest power of two that divides it
  // Of several outputs, and of 16 bits unless it is too much for other plans, interleaved columns only, by which 1178
  // random layouts are 1.03 times as fast (H200).
  const bool has_16_bits = p.element_size == 2;
  const bool has_other = p.outputs > 1 || (has_16_bits && has_32_bit_offsets(r));
  if (has_other && !are_interleaved(p, row)) return 0;
  const int64_t inner = std::abs(r.stride[0]);
  const bool crosses = std::any_of(r.stride + 1, r.stride + r.dims, [&](int64_t s) { return s != 0 && s < inner; });
  // The rows are kept ones of the first of two sums.
  const int kept = (p.outputs > 1 ? p.kept.dims : 0) + r.dims - (row == size ? 1 : 0);
  return crosses && row >= 32 && kept <= kMaxDims && have_room(p, row) ? row : 0;
}

std::optional<Plan> make_plan(const Problem& p, const Gpu& gpu) {
  auto plan = plan_kernel(p, gpu);
  if (plan) set_start(p, *plan, gpu);
  return plan;
}

}  // namespace reduce_ops::sum
