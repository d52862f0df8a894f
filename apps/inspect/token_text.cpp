#include "tapegrad/apps/inspect/token_text.h"

#include <fmt/format.h>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::inspect {
namespace {

constexpr std::string_view kMore = "…";

bool controls(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return first <= c && c <= last; };
  if (c == U'\n' || c == U'\t') return false;
  return c < 0x20 || within(0x7F, 0x9F) || within(0x200B, 0x200F) || within(0x2028, 0x202E) ||
         within(0x2060, 0x206F) || within(0xFFF9, 0xFFFB) || within(0xE0000, 0xE007F) ||
         c == 0xAD || c == 0x61C || c == 0x180E || c == 0xFEFF;
}

std::string shown(std::string_view bytes, const Utf8Char& c) {
  if (c.kind == Utf8Char::Kind::valid) {
    if (controls(c.code_point)) {
      return fmt::format("<U+{:04X}>", static_cast<std::uint32_t>(c.code_point));
    }
    return std::string(bytes.substr(0, c.size));
  }
  std::string text;
  for (const char byte : bytes.substr(0, c.size)) {
    text += fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte));
  }
  return text;
}

}  // namespace

std::string token_text(std::string_view bytes) {
  std::string text;
  std::size_t most_before_more = 0;  // bytes of text behind which "…" has room
  while (!bytes.empty()) {
    const Utf8Char c = first_char(bytes);
    text += shown(bytes, c);
    bytes.remove_prefix(c.size);
    if (text.size() > kMostTokenText) return text.substr(0, most_before_more).append(kMore);
    if (text.size() + kMore.size() <= kMostTokenText) most_before_more = text.size();
  }
  return text;
}

std::string quoted_token(std::string_view bytes) {
  std::string text = "'";
  for (const char c : token_text(bytes)) {
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else {
      text += c;
    }
  }
  return text + "'";
}

}  // namespace tapegrad::inspect
