#pragma once

#include <string_view>

namespace tapegrad {

// The white space of JSON, and of what models write between marks.
inline constexpr std::string_view kSpaces = " \t\r\n";
inline bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }

inline std::string_view without_space_at_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}
inline std::string_view without_space_before(std::string_view text) {
  const auto first = text.find_first_not_of(kSpaces);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}
inline std::string_view without_space(std::string_view text) {
  return without_space_before(without_space_at_end(text));
}

}  // namespace tapegrad
