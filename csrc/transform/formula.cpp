#include "transform/formula.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <unordered_map>

namespace reduce_ops::transform {
namespace {

[[noreturn]] void refuse(std::string_view word, const std::string& why) {
  throw std::invalid_argument("formula: \"" + std::string(word) + "\" " + why);
}

int index_of_input(std::string_view word) {
  const bool is_one = word.size() == 2 && word[1] >= '0' && word[1] < '0' + kMaxInputs;
  return is_one && word[0] == 'x' ? word[1] - '0' : -1;
}

/// Reads words one by one, and knows how many values there would be.
class Parser {
 public:
  explicit Parser(std::string_view text) { formula_.text = text; }

  void add(std::string_view word) {
    if (formula_.is_pair) refuse(word, "is behind pair; accepted is nothing");
    if (formula_.steps.size() == kMaxSteps) refuse(word, "is one word too many; accepted are up to 256");
    if (const int input = index_of_input(word); input >= 0) {
      formula_.inputs = std::max(formula_.inputs, input + 1);
      return push({Word::input, static_cast<uint8_t>(input)}, 0);
    }
    const auto* const begin = std::begin(kSpellings) + static_cast<int>(Word::add);
    const auto* const found =
        std::find_if(begin, std::end(kSpellings), [word](const Spelling& s) { return s.text == word; });
    if (found == std::end(kSpellings)) return add_constant(word);
    const auto which = static_cast<Word>(found - std::begin(kSpellings));
    if (values_ < found->operands) refuse(word, "lacks a value; accepted is postfix notation");
    formula_.is_pair = which == Word::pair;
    formula_.needs_floats |= which == Word::div || which == Word::sqrt || which == Word::pair;
    push({which}, found->operands);
  }

  Formula finish() {
    if (values_ != 1)
      throw std::invalid_argument("formula: it leaves " + std::to_string(values_) + " values; accepted is one");
    return std::move(formula_);
  }

 private:
  void add_constant(std::string_view word) {
    const std::string text(word);
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = end == text.c_str() + text.size() && std::isfinite(value);
    if (!is_number) refuse(word, "is unknown; accepted are x0 to x5, finite numbers, and the names of operations");
    if (formula_.constants.size() == kMaxConstants) refuse(word, "is one number too many; accepted are up to 8");
    const bool is_integer = value == std::floor(value) && std::fabs(value) < 0x1p53;
    formula_.needs_floats |= !is_integer || text.find_first_of(".p") != std::string::npos;
    push({Word::constant, static_cast<uint8_t>(formula_.constants.size())}, 0);
    formula_.constants.push_back(value);
  }

  void push(Step step, int operands) {
    values_ += 1 - operands;
    formula_.depth = std::max(formula_.depth, values_ + (operands > 1 ? operands - 1 : 0));
    if (formula_.depth > kMaxDepth) {
      throw std::invalid_argument("formula: it is nested too deeply; accepted are up to 12 values at a time");
    }
    formula_.steps.push_back(step);
  }

  Formula formula_;
  int values_ = 0;
};

Formula parse(std::string_view text) {
  Parser parser(text);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) parser.add(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parser.finish();
}

}  // namespace

std::string Formula::type() const {
  std::vector<std::string> values;
  for (const Step& step : steps) {
    const Spelling& s = spelling(step.word);
    std::string type = std::string(s.type) + "<";
    if (s.operands == 0) type += std::to_string(step.index);
    const auto first = values.end() - s.operands;
    for (auto value = first; value != values.end(); ++value) type += (value == first ? "" : ", ") + *value;
    values.erase(first, values.end());
    values.push_back(type + ">");
  }
  return values.back();
}

const Formula& formula_of(std::string_view text) {
  static std::shared_mutex mutex;
  static auto* const known = new std::unordered_map<std::string_view, std::unique_ptr<Formula>>;
  {
    const std::shared_lock<std::shared_mutex> lock(mutex);
    if (const auto found = known->find(text); found != known->end()) return *found->second;
  }
  auto formula = std::make_unique<Formula>(parse(text));
  const std::unique_lock<std::shared_mutex> lock(mutex);
  formula->id = static_cast<int>(known->size());
  const std::string_view key = formula->text;  // which lives as long as the formula
  return *known->emplace(key, std::move(formula)).first->second;
}

}  // namespace reduce_ops::transform
