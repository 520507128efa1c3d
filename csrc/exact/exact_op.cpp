#include "exact/exact_op.h"

#include <ATen/core/DimVector.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include "sum_dtypes.h"

namespace reduce_ops::exact {
namespace {

bool is_integer(at::ScalarType dtype) { return at::isIntegralType(dtype, /*includeBool=*/true); }

/// Integers add up as reduce::sum adds them, and elements that become integers too.
at::Tensor sum_of_integers(const at::Tensor& self, const sum::Request& request) { return sum::call_sum(self, request); }

/// Integers of 64 bits as pairs of float64, each of which holds one half exactly.
at::Tensor halves(const at::Tensor& self) {
  constexpr auto kLow = static_cast<int64_t>(kLimbMask);
  const at::Tensor x = self.view(at::kLong);
  at::Tensor high = x.bitwise_right_shift(32);
  if (self.scalar_type() == at::kUInt64) high = high.bitwise_and(kLow);
  at::DimVector sizes(x.sizes());
  sizes.push_back(2);
  const at::Tensor result = x.new_empty(sizes, x.options().dtype(at::kDouble));
  result.select(-1, 0).copy_(high).mul_(0x1p32);
  result.select(-1, 1).copy_(x.bitwise_and(kLow));
  return result;
}

/// What a backend sums: floats, of which those of a complex number lie along one more dimension, which is kept unless
/// their squares are added, and those of an integer of 64 bits along one that is summed over.
struct Floats {
  at::Tensor self;
  DimSet reduced;
};

Floats floats_of(std::string_view op, const at::Tensor& tensor, DimSet reduced, Term term) {
  // A set of dimensions has room for 64, of which some elements need one more; a full sum can do with fewer.
  const at::Tensor self = tensor.dim() >= 64 && reduced.all() ? tensor.squeeze() : tensor;
  const at::ScalarType input = self.scalar_type();
  const bool wide = input == at::kLong || input == at::kUInt64;
  if (!self.is_complex() && !wide) {
    return {is_integer(input) ? self.to(at::kDouble) : self.resolve_neg(), reduced};  // integers of 32 bits fit
  }
  TORCH_CHECK(self.dim() < 64, op, ": self has 64 dimensions; accepted are up to 63 of complex and 64-bit elements");
  if (wide) return {halves(self), reduced.set(self.dim())};
  return {at::view_as_real(self.resolve_conj().resolve_neg()), reduced.set(self.dim(), term == Term::square)};
}

void sum_into(const Floats& floats, Term term, const at::Tensor& result, Finish finish, const Backend& backend) {
  if (result.numel() == 0) return;
  if (floats.self.numel() == 0) {
    result.zero_();
  } else {
    backend.exact_into(floats.self, floats.reduced, term, result, finish);
  }
}

/// What a backend writes so that one conversion from it makes a `part`, a real dtype, of the exact sum.
struct Stored {
  at::ScalarType dtype;
  Rounding rounding;
};

Stored stored_for(at::ScalarType part) {
  switch (part) {
    case at::kDouble:
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16:
      return {part, Rounding::nearest};
    default:
      return {at::kFloat, Rounding::odd};  // float8
  }
}

/// Which sums are meant, and what becomes of them before they are rounded.
struct Reduction {
  std::string_view op;
  Term term = Term::element;
  bool root = false;
  int64_t divisor = 1;
};

Reduction reduction_of(sum::Operator op) {
  switch (op) {
    case sum::Operator::norm:
      return {.op = sum::kVectorNormExact, .term = Term::square, .root = true};
    case sum::Operator::sum_of_abs:
      return {.op = sum::kVectorNormExact, .term = Term::magnitude};
    default:
      return {.op = op == sum::Operator::mean ? sum::kMeanExact : sum::kSumExact};
  }
}

/// The exact sums of floats in a float or complex dtype.
at::Tensor rounded(const Reduction& of, const at::Tensor& self, DimSet reduced, at::IntArrayRef sizes,
                   at::ScalarType dtype, const Backend& backend) {
  const Floats floats = floats_of(of.op, self, reduced, of.term);
  const Stored stored = stored_for(c10::toRealValueType(dtype));
  const bool parts = self.is_complex() && of.term == Term::element;
  at::DimVector stored_sizes(sizes);
  if (parts) stored_sizes.push_back(2);
  const at::Tensor sums = backend.allocate(stored_sizes, stored.dtype, self);
  sum_into(floats, of.term, sums, {stored.rounding, of.root, of.divisor}, backend);
  return converted(parts ? at::view_as_complex(sums) : sums, dtype);
}

/// Every header has to be that of the layout. A GPU is not asked, since that would mean to wait for it.
void check_headers(const at::Tensor& states) {
  const int64_t words = states.size(-1);
  const auto* header = states.const_data_ptr<int64_t>();
  for (const auto* end = header + states.numel(); header != end; header += words) {
    const bool fits = words == LayoutInt::kWords
                          ? is_header<LayoutInt>(*header)
                          : with_layout(words, [&](auto layout) { return is_header<decltype(layout)>(*header); });
    TORCH_CHECK_VALUE(fits, "exact_round: state has a first word of ", *header, ", which no sum of states of ", words,
                      " words has; accepted are sums of up to 2^", kCountBits, " results of exact_state");
  }
}

/// The dtype of a norm: dtype=, or that of self, as vector_norm has it, but for what has no exact sum.
at::ScalarType norm_dtype(const at::Tensor& self, std::optional<at::ScalarType> dtype, sum::Operator norm,
                          const char* source = "dtype") {
  const at::ScalarType input = self.scalar_type();
  const at::ScalarType result = sum::result_dtype(sum::kVectorNormExact, self, dtype);
  const at::ScalarType asked = dtype.value_or(input);
  const char* const argument = dtype ? source : "self";
  TORCH_CHECK(input != at::kLong && input != at::kUInt64, sum::kVectorNormExact, ": self is ", input,
              "; accepted are floating point and complex dtypes and, with dtype=, bool and integers of up to 32 bits");
  TORCH_CHECK(!is_integer(asked), sum::kVectorNormExact, ": ", argument, " is ", asked,
              "; accepted are floating point and complex dtypes", dtype ? "" : ", or any with such a dtype= or out=");
  TORCH_CHECK(self.is_complex() == at::isComplexType(asked), sum::kVectorNormExact, ": ", argument, " is ", asked,
              ", but self is ", input, "; accepted are ", self.is_complex() ? "complex" : "floating point", " dtypes");
  TORCH_CHECK(norm == sum::Operator::norm || !self.is_complex(), sum::kVectorNormExact, ": ord is 1 and self is ",
              input, ", of which absolute values are roots; accepted is ord=2");
  return c10::toRealValueType(result);
}

}  // namespace

int64_t words_of(at::ScalarType input, Term term) {
  if (is_integer(input)) return LayoutInt::kWords;
  const bool wide = c10::toRealValueType(input) == at::kDouble;
  if (term == Term::square) return wide ? SquaresLayout64::kWords : SquaresLayout32::kWords;
  return wide ? Layout64::kWords : Layout32::kWords;
}

Term term_of(const at::Tensor& self, std::string_view of) {
  if (of == "elements") return Term::element;
  TORCH_CHECK_VALUE(of == "magnitudes" || of == "squares", "exact_state: of is '", of,
                    "'; accepted are 'elements', 'magnitudes' and 'squares'");
  const at::ScalarType input = self.scalar_type();
  TORCH_CHECK_VALUE(!is_integer(input), "exact_state: of is '", of, "' and self is ", input,
                    "; accepted are floating point and complex dtypes");
  if (of == "squares") return Term::square;
  TORCH_CHECK_VALUE(!self.is_complex(), "exact_state: of is 'magnitudes' and self is ", input,
                    ", of which they are roots; accepted are 'elements' and 'squares'");
  return Term::magnitude;
}

at::ScalarType exact_dtype(const at::Tensor& self, const sum::Request& request) {
  if (request.op == sum::Operator::sum) return sum::result_dtype(sum::kSumExact, self, request.dtype);
  if (sum::is_norm(request.op)) return norm_dtype(self, request.dtype, request.op);
  const at::ScalarType dtype = sum::result_dtype(sum::kMeanExact, self, request.dtype);
  const bool given = request.dtype.has_value();
  TORCH_CHECK(!is_integer(dtype), sum::kMeanExact, ": ", given ? "dtype" : "self", " is ",
              given ? dtype : self.scalar_type(), "; accepted are floating point and complex dtypes",
              given ? "" : ", or any with such a dtype=");
  return dtype;
}

at::Tensor reduce_exact(const at::Tensor& self, const sum::Request& request, const Backend& backend) {
  const at::ScalarType dtype = exact_dtype(self, request);
  if (is_integer(dtype)) return sum_of_integers(self, request);
  const DimSet reduced = sum::reduced_dims(self, request.dims);
  auto sizes = sum::result_sizes(self.sizes(), reduced, request.keepdim);
  const int64_t outputs = c10::multiply_integers(sizes);
  Reduction of = reduction_of(request.op);
  if (request.op == sum::Operator::mean && outputs > 0) {
    of.divisor = self.numel() / outputs;
    if (of.divisor == 0) {
      const at::Tensor means =
          backend.allocate(sizes, at::isComplexType(dtype) ? at::kComplexDouble : at::kDouble, self);
      sum::fill_with_nan(means);
      return converted(means, dtype);
    }
  }
  return rounded(of, self, reduced, sizes, dtype, backend);
}

sum::Request request_for(const at::Tensor& self, const sum::Request& request, const at::Tensor& out) {
  const auto dtype = request.dtype ? request.dtype : sum::dtype_of(request.op, self, out);
  const char* const source = request.dtype ? "dtype" : "out";
  sum::check_out(sum::kVectorNormExact, self, norm_dtype(self, dtype, request.op, source), out);
  return {request.dims, request.keepdim, dtype, request.op};
}

at::Tensor& norm_exact_out(const at::Tensor& self, const sum::Request& request, at::Tensor& out,
                           const Backend& backend) {
  const at::Tensor norms = reduce_exact(self, request_for(self, request, out), backend);
  at::native::resize_output(out, norms.sizes());
  return out.copy_(norms);
}

at::Tensor exact_state(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, Term term,
                       const Backend& backend) {
  const at::ScalarType input = self.scalar_type();
  check_summable("exact_state", "self", input);
  const DimSet reduced = sum::reduced_dims(self, dims);
  auto sizes = sum::result_sizes(self.sizes(), reduced, keepdim);
  if (self.is_complex() && term == Term::element) sizes.push_back(2);
  sizes.push_back(words_of(input, term));
  const at::Tensor states = backend.allocate(sizes, at::kLong, self);
  if (is_integer(input)) {
    states.select(-1, 0).fill_(self.numel() > 0 ? LayoutInt::kOne : 0);
    states.select(-1, 1).copy_(sum_of_integers(self, {dims, keepdim, at::kLong}));
  } else {
    sum_into(floats_of("exact_state", self, reduced, term), term, states, {Rounding::nearest}, backend);
  }
  return states;
}

void check_state(const at::Tensor& state, at::ScalarType dtype, const c10::SymInt& count, bool root) {
  check_summable("exact_round", "dtype", dtype);
  if (const auto known = count.maybe_as_int()) {
    TORCH_CHECK_VALUE(*known > 0, "exact_round: count is ", *known, "; accepted are 1 and more");
    TORCH_CHECK_VALUE(*known == 1 || !is_integer(dtype), "exact_round: dtype=", dtype,
                      " cannot hold a mean, of which count is asked for; accepted are floats and complex dtypes");
    TORCH_CHECK_VALUE(*known == 1 || !root, "exact_round: count is ", *known, "; accepted is 1 with root");
  }
  TORCH_CHECK_VALUE(state.scalar_type() == at::kLong, "exact_round: state has dtype ", state.scalar_type(),
                    "; accepted is int64, as exact_state returns it");
  const c10::SymInt words = state.dim() > 0 ? state.sym_size(-1) : 0;
  const bool of_squares = words == SquaresLayout32::kWords || words == SquaresLayout64::kWords;
  TORCH_CHECK_VALUE(of_squares || words == LayoutInt::kWords || words == Layout32::kWords || words == Layout64::kWords,
                    "exact_round: state has sizes ", state.sym_sizes(), "; accepted is a last dimension of ",
                    LayoutInt::kWords, " (integers), ", Layout32::kWords, " (floats of up to 32 bits), ",
                    Layout64::kWords, " (float64), or ", SquaresLayout32::kWords, " and ", SquaresLayout64::kWords,
                    " (squares of these) words");
  TORCH_CHECK_VALUE(of_squares || !root, "exact_round: root asks for a state of squares, but state has sizes ",
                    state.sym_sizes(), "; accepted is a last dimension of ", SquaresLayout32::kWords, " or ",
                    SquaresLayout64::kWords, " words");
  TORCH_CHECK_VALUE(words == LayoutInt::kWords || !is_integer(dtype), "exact_round: dtype=", dtype,
                    " cannot hold a sum of floats, which state is; accepted are floats and complex dtypes");
  TORCH_CHECK_VALUE(!of_squares || !at::isComplexType(dtype), "exact_round: dtype=", dtype,
                    " asks for a state of complex numbers, but state is one of squares; accepted are floats");
  TORCH_CHECK_VALUE(
      !at::isComplexType(dtype) || (words != LayoutInt::kWords && state.dim() > 1 && state.sym_size(-2) == 2),
      "exact_round: dtype=", dtype, " asks for a state of complex numbers, but state has sizes ", state.sym_sizes(),
      "; accepted are two states of floats, real and imaginary part, in the dimension "
      "before the last");
}

c10::SymIntArrayRef rounded_sizes(const at::Tensor& state, at::ScalarType dtype) {
  return state.sym_sizes().slice(0, state.dim() - (at::isComplexType(dtype) ? 2 : 1));
}

at::Tensor exact_round(const at::Tensor& state, at::ScalarType dtype, int64_t count, bool root,
                       const Backend& backend) {
  check_state(state, dtype, count, root);
  const at::Tensor states = state.contiguous();
  if (states.is_cpu()) check_headers(states);
  if (states.size(-1) == LayoutInt::kWords) {
    const at::Tensor sums = states.select(-1, 1);
    if (is_integer(dtype)) return sums.to(dtype, /*non_blocking=*/false, /*copy=*/true);
    const Reduction of{.op = "exact_round", .divisor = count};
    return rounded(of, sums.unsqueeze(-1), DimSet().set(sums.dim()), sums.sizes(), dtype, backend);
  }
  const Stored stored = stored_for(c10::toRealValueType(dtype));
  const at::Tensor sums = backend.allocate(states.sizes().slice(0, states.dim() - 1), stored.dtype, states);
  if (sums.numel() > 0) backend.round_into(states, sums, {stored.rounding, root, count});
  const at::Tensor result = at::isComplexType(dtype) ? at::view_as_complex(sums) : sums;
  return converted(result, dtype);
}

}  // namespace reduce_ops::exact
