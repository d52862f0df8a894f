#pragma once

#include <filesystem>

#include "tapegrad/data/tokenize/hf/internal/hf_file.h"

namespace tapegrad::data {

// Adds the tokens that other files of the folder of a tokenizer.json add to it, as transformers
// does: "added_tokens_decoder" of tokenizer_config.json, or else added_tokens.json; then those that
// tokenizer_config.json and special_tokens_map.json name ("bos_token",
// "additional_special_tokens"). A token that the vocabulary has keeps its id, another one gets the
// next. Error for a token whose id would be another one than its file says. Returns whether `file`
// has changed.
bool add_outside_tokens(HfFile& file, const std::filesystem::path& folder);

// Gives the elements of "added_tokens" of a tokenizer.json the ids that Hugging Face's reader gives
// them, whatever they say: that of the vocabulary's token of this text, or else the next. Where the
// vocabulary has holes so that the next one is taken, the file's own ids stay. Returns as above.
bool number_added_tokens(HfFile& file);

}  // namespace tapegrad::data
