#pragma once

#include <string_view>

namespace tapegrad::data {

inline constexpr std::string_view kSpaces = " \t\r\n";
inline bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }

inline std::string_view without_space_at_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}
inline std::string_view without_space(std::string_view text) {
  text = without_space_at_end(text);
  return text.empty() ? text : text.substr(text.find_first_not_of(kSpaces));
}

// Of the names of functions and of their arguments.
inline bool is_name_character(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace tapegrad::data
