#include "tapegrad/data/tokenize/sentencepiece/charsmap.h"

#include <utf8proc.h>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i > 0; --i) {
    number = number << 8 | static_cast<std::uint8_t>(bytes[at + i - 1]);
  }
  return number;
}

// A unit of the double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t label(std::uint32_t unit) { return unit & (std::uint32_t{1} << 31 | 0xFF); }
std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 1 << 9) >> 6); }
std::uint32_t value(std::uint32_t unit) { return unit & ~(std::uint32_t{1} << 31); }

constexpr std::size_t kMostKeyBytes = 64;  // SentencePiece's own rules have up to 16

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  check(bytes.size() >= 4, "the rules of a normalizer have {} bytes, too few", bytes.size());
  const std::size_t size = number_at(bytes, 0);
  check(size % 4 == 0 && size >= 4 && size <= bytes.size() - 4,
        "the rules of a normalizer have {} bytes, of which {} cannot be an array", bytes.size(),
        size);
  for (std::size_t at = 4; at < 4 + size; at += 4) units_.push_back(number_at(bytes, at));
  texts_ = bytes.substr(4 + size);
  check(!find_invalid_utf8(texts_), "the rules of a normalizer make a text that is not UTF-8");
  for (std::size_t at = 0; at < texts_.size();) {
    const std::size_t end = std::min(texts_.find('\0', at), texts_.size());
    check(end - at <= kMostTextBytes,
          "the rules of a normalizer make a text of {} bytes; {} are the most", end - at,
          +kMostTextBytes);
    at = end + 1;
  }
}

std::optional<Charsmap::Rule> Charsmap::find(std::string_view text, bool shortest) const {
  std::optional<Rule> found;
  std::size_t node = offset(units_[0]);
  // A broken array may lead in circles, or end within a character.
  const std::size_t most = std::min(text.size(), kMostKeyBytes);
  for (std::size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label(units_[node]) != byte) break;
    const bool leaf = has_leaf(units_[node]);
    node ^= offset(units_[node]);
    if (node >= units_.size()) break;
    const bool within_character =
        i + 1 < text.size() && (static_cast<std::uint8_t>(text[i + 1]) & 0xC0) == 0x80;
    if (!leaf || within_character) continue;
    const std::size_t begin = value(units_[node]);
    if (begin > texts_.size()) break;
    const std::size_t end = std::min(texts_.find('\0', begin), texts_.size());
    // A broken array may point into the middle of a character.
    const std::string_view rule = std::string_view(texts_).substr(begin, end - begin);
    if (find_invalid_utf8(rule)) break;
    found = Rule{i + 1, rule};
    if (shortest) break;
  }
  return found;
}

std::string Charsmap::by_clusters(std::string_view text) const {
  constexpr std::size_t most_bytes = 5;
  std::string made;
  made.reserve(text.size());
  const auto append_cluster = [&](std::string_view cluster) {
    if (cluster.size() <= most_bytes) {
      if (const auto rule = shortest(cluster)) {
        made += rule->text;
        return;
      }
    }
    while (!cluster.empty()) {
      const std::string_view character = cluster.substr(0, first_char(cluster).size);
      const auto rule = shortest(character);
      made += rule ? rule->text : character;
      cluster.remove_prefix(character.size());
    }
  };
  utf8proc_int32_t state = 0, before = -1;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = first_char(text.substr(at));
    const auto code = static_cast<utf8proc_int32_t>(c.code_point);
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, code, &state)) {
      append_cluster(text.substr(begin, at - begin));
      begin = at;
    }
    before = code;
    at += c.size;
  }
  append_cluster(text.substr(begin));
  return made;
}

}  // namespace tapegrad::data
