#pragma once

#include <string_view>

namespace tapegrad::data {

// Beside a tokenizer whose generation_config.json is the model's makers' and does not say which
// tokens end texts: {"eos_token_id": [2, 7]}. See Tokenizer::save().
inline constexpr std::string_view kEndTokensFile = "end_tokens.json";
// Beside a tokenizer, the token before texts that config.json of the model's makers alone named:
// {"bos_token_id": 0}.
inline constexpr std::string_view kBeginTokenFile = "begin_token.json";

}  // namespace tapegrad::data
