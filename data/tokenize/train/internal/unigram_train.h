#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "tapegrad/data/tokenize/train/internal/word_characters.h"

namespace tapegrad::data {

struct ScoredPiece {
  std::string text;
  double score;  // the logarithm of its probability
};

// Learns the pieces of a Unigram model (Kudo 2018, "Subword Regularization", section 3.2), as
// SentencePiece does. It begins with frequent substrings and all characters. Expectation and
// maximization, over all ways to cut each word, give each piece its probability; then a quarter of
// the pieces is left out, those whose loss lowers the likelihood of the words least; and so on.
// Characters stay. `words` has none but `characters`. No piece is one of `taken`.
//
// Returns `wanted` pieces by falling score. Calls `on_round` with the number of pieces that are
// left. The result depends on the words alone, not on the number of threads. Error if the words
// have too few substrings; it says how many there are, with `offset` tokens beside them.
std::vector<ScoredPiece> train_unigram(const CountedWords& words,
                                       std::span<const std::string> characters,
                                       const std::unordered_set<std::string>& taken,
                                       std::size_t wanted, std::size_t offset,
                                       const std::function<void(std::size_t)>& on_round = {});

}  // namespace tapegrad::data
