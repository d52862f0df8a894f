#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tapegrad/data/tokenize/train/internal/word_characters.h"

namespace tapegrad::data {

// The longest piece of a Unigram vocabulary, in characters, as SentencePiece's default.
inline constexpr std::size_t kMostPieceCharacters = 16;

struct SeedPiece {
  std::string text;
  std::int64_t count;  // of its occurrences
};

// Substrings of words, of two characters or more, that occur twice at least: those with the largest
// product of count and characters, `most` of them, as SentencePiece begins with. A substring that
// always has the same character behind it is left out for the longer one, unless that is too long.
// They are found in a sorted array of all suffixes.
std::vector<SeedPiece> frequent_substrings(const CountedWords& words, std::size_t most);

}  // namespace tapegrad::data
