#pragma once

#include <vector>

#include "tapegrad/data/tokenize/bpe/token_chain.h"

namespace tapegrad::data {

// The 50,000 merges of GPT-2 in their order, from data/gpt2/vocab.bpe, whose bytes are embedded in
// the library.
std::vector<Merge> gpt2_merges();

}  // namespace tapegrad::data
