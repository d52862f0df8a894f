#pragma once

#include <string>
#include <string_view>

namespace tapegrad::inspect {

inline constexpr std::size_t kMostTokenText = 64;  // bytes of token_text()

// A token's bytes for people: valid UTF-8 of at most kMostTokenText bytes. Bytes that are no whole
// character become "<0xE2>", and characters that would control a terminal or the direction of text
// "<U+001B>"; line breaks and tabs stay. What is left out of a long token becomes "…".
std::string token_text(std::string_view bytes);
// The same in quotes on one line: ' ', '\n'.
std::string quoted_token(std::string_view bytes);

}  // namespace tapegrad::inspect
