#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/char_vocab.h"

namespace tapegrad::data {

// Our own tokenizers as a tokenizer.json of Hugging Face's that gives the same ids.

// A byte-pair encoding without merges, whose vocabulary is the characters. There, a character that
// it does not have is left out of a text without a word.
std::string hf_json_of(const CharVocabulary& characters);

// In GPT-2's form. Error if two tokens have the same bytes, which that file cannot tell apart.
std::string hf_json_of(const Bpe& bpe);

// The characters of a file as hf_json_of(CharVocabulary) makes it; nothing for any other text.
std::optional<std::string> characters_of_hf(std::string_view json);

}  // namespace tapegrad::data
