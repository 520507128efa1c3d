#include <array>
#include <iterator>
#include <string>
#include <string_view>

#include "sum/instance.h"

namespace reduce_ops::sum {
namespace {

/// A template's arguments: $in, $acc and $out are types, $source and $where classes, $0 to $3 numbers, ?0 to ?3 truth
/// values.
struct Form {
  const char* header;
  const char* arguments;
};

constexpr std::array kTemplates = {
    Form{"device/rows.cuh", "sum_warp<$0, $source, $where, $out>"},
    Form{"device/rows.cuh", "sum_block<$0, ?1, $source, $where, $out>"},
    Form{"device/rows.cuh", "sum_small_grid<$0, ?1, $source, $where, $out>"},
    Form{"device/rows.cuh", "sum_grid<$0, ?1, $source, $where, $out>"},
    Form{"device/short_rows.cuh", "sum_tiny_rows<$0, $in, $acc, $out>"},
    Form{"device/short_rows.cuh", "sum_small_rows<$0, $in, $acc, $out>"},
    Form{"device/short_rows.cuh", "sum_staged_rows<$0, $where, $in, $acc, $out>"},
    Form{"device/columns.cuh", "sum_columns<$0, $1, ?2, ?3, $in, $acc, $out>"},
    Form{"device/columns.cuh", "sum_few_rows<$0, $1, $2, ?3, $in, $acc, $out>"},
    Form{"device/narrow_columns.cuh", "sum_narrow_columns<$0, $in, $acc, $out>"},
    Form{"device/across.cuh", "sum_lines<?0, $in, $acc>"},
    Form{"device/word_tiles.cuh", "sum_word_tiles<$0, $in, $acc, $out>"},
    Form{"device/tiles.cuh", "sum_staged_tiles<?0, $in, $acc>"},
    Form{"device/tiles.cuh", "sum_tiles<?0, $in, $acc>"},
    Form{"device/boxes.cuh", "sum_boxes<$in, $acc>"},
};

constexpr std::array kSources = {
    "",
    "sum::Aligned<$in, $acc, $loads>",
    "sum::Shifted<$in, $acc, $loads>",
    "sum::ShiftedInBlock<$in, $acc, $loads>",
    "sum::ShiftedLittle<$in, $acc, $loads>",
    "sum::ShiftedBy<$in, $acc, $loads, 0, sum::Behind::whole>",
    "sum::ShiftedBy<$in, $acc, $loads, 1, sum::Behind::whole>",
    "sum::ShiftedBy<$in, $acc, $loads, 2, sum::Behind::whole>",
    "sum::ShiftedBy<$in, $acc, $loads, 3, sum::Behind::whole>",
    "sum::Runs<$in, $acc, $loads>",
    "sum::SplitRuns<$in, $acc, $loads>",
    "sum::Stepped<$in, $acc, $loads>",
    "sum::Pitched<$in, $acc, $loads>",
    "sum::Strided<$in, $acc, $loads>",
};

/// Of an accumulate type; none for a sum, which accumulates in the type itself.
constexpr std::array kOperatorTypes = {"",     "Mean", "NanSum", "Count", "SumOfAbs", "SumOfSquares", "Norm",
                                       "Root", "Max",  "MaxAbs", "Min",   "MinAbs",   "Variance",     "Deviation"};
static_assert(kOperatorTypes.size() == std::size(kOperatorNames));

void replace(std::string& text, std::string_view word, std::string_view by) {
  for (size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, word.size(), by);
}

}  // namespace

std::string accumulate_name(Operator op, Type accumulate) {
  const std::string type = name_of(accumulate);
  if (op == Operator::sum) return type;
  return std::string("Node<") + kOperatorTypes[static_cast<size_t>(op)] + "<" + type + ">>";
}

jit::Name name_of(const Instance& i) {
  const Form& form = kTemplates[static_cast<size_t>(i.of)];
  std::string expression = std::string("sum::") + form.arguments;
  replace(expression, "$source", kSources[static_cast<size_t>(i.source)]);
  replace(expression, "$where", i.places ? "sum::Places" : "sum::InPlace");
  replace(expression, "$loads", std::to_string(i.loads));
  replace(expression, "$in", name_of(static_cast<Type>(i.in)));
  replace(expression, "$acc", accumulate_name(i.op, static_cast<Type>(i.accumulate)));
  replace(expression, "$out", name_of(static_cast<Type>(i.out)));
  for (int n = 0; n < 4; ++n) {
    replace(expression, "$" + std::to_string(n), std::to_string(i.number[n]));
    replace(expression, "?" + std::to_string(n), i.number[n] != 0 ? "true" : "false");
  }
  return {form.header, expression};
}

}  // namespace reduce_ops::sum
