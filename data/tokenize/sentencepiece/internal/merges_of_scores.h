#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tapegrad/data/tokenize/hf/internal/hf_file.h"

namespace tapegrad::data {

// Adds the merges of a SentencePiece BPE, whose files have tokens and scores alone: two tokens
// become the one that is written as both, and the token of the largest score goes first.
// `scores`: of each token of the file, without merges; none for a token that no merge makes or
// takes, as <s>. The order is that of transformers' converter: by score, then by the length of the
// left part.
// Error if a token has more than kMostScoredBytes, since there may be a merge for each of them.
void add_merges_of_scores(HfFile& file, std::span<const std::optional<double>> scores);

inline constexpr std::size_t kMostScoredBytes = 256;

}  // namespace tapegrad::data
