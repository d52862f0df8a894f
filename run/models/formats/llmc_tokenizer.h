#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::run {

// llm.c's file of a tokenizer: 256 i32 (a magic number, version 2, the number of tokens, the token
// that ends a text), then a length of one byte and the bytes of each token. It is there to decode,
// and does not say how a text is cut into tokens. What made the tokens is found out from them.

inline constexpr std::string_view kLlmcTokenizerFile = "gpt2_tokenizer.bin";

// The file of a tokenizer. Rows of a model behind its last token have none. Error for a token
// without bytes, or with more than 255.
std::string llmc_tokenizer(const data::Tokenizer& tokenizer, data::Token end);

// Versions 1 and 2. Tokens that are GPT-2's give that; single characters in ascending order a
// tokenizer of characters; and tokens in the order in which merges made them (see data::Bpe) a
// trained one. Errors, naming the file: it is broken, or its tokens are none of these.
data::Tokenizer read_llmc_tokenizer(const std::filesystem::path& path);

}  // namespace tapegrad::run
