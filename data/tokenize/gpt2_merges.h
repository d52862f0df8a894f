#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tapegrad/data/tokenize/token_chain.h"

namespace tapegrad::data {

// The byte that each of the tokens 0 … 255 stands for: the 188 printable characters of Latin-1
// first, then the others, both in ascending order.
const std::array<uint8_t, 256>& gpt2_byte_order();

// The 50,000 merges of GPT-2 in their order, from gpt2/vocab.bpe, which is part of the program.
std::vector<Merge> gpt2_merges();

}  // namespace tapegrad::data
