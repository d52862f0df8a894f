#include "tapegrad/data/jinja/syntax/internal/string_literal.h"

#include <optional>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {
namespace {

constexpr std::string_view kEscapes = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";

// A character that is not ASCII behind a backslash: Jinja writes it as an escape first, of which
// that backslash makes plain text.
std::string escape_of(char32_t c) {
  const auto code = static_cast<unsigned>(c);
  return code < 0x100     ? fmt::format("x{:02x}", code)
         : code < 0x10000 ? fmt::format("u{:04x}", code)
                          : fmt::format("U{:08x}", code);
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

std::string unescaped(std::string_view text) {
  std::string made;
  const auto add_code = [&](std::size_t digits) {
    const auto code =
        text.size() >= digits ? number_of<std::uint64_t>(text.substr(0, digits), 16) : std::nullopt;
    if (!code || *code > 0x10FFFF) raise("truncated or illegal escape in a text");
    if (*code >= 0xD800 && *code <= 0xDFFF) raise("half a surrogate pair in a text");
    made += to_utf8(static_cast<char32_t>(*code));
    text.remove_prefix(digits);
  };
  while (!text.empty()) {
    const char c = text[0];
    text.remove_prefix(1);
    if (c != '\\' || text.empty()) {
      made += c;
      continue;
    }
    const char escaped = text[0];
    if (const auto at = kEscapes.find(escaped); at != kEscapes.npos) {
      made += kMeanings[at];
      text.remove_prefix(1);
    } else if (escaped == '\n') {
      text.remove_prefix(1);
    } else if (escaped == 'x' || escaped == 'u' || escaped == 'U') {
      text.remove_prefix(1);
      add_code(escaped == 'x' ? 2 : escaped == 'u' ? 4 : 8);
    } else if (is_octal(escaped)) {
      unsigned code = 0;
      for (int i = 0; i < 3 && !text.empty() && is_octal(text[0]); ++i) {
        code = code * 8 + static_cast<unsigned>(text[0] - '0');
        text.remove_prefix(1);
      }
      made += to_utf8(code);
    } else if (escaped == 'N') {
      raise("characters by their names (\\N) are not known here");
    } else {
      made += '\\';
      if (static_cast<unsigned char>(escaped) >= 0x80) {
        const Utf8Char character = first_char(text);
        made += escape_of(character.code_point);
        text.remove_prefix(character.size);
      }
    }
  }
  return made;
}

}  // namespace tapegrad::data::jinja
