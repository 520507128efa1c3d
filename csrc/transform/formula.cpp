#include "transform/formula.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <mutex>
#include <optional>
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
    const auto value = number(word);
    if (!value) refuse(word, "is unknown; accepted are x0 to x5, finite numbers, and the names of operations");
    const bool is_integer = *value == std::floor(*value) && std::fabs(*value) < 0x1p53;
    formula_.needs_floats |= !is_integer || word.find_first_of(".p") != std::string_view::npos;
    std::vector<double>& all = formula_.constants;
    const auto same = [x = *value](double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); };
    const auto at = std::find_if(all.begin(), all.end(), same) - all.begin();
    if (at == kMaxConstants) refuse(word, "is one number too many; accepted are up to 8");
    if (at == static_cast<int64_t>(all.size())) all.push_back(*value);
    push({Word::constant, static_cast<uint8_t>(at)}, 0);
  }

  /// A decimal number, or a hexadecimal one as float.hex() of Python writes it; whatever the locale.
  static std::optional<double> number(std::string_view word) {
    const bool negative = word.starts_with('-');
    std::string_view digits = word.substr(negative ? 1 : 0);
    const bool hexadecimal = digits.starts_with("0x");
    if (hexadecimal) digits.remove_prefix(2);
    double value = 0;
    const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
    const bool is_one = error == std::errc() && end == digits.data() + digits.size() && std::isfinite(value);
    if (!is_one || digits.starts_with('-')) return std::nullopt;
    return negative ? -value : value;
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

std::shared_ptr<const Formula> formula_of(std::string_view text) {
  constexpr size_t kMost = 1024;  // texts that are remembered, for numbers in them may change from call to call
  static std::shared_mutex mutex;
  static auto* const known = new std::unordered_map<std::string, std::shared_ptr<const Formula>>;
  static auto* const ids = new std::unordered_map<std::string, int>;  // by type, which has no numbers
  const std::string key(text);
  {
    const std::shared_lock<std::shared_mutex> lock(mutex);
    if (const auto found = known->find(key); found != known->end()) return found->second;
  }
  auto formula = std::make_shared<Formula>(parse(text));
  const std::unique_lock<std::shared_mutex> lock(mutex);
  formula->id = ids->try_emplace(formula->type(), static_cast<int>(ids->size())).first->second;
  if (known->size() == kMost) known->clear();
  return known->emplace(key, std::move(formula)).first->second;
}

}  // namespace reduce_ops::transform
