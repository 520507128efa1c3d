#include "sum/work_cpu.h"

#include <ATen/Parallel.h>
#include <ATen/core/DimVector.h>

#include <algorithm>
#include <bit>

#include "denormals_cpu.h"
#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

constexpr int64_t kGrain = 32768;    // elements worth a thread of their own, as in PyTorch's own CPU kernels
constexpr int64_t kMinRange = 8192;  // each range costs some 50 ns of its own, the time that 2500 cached floats take
constexpr int64_t kTasksPerThread = 32;  // so that their number divides evenly enough
constexpr int64_t kColumns = 64;         // that are worth a range of their own where the order runs across memory

/// Innermost first; neighbours that lie as one are one, and there is one at least.
c10::SmallVector<Kept, 6> kept_dims(const at::Tensor& self, DimSet reduced) {
  const auto element_size = static_cast<int64_t>(self.element_size());
  c10::SmallVector<Kept, 6> kept;
  int64_t step = 1;
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const int64_t size = self.size(d);
    const int64_t stride = self.stride(d) * element_size;
    if (size == 1 || has(reduced, d)) continue;
    if (!kept.empty() && stride == kept.back().stride * kept.back().size) {
      kept.back().size *= size;
    } else {
      kept.push_back({size, stride, step});
    }
    step *= size;
  }
  if (kept.empty()) kept.push_back({1, element_size, 1});
  return kept;
}

}  // namespace

Elements row(const void* data, Type type, int64_t size, int64_t stride) {
  Elements e;
  e.data = static_cast<const std::byte*>(data);
  e.type = type;
  e.bytes = size * stride;
  e.dims = 1;
  e.sizes[0] = size;
  e.strides[0] = stride;
  return e;
}

at::Tensor in_memory_order(const at::Tensor& self, DimSet reduced) {
  at::DimVector order, sorted;
  for (int64_t d = 0; d < self.dim(); ++d) {
    order.push_back(d);
    if (has(reduced, d)) sorted.push_back(d);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  auto next = sorted.begin();
  for (int64_t& d : order) {
    if (has(reduced, d)) d = *next++;
  }
  return self.permute(order);
}

Elements elements_of(const at::Tensor& self, DimSet reduced) {
  const auto element_size = static_cast<int64_t>(self.element_size());
  Elements e = row(self.const_data_ptr(), type_of(c10::toRealValueType(self.scalar_type())), 1, element_size);
  e.bytes = self.numel() * element_size;
  e.changes = {self.is_neg(), self.is_neg() != self.is_conj()};
  int dims = 0;
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const int64_t size = self.size(d);
    const int64_t stride = self.stride(d) * element_size;
    if (size == 1 || !has(reduced, d)) continue;
    if (dims > 0 && stride == e.strides[dims - 1] * e.sizes[dims - 1]) {
      e.sizes[dims - 1] *= size;  // goes on where the inner dimension ends
    } else {
      e.sizes[dims] = size;
      e.strides[dims] = stride;
      ++dims;
    }
  }
  e.dims = std::max(dims, 1);
  return e;
}

int64_t threads_for(int64_t elements) {
  return elements <= kGrain || at::in_parallel_region() ? 1 : at::get_num_threads();
}

Work work_of(const at::Tensor& self, DimSet reduced, int64_t outputs, Grain grain) {
  return work_of(elements_of(self, reduced), self.numel() / outputs, kept_dims(self, reduced),
                 threads_for(self.numel()), grain);
}

Work work_of(const Elements& elements, int64_t n, const c10::SmallVector<Kept, 6>& kept, int64_t threads, Grain grain) {
  Work w;
  w.elements = elements;
  w.n = n;
  w.outer = kept;
  int64_t outputs = 1;
  for (const Kept& dim : kept) outputs *= dim.size;
  const auto distance = [](const Kept& dim) { return dim.stride == 0 ? INT64_MAX : dim.stride; };  // expanded ones last
  const auto across = std::min_element(w.outer.begin(), w.outer.end(),
                                       [&](const Kept& a, const Kept& b) { return distance(a) < distance(b); });
  w.across = *across;
  w.outer.erase(across);
  w.outer_size = outputs / w.across.size;

  const int64_t tasks = threads == 1 ? 1 : kTasksPerThread * threads;
  const int64_t most = std::min(grain.block, w.across.size);
  const int closest = closest_dim(w.elements);
  const bool columns = w.across.stride < w.elements.strides[closest];
  w.block = std::clamp<int64_t>(columns ? w.across.size : outputs / tasks, 1, most);
  if (threads == 1) w.block = most;
  w.blocks = (w.across.size - 1) / w.block + 1;
  w.range = 1;
  if (closest != 0) {
    w.range = kColumns;
    for (int d = 0; d < closest; ++d) {
      const int64_t size = w.elements.sizes[d];
      w.range = w.range > w.n / size ? w.n : w.range * static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size)));
    }
  }
  while (w.range < w.n && (w.range < grain.range || w.range * w.block < kMinRange ||
                           (w.n - 1) / w.range >= tasks / (w.outer_size * w.blocks))) {
    w.range *= 2;
  }
  // Fewer ranges while no thread gets more to do: 2^20 elements on two threads are two, not 64 of some 50 ns each.
  const auto longest = [&](int64_t range) {
    const int64_t all = w.outer_size * w.blocks * ((w.n - 1) / range + 1);
    return ((all - 1) / threads + 1) * range;
  };
  while (w.range < w.n && longest(2 * w.range) <= longest(w.range)) w.range *= 2;
  w.ranges = (w.n - 1) / w.range + 1;
  return w;
}

void for_each_task(const Work& w, c10::function_ref<void(const Elements&, const Task&)> run) {
  const int64_t task_size = w.block * w.range;
  at::parallel_for(0, w.tasks(), std::max<int64_t>(1, kGrain / task_size), [&](int64_t begin, int64_t end) {
    const DenormalsKept kept;
    Elements elements = w.elements;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % w.blocks * w.block;
      const int64_t range = i / w.blocks % w.ranges;
      Task task{range, range * w.range, std::min(w.n, (range + 1) * w.range), first * w.across.step,
                std::min(w.block, w.across.size - first)};
      elements.data = w.elements.data + first * w.across.stride;
      int64_t outer = i / w.blocks / w.ranges;
      for (const Kept& dim : w.outer) {
        elements.data += outer % dim.size * dim.stride;
        task.output += outer % dim.size * dim.step;
        outer /= dim.size;
      }
      run(elements, task);
    }
  });
}

}  // namespace reduce_ops::sum
