#include "sum_dtypes.h"

#include <c10/util/Exception.h>

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

void check_holds(std::string_view op, ScalarType input, ScalarType dtype) {
  TORCH_CHECK(!c10::isComplexType(input) || c10::isComplexType(dtype), op, ": dtype=", dtype,
              " cannot hold the sum of a ", input, " tensor; pass a complex dtype, or sum self.real");
}

}  // namespace reduce_ops
