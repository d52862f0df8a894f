#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/data/tokenize/bpe/bpe_train.h"

namespace tapegrad::data {

// SentencePiece's mark in place of a space.
inline constexpr std::string_view kSpaceMark = "▁";

// Words of a corpus with their counts, ordered by their bytes: the order in which a hash table
// gives them is nobody's business.
using CountedWords = std::vector<std::pair<std::string, std::int64_t>>;

// The pieces with marks in place of spaces.
CountedWords marked_words(const PieceCounts& pieces);

// The characters that make up a share of the text, the most frequent ones first, and those of
// `needed`; of equally frequent ones that with the smaller bytes. Bytes that are not UTF-8 are
// none.
std::vector<std::string> frequent_characters(const CountedWords& words, double share,
                                             std::string_view needed);

// The words cut where a character is none of these, which is left out.
CountedWords words_of_characters(const CountedWords& words,
                                 std::span<const std::string> characters);

}  // namespace tapegrad::data
