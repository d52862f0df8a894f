#pragma once

#include <filesystem>

#include "tapegrad/run/text.h"

namespace tapegrad::run {

// Folders of texts that nanoGPT or llm.c have made tokens of: one file …train.bin and one …val.bin,
// of ids of 16 bits, behind llm.c's header if they have one; and meta.pkl for characters, without
// which the ids are GPT-2's.

bool is_token_folder(const std::filesystem::path& path);

// Errors: a file that is broken, has more than 4 GB, or an id that the vocabulary does not have.
Text read_token_folder(const std::filesystem::path& folder);

// The ids of a text, as tokens of that tokenizer, which may be of another kind or have more tokens.
// Error, naming the text's folder, unless it has the text's tokens under their ids.
const TokenText& tokens_for(const Text& text, const data::Tokenizer& tokenizer);

}  // namespace tapegrad::run
