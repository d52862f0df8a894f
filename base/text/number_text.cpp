#include "tapegrad/base/text/internal/number_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <type_traits>

namespace tapegrad {
namespace {

// "10_000" without its underscores, which stand between digits.
std::string without_separators(std::string_view text) {
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_' || i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) plain += text[i];
  }
  return plain;
}

// "1500" for "1.5e3": a number with an exponent, written out. Nothing if it is not whole, or has
// more digits than any T.
std::optional<std::string> written_out(std::string_view text) {
  const std::size_t e = text.find_first_of("eE");
  if (e == text.npos) return std::nullopt;
  std::string_view exponent_text = text.substr(e + 1);
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  const auto exponent = number_of<int>(exponent_text);
  std::string digits(text.substr(0, e));
  const std::size_t point = std::min(digits.find('.'), digits.size());
  if (point < digits.size()) digits.erase(point, 1);
  if (digits.find_first_of("0123456789") == digits.npos) return std::nullopt;
  constexpr int most_digits = 40;
  if (!exponent || *exponent < 0 || *exponent > most_digits || digits.size() > most_digits) {
    return std::nullopt;
  }
  const std::size_t size = point + static_cast<std::size_t>(*exponent);
  if (size < digits.size() && digits.find_first_not_of('0', size) != digits.npos) {
    return std::nullopt;
  }
  digits.resize(size, '0');
  return digits;
}

}  // namespace

template <class T>
std::optional<T> take_number(std::string_view& text, int base) {
  T value{};
  const char* const end = text.data() + text.size();
  std::from_chars_result parsed;
  if constexpr (std::is_floating_point_v<T>) {
    parsed = std::from_chars(text.data(), end, value);
  } else {
    parsed = std::from_chars(text.data(), end, value, base);
  }
  if (parsed.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return value;
}

template <class T>
std::optional<T> number_of(std::string_view text, int base) {
  const std::optional<T> number = take_number<T>(text, base);
  return text.empty() ? number : std::nullopt;
}

template <class T>
std::optional<T> whole_number_of(std::string_view text) {
  const std::string plain = without_separators(text);
  return number_of<T>(written_out(plain).value_or(plain));
}

template std::optional<int> take_number(std::string_view&, int);
template std::optional<unsigned> take_number(std::string_view&, int);
template std::optional<std::int64_t> take_number(std::string_view&, int);
template std::optional<std::uint64_t> take_number(std::string_view&, int);
template std::optional<double> take_number(std::string_view&, int);
template std::optional<int> number_of(std::string_view, int);
template std::optional<unsigned> number_of(std::string_view, int);
template std::optional<std::int64_t> number_of(std::string_view, int);
template std::optional<std::uint64_t> number_of(std::string_view, int);
template std::optional<double> number_of(std::string_view, int);
template std::optional<int> whole_number_of(std::string_view);
template std::optional<std::int64_t> whole_number_of(std::string_view);
template std::optional<std::uint64_t> whole_number_of(std::string_view);

}  // namespace tapegrad
