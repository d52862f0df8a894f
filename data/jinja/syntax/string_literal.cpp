#include "tapegrad/data/jinja/syntax/internal/string_literal.h"

#include <optional>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {
namespace {

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

constexpr std::string_view kEscapes = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";

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
    } else if (escaped == 'N' || (escaped >= '0' && escaped <= '7') || !is_ascii(escaped)) {
      raise("'\\{}' in a text is not supported", text.substr(0, first_char(text).size));
    } else {
      made += '\\';
    }
  }
  return made;
}

}  // namespace tapegrad::data::jinja
