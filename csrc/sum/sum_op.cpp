#include "sum/sum_op.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/DimVector.h>
#include <ATen/native/Resize.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

/// Whether a backend converts `input` to `element` while it loads; any other pair is converted before.
bool converts_on_load(at::ScalarType input, at::ScalarType element) {
  if (input == element) return true;
  const bool integer = at::isIntegralType(input, /*includeBool=*/true);
  const bool small_float = at::isReducedFloatingType(input) || input == at::kFloat;
  switch (element) {
    case at::kLong:
      return integer;
    case at::kFloat:
    case at::kDouble:
      return integer || small_float;
    case at::kComplexDouble:
      return input == at::kComplexFloat;
    default:
      return false;
  }
}

/// What a backend is asked for.
struct Job {
  Operator op;
  at::Tensor self;
  DimSet reduced;
  at::ScalarType accumulate;
  at::ScalarType stored;  // what the backend writes

  /// sums: dense, of dtype `stored`.
  void run(const at::Tensor& sums, c10::function_ref<SumInto> sum_into) const {
    if (sums.numel() == 0) return;
    if (self.numel() > 0) {
      sum_into(op, self, reduced, accumulate, sums);
    } else if (op == Operator::mean) {
      constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
      sums.fill_(sums.is_complex() ? at::Scalar(c10::complex<double>(kNan, kNan)) : at::Scalar(kNan));
    } else {
      sums.zero_();
    }
  }
};

Job job_of(Operator op, const at::Tensor& self, DimSet reduced, at::ScalarType element, at::ScalarType result) {
  at::Tensor x = self;
  if (!converts_on_load(x.scalar_type(), element)) x = converted(x, element);
  const at::ScalarType accumulate = accumulate_dtype(element);
  // complex32 has no kernels; float16 and bfloat16 results are rounded by the backend, any other in the end.
  if (x.scalar_type() == at::kComplexHalf) x = converted(x, at::kComplexFloat);
  const bool rounds = result == x.scalar_type() && (result == at::kHalf || result == at::kBFloat16);
  return {op, std::move(x), reduced, accumulate, rounds ? result : accumulate};
}

}  // namespace

at::ScalarType result_dtype(std::string_view op, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                            std::string_view argument) {
  const at::ScalarType input = self.scalar_type();
  check_summable(op, "self", self, input);
  if (!dtype) return reduce_ops::result_dtype(input);
  check_summable(op, argument, self, *dtype);
  check_holds(op, argument, input, *dtype);
  return *dtype;
}

at::ScalarType result_dtype(Operator op, const at::Tensor& self, std::optional<at::ScalarType> dtype,
                            std::string_view argument) {
  const at::ScalarType result = result_dtype(std::string_view(name_of(op)), self, dtype, argument);
  if (op == Operator::mean) {
    const bool given = dtype.has_value();
    const at::ScalarType of = given ? *dtype : self.scalar_type();
    TORCH_CHECK(!at::isIntegralType(of, /*includeBool=*/true), "mean: ", given ? argument : "self", " is ", of,
                "; accepted are floating point and complex dtypes", given ? "" : ", or any with such a dtype= or out=");
  }
  return result;
}

DimSet reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  return dims && !dims->empty() ? at::dim_list_to_bitset(*dims, self.dim()) : DimSet().set();
}

std::pair<at::Tensor, DimSet> kept_first(const at::Tensor& self, DimSet reduced) {
  at::DimVector kept, order;
  for (int64_t d = 0; d < self.dim(); ++d) (has(reduced, d) ? order : kept).push_back(d);
  const auto first = static_cast<int64_t>(kept.size());
  order.insert(order.begin(), kept.begin(), kept.end());
  return {self.permute(order).contiguous(), dims_from(first)};
}

at::Tensor sum(const at::Tensor& self, const Request& request, c10::function_ref<SumInto> sum_into,
               Allocate* allocate) {
  const at::ScalarType result = result_dtype(request.op, self, request.dtype);
  const DimSet reduced = reduced_dims(self, request.dims);
  const Job job = job_of(request.op, self, reduced, request.dtype.value_or(self.scalar_type()), result);
  const auto sizes = result_sizes(self.sizes(), reduced, request.keepdim);
  at::Tensor sums = allocate(sizes, job.stored, self);
  job.run(sums, sum_into);
  return converted(sums, result);
}

std::optional<at::ScalarType> dtype_of(const at::Tensor& self, const at::Tensor& out) {
  if (out.scalar_type() == reduce_ops::result_dtype(self.scalar_type())) return std::nullopt;
  return out.scalar_type();
}

void check_out(Operator op, const at::Tensor& self, at::ScalarType result, const at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == result, name_of(op), ": expected out to have dtype ", result, ", but it has ",
              out.scalar_type());
  TORCH_CHECK(out.device() == self.device(), name_of(op), ": expected out to be on the device of self, ", self.device(),
              ", but it is on ", out.device());
  TORCH_CHECK(out.layout() == at::kStrided, name_of(op), ": expected out to be strided, but its layout is ",
              out.layout());
}

at::Tensor& sum_out(const at::Tensor& self, const Request& request, at::Tensor& out,
                    c10::function_ref<SumInto> sum_into, Allocate* allocate) {
  const auto dtype = request.dtype ? request.dtype : dtype_of(self, out);
  const at::ScalarType result = result_dtype(request.op, self, dtype, request.dtype ? "dtype" : "out");
  const DimSet reduced = reduced_dims(self, request.dims);
  check_out(request.op, self, result, out);
  // out may be self, whose sizes are then no longer those of what is summed.
  const Job job =
      job_of(request.op, self.is_same(out) ? self.alias() : self, reduced, dtype.value_or(self.scalar_type()), result);
  const auto sizes = result_sizes(self.sizes(), reduced, request.keepdim);
  at::native::resize_output(out, sizes);
  const bool direct = job.stored == result && out.is_contiguous() && !out.is_neg() && !out.is_conj() &&
                      at::get_overlap_status(out, job.self) == at::MemOverlapStatus::No;
  if (direct) {
    job.run(out, sum_into);
    return out;
  }
  const at::Tensor sums = allocate(sizes, job.stored, self);
  job.run(sums, sum_into);
  return out.copy_(converted(sums, result));
}

}  // namespace reduce_ops::sum
