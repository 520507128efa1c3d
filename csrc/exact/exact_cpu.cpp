#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "exact/exact_op.h"
#include "exact/squares_cpu.h"
#include "exact/sums_cpu.h"
#include "sum/work_cpu.h"

namespace reduce_ops::exact {
namespace {

// A range of an output ends in a state, of up to 1112 bytes: less than a seventh of what it read.
constexpr sum::Grain kGrain{kMaxSums, 2048};
static_assert(kMaxSums <= kMaxSquares);
constexpr int64_t kRoundGrain = 512;  // states worth a thread of their own

/// Rounds a state, or sum i of some, to Out, the type of a result's elements. What is narrower than float32 is made
/// from a float32 that was rounded to odd.
template <typename Out>
struct Round {
  using Result = std::conditional_t<std::is_same_v<Out, double>, double, float>;

  explicit Round(Finish asked) : finish(asked) {
    if (sizeof(Out) == 2) finish.rounding = Rounding::odd;
  }

  template <typename Sums>
  void operator()(Sums& sums, int64_t i, Out* out) const {
    *out = static_cast<Out>(sums.template rounded<Result>(i, finish));
  }
  template <typename Layout>
  void operator()(std::array<int64_t, Layout::kWords>& words, Layout, Out* out) const {
    *out = static_cast<Out>(round_state<Layout, Result>(words.data(), finish));
  }

  Finish finish;
};

/// Writes all words instead.
struct Keep {
  template <typename Sums>
  void operator()(Sums& sums, int64_t i, int64_t* out) const {
    sums.write_state(i, out);
  }
  template <typename Layout>
  void operator()(std::array<int64_t, Layout::kWords>& words, Layout, int64_t* out) const {
    std::copy(words.begin(), words.end(), out);
  }
};

/// The state of a tensor of which `count` ranges have the states that lie `apart` words after each other.
template <typename Layout>
std::array<int64_t, Layout::kWords> merged(const int64_t* states, int64_t count, int64_t apart) {
  std::array<int64_t, Layout::kWords> words{};
  for (int64_t i = 0; i < count; ++i) {
    for (int w = 0; w < Layout::kWords; ++w) words[w] += states[i * apart + w];
  }
  write_fresh<Layout>(words.data(),
                      {words[kNaNs] > 0, words[kPlusInfs] > 0, words[kMinusInfs] > 0, words[kOthers] > 0});
  return words;
}

/// Has `finish` write each sum where it belongs, `step` elements of Out after the one before. Sums: Sums or Squares.
template <typename Sums, typename Out, typename Finish>
void sum_to(const at::Tensor& self, DimSet reduced, sum::Map map, int64_t outputs, const Finish& finish, Out* out,
            int64_t step) {
  using Layout = typename Sums::Layout;
  constexpr int64_t kWords = Layout::kWords;
  sum::Work work = sum::work_of(sum::in_memory_order(self, reduced), reduced, outputs, kGrain);
  work.elements.changes.map = map;
  std::vector<int64_t> states(work.ranges > 1 ? work.ranges * outputs * kWords : 0);
  sum::for_each_task(work, [&](const sum::Elements& elements, const sum::Task& task) {
    Sums sums(elements, task.begin, task.end, {task.count, work.across.stride});
    for (int64_t i = 0; i < task.count; ++i) {
      const int64_t output = task.output + i * work.across.step;
      if (work.ranges == 1) {
        finish(sums, i, out + output * step);
      } else {
        sums.write_state(i, &states[(task.range * outputs + output) * kWords]);
      }
    }
  });
  if (work.ranges == 1) return;
  for (int64_t i = 0; i < outputs; ++i) {
    auto words = merged<Layout>(&states[i * kWords], work.ranges, outputs * kWords);
    finish(words, Layout{}, out + i * step);
  }
}

template <typename Out, typename Finish>
void sum_as(const at::Tensor& self, DimSet reduced, Term term, const at::Tensor& result, const Finish& finish,
            int64_t step) {
  auto* out = static_cast<Out*>(result.mutable_data_ptr());
  const auto sum_with = [&]<typename Sums>() {
    const sum::Map map = term == Term::magnitude ? sum::Map::abs : sum::Map::none;
    sum_to<Sums>(self, reduced, map, result.numel() / step, finish, out, step);
  };
  const bool wide = self.scalar_type() == at::kDouble;
  if (term == Term::square) {
    return wide ? sum_with.template operator()<Squares<double>>() : sum_with.template operator()<Squares<float>>();
  }
  return wide ? sum_with.template operator()<Sums<double>>() : sum_with.template operator()<Sums<float>>();
}

/// Calls round(Out()) with the type of the elements that rounded sums are written as.
template <typename Call>
void for_type(at::ScalarType dtype, Call call) {
  switch (dtype) {
    case at::kDouble:
      return call(double());
    case at::kFloat:
      return call(float());
    case at::kHalf:
      return call(at::Half());
    case at::kBFloat16:
      return call(at::BFloat16());
    default:
      TORCH_INTERNAL_ASSERT(false, "no exact sum is rounded to ", dtype);
  }
}

}  // namespace

void exact_cpu(const at::Tensor& self, DimSet reduced, Term term, const at::Tensor& result, Finish finish) {
  if (result.scalar_type() == at::kLong) return sum_as<int64_t>(self, reduced, term, result, Keep(), result.size(-1));
  for_type(result.scalar_type(), [&](auto type) {
    using Out = decltype(type);
    sum_as<Out>(self, reduced, term, result, Round<Out>(finish), 1);
  });
}

namespace {

template <typename Layout, typename Out>
void round_all(const at::Tensor& states, const at::Tensor& result, Finish finish) {
  const auto* in = states.const_data_ptr<int64_t>();
  auto* out = result.mutable_data_ptr<Out>();
  const Round<Out> round(finish);
  at::parallel_for(0, result.numel(), kRoundGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::array<int64_t, Layout::kWords> words;
      std::copy_n(in + i * Layout::kWords, Layout::kWords, words.begin());
      round(words, Layout{}, out + i);
    }
  });
}

}  // namespace

void round_cpu(const at::Tensor& states, const at::Tensor& result, Finish finish) {
  for_type(result.scalar_type(), [&](auto type) {
    using Out = decltype(type);
    with_layout(states.size(-1), [&](auto layout) { round_all<decltype(layout), Out>(states, result, finish); });
  });
}

}  // namespace reduce_ops::exact
