#include "tapegrad/data/tokenize/train/internal/unigram_seeds.h"

#include <algorithm>
#include <string_view>

namespace tapegrad::data {
namespace {

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_inside_character(c); }));
}

// The end of a word, from a character on, cut to the longest piece.
struct Suffix {
  std::string_view text;
  std::int64_t count;
};

std::vector<Suffix> sorted_suffixes(const CountedWords& words) {
  std::vector<Suffix> suffixes;
  for (const auto& [word, count] : words) {
    const std::string_view text = word;
    std::vector<std::size_t> begins;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (!is_inside_character(text[at])) begins.push_back(at);
    }
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const std::size_t end =
          i + kMostPieceCharacters < begins.size() ? begins[i + kMostPieceCharacters] : text.size();
      suffixes.push_back({text.substr(begins[i], end - begins[i]), count});
    }
  }
  std::sort(suffixes.begin(), suffixes.end(),
            [](const Suffix& a, const Suffix& b) { return a.text < b.text; });
  return suffixes;
}

// The bytes of the whole characters that both begin with.
std::size_t common_prefix(std::string_view a, std::string_view b) {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t size = 0;
  while (size < most && a[size] == b[size]) ++size;
  const auto cuts = [&](std::string_view text) {
    return size < text.size() && is_inside_character(text[size]);
  };
  while (size > 0 && (cuts(a) || cuts(b))) --size;
  return size;
}

}  // namespace

// Suffixes that begin with the same text are neighbours: an interval of the array. Intervals lie in
// each other, and are kept on a stack while the array is read (Abouelhoda, Kurtz, Ohlebusch 2004,
// "Replacing suffix trees with enhanced suffix arrays", section 3).
std::vector<SeedPiece> frequent_substrings(const CountedWords& words, std::size_t most) {
  struct Interval {
    std::size_t size;     // bytes of the text
    std::int64_t before;  // occurrences of all suffixes before the first one
    std::size_t suffix;   // one that begins with the text
  };
  struct Found {
    std::string_view text;
    std::int64_t count, score;
  };
  const std::vector<Suffix> suffixes = sorted_suffixes(words);
  std::vector<Found> found;
  std::vector<Interval> open;
  std::int64_t occurrences = 0;
  const auto close = [&](const Interval& interval) {
    const std::string_view text = suffixes[interval.suffix].text.substr(0, interval.size);
    const std::int64_t count = occurrences - interval.before;
    const auto characters = static_cast<std::int64_t>(characters_in(text));
    if (count > 1 && characters > 1) found.push_back({text, count, count * characters});
  };
  for (std::size_t i = 0; i <= suffixes.size(); ++i) {
    const bool ends = i == suffixes.size();
    const std::size_t common =
        i == 0 || ends ? 0 : common_prefix(suffixes[i - 1].text, suffixes[i].text);
    std::int64_t before = occurrences;
    std::size_t suffix = i;
    while (!open.empty() && open.back().size > common) {
      close(open.back());
      before = open.back().before, suffix = open.back().suffix;
      open.pop_back();
    }
    if (ends) break;
    if (common > 0 && (open.empty() || open.back().size < common)) {
      open.push_back({common, before, suffix});
    }
    if (suffixes[i].text.size() > common) {
      open.push_back({suffixes[i].text.size(), occurrences, i});
    }
    occurrences += suffixes[i].count;
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.score != b.score ? a.score > b.score : a.text < b.text;
  });
  if (found.size() > most) found.resize(most);
  std::vector<SeedPiece> seeds;
  seeds.reserve(found.size());
  for (const Found& f : found) seeds.push_back({std::string(f.text), f.count});
  return seeds;
}

}  // namespace tapegrad::data
