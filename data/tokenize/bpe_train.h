#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token_chain.h"

namespace tapegrad::data {

// Learns the merges of a Bpe of `vocab_size` tokens (256 bytes, the merges and <|endoftext|>). Each
// step turns the most frequent pair of neighbours inside a piece (see first_piece) into a token; of
// equally frequent pairs, the one with the smaller ids. A pair that occurs once is not merged.
// Error if no pair occurs twice before the vocabulary is full; it says how many tokens were found.
std::vector<Merge> train_merges(std::span<const std::string_view> documents,
                                std::int64_t vocab_size);
inline std::vector<Merge> train_merges(std::string_view corpus, std::int64_t vocab_size) {
  return train_merges({&corpus, 1}, vocab_size);
}

}  // namespace tapegrad::data
