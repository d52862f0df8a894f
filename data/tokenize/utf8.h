#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tapegrad::data {

// What stands at the beginning of some bytes:
// - valid: a whole character, `size` bytes long;
// - invalid: `size` bytes that no character contains. Where several bytes begin a character that
//   then breaks off, they count as one, as the Unicode standard recommends (3.9, U+FFFD);
// - incomplete: all the bytes, which are the beginning of a character.
struct Utf8Char {
  enum class Kind { valid, invalid, incomplete };
  Kind kind;
  size_t size;
  char32_t code_point;  // 0 unless valid
};

// `bytes` must not be empty.
Utf8Char first_char(std::string_view bytes);

// The offset of the first byte that is not part of valid UTF-8.
std::optional<size_t> find_invalid_utf8(std::string_view text);

// The text after U+FEFF, with which some programs mark the beginning of UTF-8; or all of it.
std::string_view without_byte_order_mark(std::string_view text);

std::string to_utf8(char32_t code_point);

// For messages: "'é' (U+00E9)", or "U+0007" for what has no shape of its own.
std::string describe_char(char32_t code_point);

// Makes text of bytes that arrive in pieces, such as the bytes of one token after the other,
// without ever passing on a part of a character. Bytes that are not UTF-8 become U+FFFD.
class Utf8Stream {
 public:
  // The characters that `bytes` complete.
  std::string push(std::string_view bytes);
  // What is left at the end: nothing, or one U+FFFD for a character that broke off.
  std::string flush();

 private:
  std::string pending_;  // at most three bytes
};

}  // namespace tapegrad::data
