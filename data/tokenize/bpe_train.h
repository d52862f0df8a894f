#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token_chain.h"

namespace tapegrad::data {

// Learns the merges of a Bpe of `vocab_size` tokens (256 bytes, the merges and <|endoftext|>):
// again and again the most frequent pair of neighbours inside a piece becomes a token; of equally
// frequent pairs, the one with the smaller ids. A pair that occurs once is not worth a token: if
// the corpus has no other pairs left before the vocabulary is full, that is an Error that says how
// far it got.
std::vector<Merge> train_merges(std::string_view corpus, int64_t vocab_size);

}  // namespace tapegrad::data
