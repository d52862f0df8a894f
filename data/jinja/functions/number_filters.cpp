#include <cmath>
#include <optional>
#include <string>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/characters.h"

// Jinja's filters of numbers.

namespace tapegrad::data::jinja {
namespace {

// True for a number with _ between digits.
bool has_marked_digits(std::string_view text) {
  String plain;
  bool marked = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    const bool mark = text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1);
    marked = marked || mark;
    if (!mark) plain += text[i];
  }
  return marked && number_of<double>(plain);
}

// The text of a number as int() and float() of Python's take it: with white space around. Other
// forms that they take are refused.
std::string_view number_text(std::string_view text) {
  text = strip_left(strip_right(text));
  count_reading(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  if (has_marked_digits(text)) raise("the number '{}' is not supported", text);
  return text;
}

std::optional<double> parse_real(std::string_view text) {
  text = number_text(text);
  if (text.ends_with('.')) text.remove_suffix(1);  // "1." is a number, and "." and "1.." are none
  return text.ends_with('.') ? std::nullopt : number_of<double>(text);
}

std::optional<std::int64_t> whole(double number) {
  if (!(std::fabs(number) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Value to_integer(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "int", {"default"});
  if (const Undefined* undefined = self.undefined()) raise(*undefined);
  if (const auto number = integer_of(self)) return Value(*number);
  std::optional<std::int64_t> made;
  if (const String* text = self.text()) {
    made = number_of<std::int64_t>(number_text(*text));
    const auto real = made ? std::nullopt : parse_real(*text);
    if (real) made = whole(*real);
  } else if (const double* number = self.real()) {
    made = whole(*number);
  }
  if (made) return Value(*made);
  return given.has(0) ? given[0] : Value(std::int64_t{0});
}

Value to_real(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "float", {"default"});
  if (const Undefined* undefined = self.undefined()) raise(*undefined);
  if (const auto number = real_of(self)) return Value(*number);
  const auto made = self.is_text() ? parse_real(*self.text()) : std::nullopt;
  if (made) return Value(*made);
  return given.has(0) ? given[0] : Value(0.0);
}

constexpr NamedFunction kNumberFilters[] = {{"int", to_integer}, {"float", to_real}};

}  // namespace

std::span<const NamedFunction> number_filters() { return kNumberFilters; }

}  // namespace tapegrad::data::jinja
