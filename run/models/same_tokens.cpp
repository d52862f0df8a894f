#include "tapegrad/run/models/same_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "tapegrad/base/text/words.h"

namespace tapegrad::run {

std::string token_difference(const ModelTokens& others, const ModelTokens& own,
                             std::string_view name) {
  if (others.rows != own.rows) {
    return fmt::format("it has {} tokens, and {} {}", grouped(others.rows), name,
                       grouped(own.rows));
  }
  const std::int64_t tokens = std::min(others.tokenizer.vocab_size(), own.tokenizer.vocab_size());
  for (data::Token token = 0; token < tokens; ++token) {
    const std::string there = others.tokenizer.token_bytes(token);
    const std::string here = own.tokenizer.token_bytes(token);
    if (there == here) continue;
    return fmt::format("token {} is '{}' there, and '{}' in {}", token, there, here, name);
  }
  return {};
}

}  // namespace tapegrad::run
