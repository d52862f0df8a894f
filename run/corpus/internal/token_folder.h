#pragma once

#include <filesystem>

#include "tapegrad/run/corpus/text.h"

namespace tapegrad::run {

// Folders of texts that are tokens already: those with a data.json (data/data_folder.h), and those
// that nanoGPT or llm.c have made: …train.bin and …val.bin, or …train_000001.bin and so on, with
// llm.c's header or without. The ids of the latter are those of the folder's tokenizer.json or
// meta.pkl; without these, ids of 16 bits are GPT-2's.

// A folder that tapegrad prepare has not finished is one, too: reading it is refused by name.
bool is_token_folder(const std::filesystem::path& path);

// Opens the files, and does not read the tokens. One of conversations is read_chat_folder()'s.
// Errors: a file that is missing, cut or of another form than it says.
Text read_token_folder(const std::filesystem::path& folder);

// Reads all tokens of a part, with progress on a terminal. Errors, with the file: an id outside of
// the vocabulary; contents that are not those of data.json.
std::vector<data::ShardInfo> check_part(const TokenPart& part, std::int64_t vocab_size);

// Checks both parts of a text that is tokens, once. Sets its fingerprint.
void check_tokens(Text& text, std::int64_t vocab_size);

// Error, naming the folder, unless `tokenizer` has the tokens of the folder's own one, `own`, under
// their ids. It may be of another kind or have more tokens.
void check_same_tokens(const data::Tokenizer& own, const data::Tokenizer& tokenizer,
                       const std::string& folder);

// The tokens of a text, as those of that tokenizer, which may be of another kind or have more
// tokens. Error, naming the text's folder, unless it has the text's tokens under their ids.
const TokenText& tokens_for(const Text& text, const data::Tokenizer& tokenizer);

}  // namespace tapegrad::run
