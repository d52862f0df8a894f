#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/base/random.h"
#include "tapegrad/data/grammar/vocabulary_mask.h"

namespace tapegrad::testing {

// A text of tokens that are drawn among those that a mask allows, whichever they are, until one
// ends it. After 60 tokens, what closes strings and brackets, or a digit, is drawn half of the
// time, or else few texts would end. Nothing if no token is allowed, which must never be, or if the
// text has no end.
inline std::optional<std::string> random_text(const data::TokenTrie& tokens,
                                              const data::VocabularyMask& mask, Rng& rng) {
  constexpr int kFree = 60, kMost = 5000;
  data::VocabularyMask::Position position;
  for (int i = 0; i < kMost; ++i) {
    const auto allowed = mask.allowed(position);
    if (allowed->size() == 0) return std::nullopt;
    std::optional<data::Token> chosen;
    if (i >= kFree && mask.complete(position)) return position.text;
    const bool closes = i >= kFree && rng.randint(2) == 0;
    for (const std::string_view closing : {"\"", "1", "}", "]"}) {
      for (data::Token t = 0; closes && t < 256 && !chosen; ++t) {
        if (tokens.bytes_of(t) == closing && allowed->has(t)) chosen = t;
      }
    }
    for (int tries = 0; !chosen; ++tries) {
      auto t = static_cast<data::Token>(rng.randint(tokens.vocab_size()));
      // Of few tokens, the next one from a random place on.
      while (tries > 100 && !allowed->has(t))
        t = (t + 1) % static_cast<data::Token>(tokens.vocab_size());
      if (allowed->has(t)) chosen = t;
    }
    mask.accept(position, *chosen);
    if (position.ended) return position.text;
  }
  return std::nullopt;
}

}  // namespace tapegrad::testing
