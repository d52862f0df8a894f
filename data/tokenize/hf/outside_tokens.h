#pragma once

#include <filesystem>

#include "tapegrad/data/tokenize/hf/hf_file.h"

namespace tapegrad::data {

// Adds the tokens that other files of the folder of a tokenizer.json add to it, as transformers
// does: "added_tokens_decoder" of tokenizer_config.json, or else added_tokens.json; then those that
// tokenizer_config.json and special_tokens_map.json name ("bos_token",
// "additional_special_tokens"). A token that the vocabulary has keeps its id, another one gets the
// next. Error for a token whose id would be another one than its file says. Returns whether `file`
// has changed.
bool add_outside_tokens(HfFile& file, const std::filesystem::path& folder);

}  // namespace tapegrad::data
