#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::faults {

// The fault of a message about a broken file or a wrong command line; "" if there is none. The
// file must not control the terminal through it, or fill it.
inline std::string fault_of_form(std::string_view message) {
  constexpr std::size_t most_bytes = 1000;
  constexpr long most_lines = 5;
  if (message.empty()) return "there is no message";
  if (message.size() > most_bytes) return "the message is too long";
  if (std::count(message.begin(), message.end(), '\n') > most_lines) return "too many lines";
  if (find_invalid_utf8(message)) return "the message is not UTF-8";
  for (std::string_view rest = message; !rest.empty();) {
    const Utf8Char c = first_char(rest);
    if ((c.code_point < 0x20 && c.code_point != '\n') ||
        (c.code_point >= 0x7F && c.code_point <= 0x9F)) {
      return "the message has a control character";
    }
    rest.remove_prefix(c.size);
  }
  return "";
}

// The same, and words that a library or the system says, which tell a user nothing.
inline std::string fault_of_message(std::string_view message) {
  for (const std::string_view word : {"[json.exception", "filesystem error:", "Success", "std::",
                                      "basic_string", "vector::", "stoi", "what():", "terminate"}) {
    if (message.find(word) != message.npos) return "the message says " + std::string(word);
  }
  return fault_of_form(message);
}

}  // namespace tapegrad::faults
