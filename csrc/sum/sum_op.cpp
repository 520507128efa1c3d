#include "sum/sum_op.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/DimVector.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "sum_dtypes.h"

namespace reduce_ops::sum {
namespace {

using Dtype = std::optional<at::ScalarType>;

constexpr Operator kNorms[] = {Operator::norm, Operator::sum_of_abs, Operator::max_abs, Operator::count,
                               Operator::min_abs};

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
      fill_with_nan(sums);
    } else {
      sums.zero_();
    }
  }
};

/// A view that has once what an expanded dimension that is reduced repeats.
at::Tensor without_repeats(at::Tensor x, DimSet reduced) {
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (has(reduced, d) && x.stride(d) == 0 && x.size(d) > 1) x = x.narrow(d, 0, 1);
  }
  return x;
}

/// A view of its components, along one more dimension. Whether they are conjugated or negated makes no difference.
at::Tensor components(const at::Tensor& complex) {
  const at::Tensor x = complex.is_conj() ? complex.conj() : complex;
  return at::view_as_real(x.is_neg() ? x._neg_view() : x);
}

/// What has the norm of complex numbers: their components, along one more dimension that is reduced, or, of another
/// order than 2, their absolute values, which are norms of two components each.
Job job_of_complex_norm(Job job, c10::function_ref<SumInto> sum_into, Allocate* allocate) {
  const auto all_dims = static_cast<int64_t>(job.reduced.size());
  if (job.self.dim() > all_dims) job.self = job.self.flatten();
  const at::Tensor parts = components(job.self);
  DimSet last;
  if (job.self.dim() < all_dims) last.set(job.self.dim());
  if (job.op == Operator::norm) return {job.op, parts, job.reduced | last, job.accumulate, job.stored};
  const at::Tensor abs = allocate(job.self.sizes(), job.accumulate, job.self);
  // Of order 0 whether they are 0 is all that counts, and squares of small ones would be.
  const Operator of_each = job.op == Operator::count ? Operator::max_abs : Operator::norm;
  if (abs.numel() > 0) sum_into(of_each, parts, last, job.accumulate, abs);
  return {job.op, abs, job.reduced, job.accumulate, job.accumulate};
}

Job job_of(const at::Tensor& self, const Request& request, DimSet reduced, Dtype dtype, at::ScalarType result,
           c10::function_ref<SumInto> sum_into, Allocate* allocate) {
  at::Tensor x = self;
  const at::ScalarType element = dtype.value_or(self.scalar_type());
  if (!converts_on_load(x.scalar_type(), element)) x = converted(x, element);
  // complex32 has no kernels; float16 and bfloat16 results are rounded by the backend, any other in the end.
  if (x.scalar_type() == at::kComplexHalf) x = converted(x, at::kComplexFloat);
  const at::ScalarType accumulate = accumulate_dtype(element);
  if (is_norm(request.op) && x.is_complex()) {
    const at::ScalarType part = c10::toRealValueType(accumulate);
    return job_of_complex_norm({request.op, std::move(x), reduced, part, part}, sum_into, allocate);
  }
  if (has_no_order(request.op)) x = without_repeats(x, reduced);
  const bool of_integers = accumulate == at::kLong;
  const Operator op = request.op == Operator::nansum && of_integers ? Operator::sum : request.op;
  const bool rounds = result == x.scalar_type() && (result == at::kHalf || result == at::kBFloat16);
  return {op, std::move(x), reduced, accumulate, rounds ? result : accumulate};
}

/// Where kNorms has the norm of that order.
const Operator* norm_or_end(const at::Scalar& ord) {
  if (ord.isComplex()) return std::end(kNorms);
  return std::find_if(std::begin(kNorms), std::end(kNorms),
                      [order = ord.toDouble()](Operator norm) { return ord_of(norm) == order; });
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
  const char* const name = name_of(op);
  const at::ScalarType input = self.scalar_type();
  const at::ScalarType element = dtype.value_or(input);
  const auto accepted = [&](const char* dtypes) {
    const auto source = dtype ? argument : "self";
    const std::string of = dtype ? c10::str(", but self is ", input) : "";
    return c10::str(name, ": ", source, " is ", element, of, "; accepted are ", dtypes);
  };
  if (op == Operator::max || op == Operator::min) {
    check_summable(name, "self", self, input);
    TORCH_CHECK(!self.is_complex() && input != at::kUInt64, accepted("real dtypes but uint64"));
    return input;
  }
  if (op == Operator::mean || is_norm(op)) {
    check_summable(name, "self", self, input);
    TORCH_CHECK(!at::isIntegralType(element, /*includeBool=*/true),
                accepted(dtype ? "floating point and complex dtypes"
                               : "floating point and complex dtypes, or any with such a dtype= or out="));
  }
  if (is_norm(op)) {  // which are real, but what they are computed from is as complex as self
    TORCH_CHECK(self.is_complex() == at::isComplexType(element),
                accepted(self.is_complex() ? "complex dtypes" : "floating point dtypes"));
  }
  if (op == Operator::nansum) {  // what would become of a NaN?
    TORCH_CHECK(!self.is_complex() && !at::isComplexType(element), accepted("real dtypes"));
    TORCH_CHECK(!at::isFloatingType(input) || at::isFloatingType(element), accepted("floating point dtypes"));
  }
  const at::ScalarType result = result_dtype(std::string_view(name), self, dtype, argument);
  return is_norm(op) ? c10::toRealValueType(result) : result;
}

bool has_norm(const at::Scalar& ord) { return norm_or_end(ord) != std::end(kNorms); }

Operator norm_of(std::string_view name, const at::Scalar& ord) {
  const Operator* const norm = norm_or_end(ord);
  const bool is_exact = name == kVectorNormExact;
  TORCH_CHECK(norm != std::end(kNorms) && (!is_exact || *norm == Operator::norm || *norm == Operator::sum_of_abs), name,
              ": ord is ", ord, "; accepted are ",
              is_exact ? "1 and 2" : "0, 1, 2, inf and -inf, of which norms have the same bits everywhere");
  return *norm;
}

double ord_of(Operator norm) {
  switch (norm) {
    case Operator::count:
      return 0;
    case Operator::sum_of_abs:
      return 1;
    case Operator::max_abs:
      return std::numeric_limits<double>::infinity();
    case Operator::min_abs:
      return -std::numeric_limits<double>::infinity();
    default:
      return 2;
  }
}

void check_has_elements(Operator op, const at::Tensor& self, at::OptionalIntArrayRef dims) {
  if (!has_no_order(op)) return;
  const auto elements = self.sym_numel().maybe_as_int();
  if (!elements || *elements > 0) return;
  TORCH_CHECK(dims && !dims->empty(), name_of(op), ": self has no elements; accepted are dim= of dimensions that have ",
              "some, since there is no result of none");
  for (const int64_t dim : *dims) {
    const int64_t d = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK_INDEX(
        self.dim() == 0 || self.sym_size(d) != 0, name_of(op), ": dim ", dim,
        " of self has no elements; accepted are dimensions that have some, since there is no result of none");
  }
}

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

DimSet reduced_dims(int64_t rank, at::OptionalIntArrayRef dims) {
  return dims && !dims->empty() ? at::dim_list_to_bitset(*dims, rank) : DimSet().set();
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
  check_has_elements(request.op, self, request.dims);
  const Job job = job_of(self, request, reduced, request.dtype, result, sum_into, allocate);
  const auto sizes = result_sizes(self.sizes(), reduced, request.keepdim);
  at::Tensor sums = allocate(sizes, job.stored, self);
  job.run(sums, sum_into);
  return converted(sums, result);
}

void fill_with_nan(const at::Tensor& means) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  means.fill_(means.is_complex() ? at::Scalar(c10::complex<double>(kNan, kNan)) : at::Scalar(kNan));
}

std::optional<at::ScalarType> dtype_of(Operator op, const at::Tensor& self, const at::Tensor& out) {
  if (op == Operator::max || op == Operator::min) return std::nullopt;
  at::ScalarType dtype = out.scalar_type();
  if (is_norm(op) && self.is_complex() && at::isFloatingType(dtype)) dtype = c10::toComplexType(dtype);
  if (dtype == reduce_ops::result_dtype(self.scalar_type())) return std::nullopt;
  return dtype;
}

void check_out(std::string_view op, const at::Tensor& self, at::ScalarType result, const at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == result, op, ": expected out to have dtype ", result, ", but it has ",
              out.scalar_type());
  TORCH_CHECK(out.device() == self.device(), op, ": expected out to be on the device of self, ", self.device(),
              ", but it is on ", out.device());
  TORCH_CHECK(out.layout() == at::kStrided, op, ": expected out to be strided, but its layout is ", out.layout());
}

at::Tensor& sum_out(const at::Tensor& self, const Request& request, at::Tensor& out,
                    c10::function_ref<SumInto> sum_into, Allocate* allocate) {
  const auto dtype = request.dtype ? request.dtype : dtype_of(request.op, self, out);
  const at::ScalarType result = result_dtype(request.op, self, dtype, request.dtype ? "dtype" : "out");
  const DimSet reduced = reduced_dims(self, request.dims);
  check_has_elements(request.op, self, request.dims);
  check_out(name_of(request.op), self, result, out);
  // out may be self, whose sizes are then no longer those of what is summed.
  const Job job = job_of(self.is_same(out) ? self.alias() : self, request, reduced, dtype, result, sum_into, allocate);
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
