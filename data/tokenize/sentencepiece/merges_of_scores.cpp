#include "tapegrad/data/tokenize/sentencepiece/internal/merges_of_scores.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/hf/internal/text_index.h"

namespace tapegrad::data {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

struct ScoredMerge {
  std::size_t rank;
  std::size_t left_size, right_size;  // in characters
  std::string_view left, right;

  bool operator<(const ScoredMerge& other) const {
    return std::tuple(rank, other.left_size, other.right_size) <
           std::tuple(other.rank, left_size, right_size);
  }
};

}  // namespace

void add_merges_of_scores(HfFile& file, std::span<const std::optional<double>> scores) {
  TextIndex places(file.tokens(), [&](std::size_t k) { return file.shown(k); });
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < file.tokens(); ++k) {
    check(places.add(k), "'{}' is there twice", file.shown(k));
    if (scores[k]) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return *scores[a] > *scores[b]; });
  const auto is_part = [&](std::string_view text) {
    const std::size_t place = places.find(text);
    return place != places.kNone && scores[place].has_value();
  };
  std::vector<ScoredMerge> merges;
  std::size_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && *scores[order[i]] != *scores[order[i - 1]]) ++rank;
    const std::string_view text = file.shown(order[i]);
    check(text.size() <= kMostScoredBytes, "a token has {} bytes; {} are the most", text.size(),
          +kMostScoredBytes);
    const auto characters =
        static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
    std::size_t left = 1;  // characters
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (!begins_character(text[at])) continue;
      if (is_part(text.substr(0, at)) && is_part(text.substr(at))) {
        merges.push_back({rank, left, characters - left, text.substr(0, at), text.substr(at)});
      }
      ++left;
    }
  }
  std::stable_sort(merges.begin(), merges.end());
  for (const ScoredMerge& merge : merges) file.add_merge(merge.left, merge.right, merge.rank);
}

}  // namespace tapegrad::data
