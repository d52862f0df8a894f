#include "tapegrad/data/tokenize/bpe/internal/byte_alphabet.h"

#include <algorithm>
#include <numeric>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {

namespace {

constexpr std::size_t kPrintable = 188, kCharacters = 256 + 68;

bool is_printable_latin1(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// The character that shows each byte.
const std::array<char32_t, 256>& characters_of_bytes() {
  static const auto table = [] {
    std::array<char32_t, 256> characters{};
    for (std::size_t i = 0; i < 256; ++i) {
      const std::uint8_t byte = gpt2_byte_order()[i];
      characters[byte] = static_cast<char32_t>(i < kPrintable ? byte : 256 + (i - kPrintable));
    }
    return characters;
  }();
  return table;
}

// The byte that each character shows, or -1.
const std::array<int, kCharacters>& bytes_of_characters() {
  static const auto table = [] {
    std::array<int, kCharacters> bytes{};
    bytes.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      bytes[characters_of_bytes()[static_cast<std::size_t>(byte)]] = byte;
    }
    return bytes;
  }();
  return table;
}

}  // namespace

const std::array<std::uint8_t, 256>& gpt2_byte_order() {
  static const auto order = [] {
    std::array<std::uint8_t, 256> bytes{};
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    std::stable_partition(bytes.begin(), bytes.end(), is_printable_latin1);
    return bytes;
  }();
  return order;
}

std::optional<std::string> bytes_of_shown(std::string_view shown) {
  std::string bytes;
  while (!shown.empty()) {
    const Utf8Char c = first_char(shown);
    if (c.kind != Utf8Char::Kind::valid || c.code_point >= kCharacters) return std::nullopt;
    const int byte = bytes_of_characters()[c.code_point];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    shown.remove_prefix(c.size);
  }
  return bytes;
}

std::string shown_bytes(std::string_view bytes) {
  std::string shown;
  for (const char byte : bytes) {
    shown += to_utf8(characters_of_bytes()[static_cast<unsigned char>(byte)]);
  }
  return shown;
}

}  // namespace tapegrad::data
