#include "sum_dtypes.h"

#include <c10/util/Exception.h>

#include "denormals_cpu.h"

namespace reduce_ops {

using c10::ScalarType;

ScalarType accumulate_dtype(ScalarType element) {
  if (c10::isIntegralType(element, /*includeBool=*/true)) return ScalarType::Long;
  switch (element) {
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2:
      return ScalarType::Float;
    case ScalarType::ComplexHalf:
      return ScalarType::ComplexFloat;
    default:
      return element;
  }
}

ScalarType result_dtype(ScalarType input) {
  if (c10::isIntegralType(input, /*includeBool=*/true)) return ScalarType::Long;
  return c10::isFloat8Type(input) ? ScalarType::Float : input;
}

void check_summable(std::string_view op, std::string_view argument, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::UInt16:
    case ScalarType::UInt32:
    case ScalarType::UInt64:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double:
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2:
    case ScalarType::ComplexHalf:
    case ScalarType::ComplexFloat:
    case ScalarType::ComplexDouble:
      return;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": ", argument, " has dtype ", dtype,
                                  ", which has no sum; accepted are bool, uint8, uint16, uint32, uint64, int8, int16, "
                                  "int32, int64, float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, "
                                  "complex32, complex64 and complex128");
  }
}

void check_summable(std::string_view op, std::string_view argument, const at::Tensor& self, ScalarType dtype) {
  if (!self.is_meta()) check_summable(op, argument, dtype);
}

void check_holds(std::string_view op, std::string_view argument, ScalarType input, ScalarType dtype) {
  TORCH_CHECK(!c10::isComplexType(input) || c10::isComplexType(dtype), op, ": ", argument, " is ", dtype,
              ", which cannot hold the result of a ", input, " tensor; accepted are complex dtypes, or pass self.real");
}

at::Tensor converted(const at::Tensor& x, ScalarType dtype) {
  if (x.scalar_type() == dtype) return x;  // to ask x.to() costs some 0.2 us
  const DenormalsKept kept;
  return x.to(dtype);
}

Type type_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return Type::boolean;
    case ScalarType::Char:
      return Type::int8;
    case ScalarType::Short:
      return Type::int16;
    case ScalarType::Int:
      return Type::int32;
    case ScalarType::Long:
      return Type::int64;
    case ScalarType::Byte:
      return Type::uint8;
    case ScalarType::UInt16:
      return Type::uint16;
    case ScalarType::UInt32:
      return Type::uint32;
    case ScalarType::UInt64:
      return Type::uint64;
    case ScalarType::Float8_e4m3fn:
      return Type::float8_e4m3fn;
    case ScalarType::Float8_e5m2:
      return Type::float8_e5m2;
    case ScalarType::Half:
      return Type::float16;
    case ScalarType::BFloat16:
      return Type::bfloat16;
    case ScalarType::Float:
      return Type::float32;
    case ScalarType::Double:
      return Type::float64;
    case ScalarType::ComplexFloat:
      return Type::complex64;
    case ScalarType::ComplexDouble:
      return Type::complex128;
    default:
      TORCH_INTERNAL_ASSERT(false, "no kernel reads or writes ", dtype);
  }
}

}  // namespace reduce_ops
