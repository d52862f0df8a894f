#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tapegrad/data/tokenize/bpe/bpe.h"
#include "tapegrad/data/tokenize/char_vocab.h"
#include "tapegrad/data/tokenize/hf/hf_tokenizer.h"
#include "tapegrad/data/tokenize/hf/internal/hf_file.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Our own tokenizers as a tokenizer.json of Hugging Face's that gives the same ids.

// A byte-pair encoding without merges, whose vocabulary is the characters. There, a character that
// it does not have is left out of a text without a word.
std::string hf_json_of(const CharVocabulary& characters);

// In GPT-2's form. Error if two tokens have the same bytes, which that file cannot tell apart.
std::string hf_json_of(const Bpe& bpe);

// Such a file with more special tokens, whose ids follow each other from `first` on.
std::string hf_json_with_special(std::string_view json, std::span<const std::string> names,
                                 Token first);

// Such a file without the added tokens whose id is `rows` or more.
std::string hf_json_without_added(std::string_view json, std::int64_t rows);

// The characters of a file as hf_json_of(CharVocabulary) makes it; nothing for any other.
std::optional<std::string> characters_of_hf(const HfFile& file);

// The byte pairs of a tokenizer whose file says what hf_json_of(const Bpe&) writes, in whatever
// words, as GPT-2's own does. Error, with the part of the file, if it says anything else.
Bpe bpe_of_hf(const HfTokenizer& tokenizer);

}  // namespace tapegrad::data
