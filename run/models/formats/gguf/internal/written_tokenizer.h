#pragma once

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::run {

// Reads the tokenizer that `keys` describe, and compares it with `tokenizer`, of which they were
// made: the bytes of all tokens, and the tokens of some 30,000 short texts, made of letters,
// digits, spaces, marks and signs of many kinds and of the added tokens. Error, with the text and
// both lists, for tokens that differ.
void check_written_tokenizer(const GgufKeys& keys, const data::Tokenizer& tokenizer);

}  // namespace tapegrad::run
