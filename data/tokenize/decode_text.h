#pragma once

#include <span>
#include <string>

#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::data {

// Tokenizer::decode() of a whole text, or of its beginning: without the space that tokenizers of
// SentencePiece's kind put before a text when they encode it.
std::string decode_text(const Tokenizer& tokenizer, std::span<const Token> tokens);

}  // namespace tapegrad::data
