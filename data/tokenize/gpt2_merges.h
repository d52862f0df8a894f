#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tapegrad/data/tokenize/token_chain.h"

namespace tapegrad::data {

// The byte that each of the tokens 0 … 255 stands for: first the 188 printable characters of
// Latin-1 in ascending order, then the other bytes in ascending order.
const std::array<std::uint8_t, 256>& gpt2_byte_order();

// The 50,000 merges of GPT-2 in their order, from data/gpt2/vocab.bpe, whose bytes are embedded in
// the library.
std::vector<Merge> gpt2_merges();

}  // namespace tapegrad::data
