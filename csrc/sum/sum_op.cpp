#include "sum/sum_op.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

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

struct Plan {
  at::Tensor self;
  at::ScalarType accumulate;
  at::ScalarType stored;  // what the backend writes
};

Plan prepare(const at::Tensor& self, at::ScalarType element, at::ScalarType result) {
  at::Tensor x = self;
  if (!converts_on_load(x.scalar_type(), element)) x = x.to(element);
  const at::ScalarType accumulate = accumulate_dtype(element);
  // complex32 has no kernels; float16 and bfloat16 results are rounded by the backend, any other in the end.
  if (x.scalar_type() == at::kComplexHalf) x = x.to(at::kComplexFloat);
  const bool rounds = result == x.scalar_type() && (result == at::kHalf || result == at::kBFloat16);
  return {x, accumulate, rounds ? result : accumulate};
}

}  // namespace

at::ScalarType result_dtype(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const at::ScalarType input = self.scalar_type();
  check_summable("sum", "self", input);
  if (!dtype) return reduce_ops::result_dtype(input);
  check_summable("sum", "dtype", *dtype);
  check_holds("sum", input, *dtype);
  return *dtype;
}

at::Tensor sum(const at::Tensor& self, std::optional<at::ScalarType> dtype, SumInto sum_into) {
  const at::ScalarType result = result_dtype(self, dtype);
  if (self.numel() == 0) return at::zeros({}, self.options().dtype(result));
  const Plan plan = prepare(self, dtype.value_or(self.scalar_type()), result);
  at::Tensor sum = at::empty({}, self.options().dtype(plan.stored));
  sum_into(plan.self, plan.accumulate, sum);
  return plan.stored == result ? sum : sum.to(result);
}

void check_out(const at::Tensor& self, at::ScalarType result, const at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == result, "sum: expected out to have dtype ", result, ", but it has ",
              out.scalar_type());
  TORCH_CHECK(out.device() == self.device(), "sum: expected out to be on the device of self, ", self.device(),
              ", but it is on ", out.device());
  TORCH_CHECK(out.layout() == at::kStrided, "sum: expected out to be strided, but its layout is ", out.layout());
}

/// The backend writes `out` after it has read all of self, so the two may share memory.
at::Tensor& sum_out(const at::Tensor& self, std::optional<at::ScalarType> dtype, at::Tensor& out, SumInto sum_into) {
  const at::ScalarType result = result_dtype(self, dtype);
  check_out(self, result, out);
  at::native::resize_output(out, {});
  if (self.numel() == 0) return out.zero_();
  const Plan plan = prepare(self, dtype.value_or(self.scalar_type()), result);
  if (plan.stored == result && !out.is_neg() && !out.is_conj()) {
    sum_into(plan.self, plan.accumulate, out);
    return out;
  }
  const at::Tensor sum = at::empty({}, self.options().dtype(plan.stored));
  sum_into(plan.self, plan.accumulate, sum);
  return out.copy_(sum);
}

}  // namespace reduce_ops::sum
