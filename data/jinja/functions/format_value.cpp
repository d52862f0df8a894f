#include "tapegrad/data/jinja/functions/format_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tapegrad/base/text/number_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/characters.h"
#include "tapegrad/data/jinja/operators.h"
#include "tapegrad/data/jinja/python_text.h"

namespace tapegrad::data::jinja {
namespace {

constexpr std::int64_t kMostWidth = 1'000'000;

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  const std::size_t first = byte_of(text, 1);
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const auto take = [&](auto& place) {
    place = text[0];
    text.remove_prefix(1);
  };
  if (text.size() > first && is_align(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    text.remove_prefix(first);
    take(spec.align);
  } else if (!text.empty() && is_align(text[0])) {
    take(spec.align);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) take(spec.sign);
  if (text.starts_with('#')) {
    spec.alternate = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('0')) {
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    text.remove_prefix(1);
  }
  if (begins_with_digit(text)) spec.width = take_count(text);
  if (text.starts_with(',') || text.starts_with('_')) take(spec.grouping);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!begins_with_digit(text)) raise("Format specifier missing precision");
    spec.precision = take_count(text);
  }
  if (!text.empty()) take(spec.type);
  if (!text.empty()) raise("Invalid format specifier");
  return spec;
}

std::string padded(Run& run, std::string text, std::string_view sign, const FormatSpec& spec,
                   char align) {
  const auto size = static_cast<std::int64_t>(character_count(text) + sign.size());
  const auto more = static_cast<std::size_t>(std::max<std::int64_t>(spec.width - size, 0));
  run.will_make(text.size() + more * spec.fill.size() + 1);
  const auto fill = [&](std::size_t count) {
    std::string made;
    for (std::size_t i = 0; i < count; ++i) made += spec.fill;
    return made;
  };
  if (spec.align != 0) align = spec.align;
  const std::string signed_text = std::string(sign) + text;
  if (align == '<') return signed_text + fill(more);
  if (align == '^') return fill(more / 2) + signed_text + fill(more - more / 2);
  if (align == '=') return std::string(sign) + fill(more) + text;
  return fill(more) + signed_text;
}

std::string grouped(const std::string& digits, char mark) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string made = digits;
  for (std::size_t at = end; at > 3; at -= 3) made.insert(at - 3, 1, mark);
  return made;
}

// As C's %e, %f and %g, of a number without its sign.
std::string real_digits(double number, char type, std::int64_t precision, bool alternate) {
  const int digits = static_cast<int>(precision < 0 ? 6 : precision);
  switch (type) {
    case 'e':
      return alternate ? fmt::format("{:#.{}e}", number, digits)
                       : fmt::format("{:.{}e}", number, digits);
    case 'E':
      return fmt::format("{:.{}E}", number, digits);
    case 'g':
      return fmt::format("{:.{}g}", number, std::max(digits, 1));
    case 'G':
      return fmt::format("{:.{}G}", number, std::max(digits, 1));
    default:
      return alternate ? fmt::format("{:#.{}f}", number, digits)
                       : fmt::format("{:.{}f}", number, digits);
  }
}

std::string sign_of(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? std::string() : std::string(1, sign);
}

bool is_real_type(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos && type != 0;
}

}  // namespace

std::int64_t take_count(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view number = text.substr(0, digits);
  text.remove_prefix(digits);
  const auto value = number_of<std::int64_t>(number);
  if (!value || *value > kMostWidth) raise("Too many decimal digits in format string");
  return *value;
}

bool begins_with_digit(std::string_view text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

std::string format_integer(Run& run, std::int64_t number, const FormatSpec& spec) {
  auto size = static_cast<std::uint64_t>(number);
  if (number < 0) size = 0 - size;
  std::string digits, prefix;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", size), prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", size), prefix = "0X";
      break;
    case 'o':
      digits = fmt::format("{:o}", size), prefix = "0o";
      break;
    case 'b':
      digits = fmt::format("{:b}", size), prefix = "0b";
      break;
    case 'c':
      if (number < 0 || number > 0x10FFFF) raise("%c arg not in range(0x110000)");
      return padded(run, to_utf8(static_cast<char32_t>(number)), "", spec, '<');
    default:
      digits = fmt::format("{}", size);
      break;
  }
  if (spec.grouping != 0) digits = grouped(digits, spec.grouping);
  const std::string sign = sign_of(number < 0, spec.sign) + (spec.alternate ? prefix : "");
  return padded(run, std::move(digits), sign, spec, '>');
}

std::string format_real(Run& run, double number, const FormatSpec& spec) {
  const bool negative = std::signbit(number) && !std::isnan(number);
  const double size = std::fabs(number);
  std::string digits;
  if (!std::isfinite(size)) {
    digits = std::isnan(size) ? "nan" : "inf";
  } else if (spec.type == '%') {
    digits = real_digits(size * 100, 'f', spec.precision, spec.alternate) + "%";
  } else if (spec.type == 0) {
    digits = spec.precision < 0 ? repr_real(size)
                                : real_digits(size, 'g', spec.precision, spec.alternate);
    const bool whole = digits.find_first_not_of("0123456789") == digits.npos;
    if (whole) digits += ".0";
  } else {
    digits = real_digits(size, spec.type, spec.precision, spec.alternate);
  }
  if (spec.grouping != 0) digits = grouped(digits, spec.grouping);
  return padded(run, std::move(digits), sign_of(negative, spec.sign), spec, '>');
}

std::string format_string(Run& run, std::string_view text, const FormatSpec& spec) {
  if (spec.precision >= 0) {
    text = text.substr(0, byte_of(text, static_cast<std::size_t>(spec.precision)));
  }
  return padded(run, std::string(text), "", spec, '<');
}

std::string formatted(Run& run, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return str(run, value);
  const FormatSpec spec = parse_spec(spec_text);
  if (value.is_text() && (spec.type == 0 || spec.type == 's')) {
    return format_string(run, *value.text(), spec);
  }
  const auto integer = integer_of(value);
  const bool of_integers = std::string_view("bcdnoxX").find(spec.type) != std::string_view::npos;
  if (integer && (spec.type == 0 || of_integers)) return format_integer(run, *integer, spec);
  const auto number = real_of(value);
  if (number && (is_real_type(spec.type) || (!integer && spec.type == 0))) {
    return format_real(run, *number, spec);
  }
  if (spec.type == 0 && !number) {
    raise("unsupported format string passed to {}.__format__", type_name(value));
  }
  raise("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
}

}  // namespace tapegrad::data::jinja
