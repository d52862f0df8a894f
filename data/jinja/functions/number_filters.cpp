#include <cmath>
#include <optional>
#include <string>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/characters.h"

// Jinja's filters of numbers.

namespace tapegrad::data::jinja {
namespace {

// int(text, base) and float(text) of Python's: white space around, _ between digits.
std::optional<String> digits_of(std::string_view text) {
  text = strip_left(strip_right(text));
  count_reading(text);
  String digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  return digits;
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  auto digits = digits_of(text);
  if (!digits) return std::nullopt;
  const bool negative = digits->starts_with('-');
  String rest = digits->substr(negative ? 1 : 0);
  if (rest.starts_with('-')) return std::nullopt;
  for (const auto& [lower, upper, of] :
       {std::tuple("0x", "0X", 16), std::tuple("0o", "0O", 8), std::tuple("0b", "0B", 2)}) {
    if ((base == of || base == 0) && (rest.starts_with(lower) || rest.starts_with(upper))) {
      rest.erase(0, 2);
      base = of;
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) raise("int() base must be >= 2 and <= 36, or 0");
  return number_of<std::int64_t>((negative ? "-" : "") + rest, static_cast<int>(base));
}

std::optional<double> parse_real(std::string_view text) {
  const auto digits = digits_of(text);
  if (!digits) return std::nullopt;
  const String name = lower(*digits);
  for (const bool negative : {false, true}) {
    const String sign = negative ? "-" : "";
    if (name == sign + "inf" || name == sign + "infinity") return negative ? -INFINITY : INFINITY;
    if (name == sign + "nan") return NAN;
  }
  String plain = *digits;
  if (plain.ends_with('.')) plain += '0';
  if (const auto number = number_of<double>(plain)) return number;
  return std::nullopt;
}

std::optional<std::int64_t> whole(double number) {
  if (!(std::fabs(number) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Value to_integer(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "int", {"default", "base"});
  if (const Undefined* undefined = self.undefined()) raise(*undefined);
  if (const auto number = integer_of(self)) return Value(*number);
  std::optional<std::int64_t> made;
  if (const String* text = self.text()) {
    made = parse_integer(*text, given.integer(1, 10));
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
