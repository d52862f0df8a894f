#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tapegrad {

// The most bytes of somebody else's text that a message quotes: a client's, or a template's.
inline constexpr std::size_t kMostQuoted = 800;

// The beginning of a text with … behind it, if it is longer than `most` bytes; else the text. No
// character of UTF-8 is cut.
inline std::string cut_text(std::string_view text, std::size_t most = kMostQuoted) {
  if (text.size() <= most) return std::string(text);
  constexpr std::string_view kMore = "…";
  std::size_t end = most > kMore.size() ? most - kMore.size() : 0;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)).append(kMore);
}

}  // namespace tapegrad
