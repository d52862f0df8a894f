#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::run {

// A model's tokens; it may have more rows for them than its tokenizer has tokens.
struct ModelTokens {
  const data::Tokenizer& tokenizer;
  std::int64_t rows;
};

// How the tokens of another model differ from those of `name`: "it has 512 tokens, and runs/a
// 50,257", or "token 5 is 'x' there, and 'y' in runs/a". Empty if they are the same, as
// far as both tokenizers have tokens.
std::string token_difference(const ModelTokens& others, const ModelTokens& own,
                             std::string_view name);

}  // namespace tapegrad::run
