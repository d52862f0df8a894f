#include "tapegrad/data/tokenize/train/internal/word_characters.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

// Calls found(character) for each, in order; "" for bytes that are no character, and for NUL, which
// no merge of a file can have.
template <class Found>
void each_character(std::string_view text, const Found& found) {
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const bool is_one = c.kind == Utf8Char::Kind::valid && c.code_point != 0;
    found(is_one ? text.substr(0, c.size) : std::string_view());
    text.remove_prefix(c.size);
  }
}

CountedWords in_order(const std::unordered_map<std::string, std::int64_t>& counts) {
  CountedWords words(counts.begin(), counts.end());
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace

CountedWords marked_words(const PieceCounts& pieces) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const auto& [piece, count] : pieces.counts()) {
    std::string word;
    for (const char c : piece) c == ' ' ? word.append(kSpaceMark) : word.append(1, c);
    counts[word] += count;
  }
  return in_order(counts);
}

std::vector<std::string> frequent_characters(const CountedWords& words, double share,
                                             std::string_view needed) {
  std::map<std::string, std::int64_t, std::less<>> counts;
  std::int64_t all = 0;
  for (const auto& [word, count] : words) {
    const std::int64_t weight = count;
    each_character(word, [&](std::string_view character) {
      if (character.empty()) return;
      const auto found = counts.find(character);
      (found == counts.end() ? counts[std::string(character)] : found->second) += weight;
      all += weight;
    });
  }
  std::vector<std::pair<std::string, std::int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> characters;
  std::unordered_set<std::string> has;
  const auto add = [&](std::string_view character) {
    if (has.emplace(character).second) characters.emplace_back(character);
  };
  std::int64_t covered = 0;
  for (const auto& [character, count] : order) {
    if (static_cast<double>(covered) >= share * static_cast<double>(all)) break;
    covered += count;
    add(character);
  }
  each_character(needed, add);
  return characters;
}

CountedWords words_of_characters(const CountedWords& words,
                                 std::span<const std::string> characters) {
  const std::unordered_set<std::string> known(characters.begin(), characters.end());
  std::unordered_map<std::string, std::int64_t> counts;
  for (const auto& [word, count] : words) {
    std::string part;
    const std::int64_t weight = count;
    const auto end_part = [&] {
      if (!part.empty()) counts[part] += weight;
      part.clear();
    };
    each_character(word, [&](std::string_view character) {
      if (known.count(std::string(character)) > 0) {
        part += character;
      } else {
        end_part();
      }
    });
    end_part();
  }
  return in_order(counts);
}

}  // namespace tapegrad::data
