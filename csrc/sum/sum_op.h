// What `reduce::sum` does on every backend: check arguments, settle dtypes and shapes, hand over to the backend.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <torch/library.h>

#include <bitset>
#include <optional>
#include <string_view>
#include <utility>

namespace reduce_ops::sum {

/// Bit d is set if dimension d is summed over. Tensors of more than 64 dimensions are summed over all of them only.
using DimSet = std::bitset<64>;

inline bool has(DimSet reduced, int64_t d) { return d >= static_cast<int64_t>(reduced.size()) || reduced[d]; }

/// Sums self, which has elements, over the dimensions of `reduced`, each output in the canonical order. result: on the
/// device of self, one element for each index of the other dimensions, dense and in row-major order of that index
/// (dimensions of size 1 aside). Its dtype is `accumulate`, or that of self where that is float16 or bfloat16.
using SumInto = void(const at::Tensor& self, DimSet reduced, at::ScalarType accumulate, const at::Tensor& result);

/// A new tensor on the device of `like`, without the detour through the dispatcher that at::empty takes (0.4 us).
using Allocate = at::Tensor(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor& like);

/// What a caller asks for, as aten::sum's overloads have it. No dims, or an empty list of them: all.
struct Request {
  at::OptionalIntArrayRef dims;
  bool keepdim;
  std::optional<at::ScalarType> dtype;
};

at::Tensor sum(const at::Tensor& self, const Request& request, c10::function_ref<SumInto> sum_into, Allocate* allocate);
at::Tensor& sum_out(const at::Tensor& self, const Request& request, at::Tensor& out,
                    c10::function_ref<SumInto> sum_into, Allocate* allocate);

// For backends that have no data, only dtypes and sizes, and for sums of other kinds; `op` is who complains.
at::ScalarType result_dtype(std::string_view op, const at::Tensor& self, std::optional<at::ScalarType> dtype);
DimSet reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims);
/// The dimensions from `first` on.
inline DimSet dims_from(int64_t first) { return DimSet().set() << first; }
/// A copy of `self` with its kept dimensions first, and its reduced ones: either merge to one.
std::pair<at::Tensor, DimSet> kept_first(const at::Tensor& self, DimSet reduced);
/// What dtype= is where the caller gives out= alone: that of out, unless the sum has it anyway.
std::optional<at::ScalarType> dtype_of(const at::Tensor& self, const at::Tensor& out);
void check_out(const at::Tensor& self, at::ScalarType result, const at::Tensor& out);

/// The sizes of a sum over `reduced`; Size is int64_t or SymInt.
template <typename Size>
c10::SmallVector<Size, 6> result_sizes(c10::ArrayRef<Size> sizes, DimSet reduced, bool keepdim) {
  c10::SmallVector<Size, 6> result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!has(reduced, static_cast<int64_t>(d))) {
      result.push_back(sizes[d]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

/// Registers the overloads of sum for one dispatch key. kSum and kSumOut take (self, request[, out]).
template <auto kSum, auto kSumOut>
void register_overloads(torch::Library& m) {
  using Dtype = std::optional<at::ScalarType>;
  using Dims = at::OptionalIntArrayRef;
  m.impl("sum", +[](const at::Tensor& self, Dtype dtype) { return kSum(self, {std::nullopt, false, dtype}); });
  m.impl(
      "sum.out", +[](const at::Tensor& self, Dtype dtype, at::Tensor& out) -> at::Tensor& {
        return kSumOut(self, {std::nullopt, false, dtype}, out);
      });
  m.impl(
      "sum.dim_IntList",
      +[](const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype) { return kSum(self, {dims, keepdim, dtype}); });
  m.impl(
      "sum.IntList_out",
      +[](const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype, at::Tensor& out) -> at::Tensor& {
        return kSumOut(self, {dims, keepdim, dtype}, out);
      });
}

/// The same for a backend that has data.
template <SumInto* kSumInto, Allocate* kAllocate>
void register_sum(torch::Library& m) {
  constexpr auto kSum = [](const at::Tensor& self, const Request& request) {
    return sum(self, request, kSumInto, kAllocate);
  };
  constexpr auto kSumOut = [](const at::Tensor& self, const Request& request, at::Tensor& out) -> at::Tensor& {
    return sum_out(self, request, out, kSumInto, kAllocate);
  };
  register_overloads<kSum, kSumOut>(m);
}

}  // namespace reduce_ops::sum
