#include "tapegrad/data/tokenize/gpt2_merges.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tapegrad/data/tokenize/utf8.h"

namespace tapegrad::embedded {
std::string_view gpt2_merges();
}

namespace tapegrad::data {

namespace {

bool is_printable_latin1(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// The file writes each byte as a character: a printable one as itself, the other 68 as U+0100,
// U+0101 … in ascending order. This table gives the byte of each such character.
std::array<std::uint8_t, 256 + 68> bytes_of_characters() {
  std::array<std::uint8_t, 256 + 68> bytes{};
  for (std::size_t i = 0; i < 256; ++i) {
    const std::uint8_t byte = gpt2_byte_order()[i];
    bytes[i < 188 ? byte : 256 + (i - 188)] = byte;
  }
  return bytes;
}

std::string decode_shown(std::string_view shown) {
  static const auto byte_of = bytes_of_characters();
  std::string bytes;
  while (!shown.empty()) {
    const Utf8Char c = first_char(shown);
    bytes += static_cast<char>(byte_of.at(c.code_point));
    shown.remove_prefix(c.size);
  }
  return bytes;
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

std::vector<Merge> gpt2_merges() {
  std::unordered_map<std::string, Token> token_of;
  for (const std::uint8_t byte : gpt2_byte_order()) {
    token_of.emplace(std::string(1, static_cast<char>(byte)), static_cast<Token>(token_of.size()));
  }
  std::vector<Merge> merges;
  std::string_view lines = embedded::gpt2_merges();
  lines.remove_prefix(lines.find('\n') + 1);  // the first line is the version
  for (std::size_t end = 0; (end = lines.find('\n')) != std::string_view::npos;
       lines.remove_prefix(end + 1)) {
    const std::string_view line = lines.substr(0, end);
    const std::size_t space = line.find(' ');
    const std::string left = decode_shown(line.substr(0, space));
    const std::string right = decode_shown(line.substr(space + 1));
    merges.emplace_back(token_of.at(left), token_of.at(right));
    token_of.emplace(left + right, static_cast<Token>(token_of.size()));
  }
  return merges;
}

}  // namespace tapegrad::data
