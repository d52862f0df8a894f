#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The beginning of some bytes:
// - valid: a whole character of `size` bytes;
// - invalid: `size` bytes that are not part of any character. Several bytes that begin a character
//   and then break off count as one, as the Unicode standard recommends (3.9, U+FFFD);
// - incomplete: all the bytes are the beginning of a character, whose rest is missing.
struct Utf8Char {
  enum class Kind { valid, invalid, incomplete };
  Kind kind;
  std::size_t size;
  char32_t code_point;  // 0 unless valid
};

// `bytes` must not be empty.
Utf8Char first_char(std::string_view bytes);

// The offset of the first byte that is not part of valid UTF-8.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// The text without the byte order mark (U+FEFF) that some programs write at the start of a file.
std::string_view without_byte_order_mark(std::string_view text);

std::string to_utf8(char32_t code_point);

// For messages: "'é' (U+00E9)", or "U+0007" for a character that cannot be seen.
std::string describe_char(char32_t code_point);

// True if a character moves the cursor, colours the text or changes the order of what follows.
bool controls_terminal(char32_t code_point);

// Turns bytes that arrive in pieces, such as token by token, into text: a character is returned
// when its last byte has arrived. Bytes that are not UTF-8 become U+FFFD.
class Utf8Stream {
 public:
  // Returns the characters that `bytes` complete.
  std::string push(std::string_view bytes);
  // Ends the stream. Returns U+FFFD if a character is incomplete, and "" otherwise.
  std::string flush();

 private:
  std::string pending_;  // at most three bytes
};

}  // namespace tapegrad
