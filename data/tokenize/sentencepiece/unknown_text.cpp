#include "tapegrad/data/tokenize/sentencepiece/internal/unknown_text.h"

#include <charconv>

namespace tapegrad::data {

std::optional<std::uint8_t> byte_of_shown(std::string_view shown) {
  if (shown.size() != 6 || !shown.starts_with("<0x") || shown.back() != '>') return std::nullopt;
  const std::string_view digits = shown.substr(3, 2);
  std::uint8_t byte = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

}  // namespace tapegrad::data
