#include "tapegrad/base/text/number_text.h"

#include <charconv>
#include <cstdint>
#include <type_traits>

namespace tapegrad {

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

}  // namespace tapegrad
