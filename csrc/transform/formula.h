// What is done to the elements of several tensors before they are summed: a formula in postfix notation, such as
// "x0 x1 mul x0 add" for x0 * x1 + x0. reduce_ops.transform_sum writes it from an expression of Python. Only the words
// below are accepted, and kernels are made of these, never of the text. No PyTorch.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/tuning.cuh"

namespace reduce_ops::transform {

using sum::kMaxConstants;
using sum::kMaxInputs;
inline constexpr int kMaxDepth = 12;  // values at hand at the same time
inline constexpr int kMaxSteps = 256;

/// Every operation is rounded once, in the type that sums are added in. Truth is 1, falsehood 0, and any number but 0
/// is true. min and max of a NaN are NaN, and 0.0 is larger than -0.0, as in amax.
enum class Word : uint8_t {
  input,     // x0 to x5
  constant,  // a number
  add,
  sub,
  mul,
  div,
  min,
  max,
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  neg,
  abs,
  sqrt,
  square,
  isnan,
  where,  // of a condition, a value and another one
  pair,   // of two values: a complex number, the last word
};

/// As texts have them, and what device/formulas.cuh calls them.
struct Spelling {
  const char* text;
  const char* type;
  int operands;
};
inline constexpr Spelling kSpellings[] = {
    {"x", "Input", 0},  {"", "Constant", 0},    {"add", "Add", 2},       {"sub", "Sub", 2},     {"mul", "Mul", 2},
    {"div", "Div", 2},  {"min", "Least", 2},    {"max", "Greatest", 2},  {"lt", "Less", 2},     {"le", "LessEqual", 2},
    {"gt", "More", 2},  {"ge", "MoreEqual", 2}, {"eq", "Equal", 2},      {"ne", "Unequal", 2},  {"neg", "Neg", 1},
    {"abs", "Abs", 1},  {"sqrt", "Sqrt", 1},    {"square", "Square", 1}, {"isnan", "IsNan", 1}, {"where", "Where", 3},
    {"pair", "Pair", 2}};

constexpr const Spelling& spelling(Word word) { return kSpellings[static_cast<int>(word)]; }

struct Step {
  Word word;
  uint8_t index = 0;  // of an input or a constant
};

struct Formula {
  std::string text;
  int id = 0;  // in this process, of this text but for its numbers
  std::vector<Step> steps;
  std::vector<double> constants;
  int inputs = 0;  // x0 to x<inputs - 1>, of which some may not occur
  int depth = 0;   // values at hand at the same time, at most
  bool is_pair = false;
  bool needs_floats = false;  // whether integers have no such operation, or there is a constant that is none

  /// As a type of device/formulas.cuh: "Add<Mul<Input<0>, Input<1>>, Input<0>>".
  std::string type() const;
};

/// The formula of a text. Throws std::invalid_argument, which says what is wrong.
std::shared_ptr<const Formula> formula_of(std::string_view text);

}  // namespace reduce_ops::transform
