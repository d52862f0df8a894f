#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/apps/evaluate/items/item_output.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::evaluation {

// The tokens of a context, behind what stands before a text of this tokenizer, unless the context
// is a chat. At least one. `letters`: bytes of the context that no special token covers.
std::vector<data::Token> context_tokens(const data::Tokenizer& tokenizer,
                                        const std::string& context, bool chat,
                                        std::span<const std::size_t> letters = {});

// The tokens of a context and a continuation, and where those of the continuation begin, at least
// at 1. White space at the context's end counts as the continuation's, and the tokens are those of
// the whole text: `begin` is how many the context alone has. What stands before a text of this
// tokenizer comes first, unless the context is a chat. Error if no token is left for the
// continuation.
struct ScoredTokens {
  std::vector<data::Token> tokens;
  std::size_t begin;
};
ScoredTokens scored_tokens(const data::Tokenizer& tokenizer, const std::string& context,
                           const std::string& continuation, bool chat = false,
                           std::span<const std::size_t> letters = {});

// Finds log-likelihoods of choices. What all choices of an item begin with is read once, and so are
// examples that it shares with the item before it.
class LikelihoodScorer {
 public:
  // The model must outlive it.
  LikelihoodScorer(const run::TextModel& model, CacheType cache) : model_(model), type_(cache) {}

  // The log-likelihood of each choice, behind its context; `greedy` is of the first one. Of texts
  // that are longer than the model sees at once, the beginning is left out. Errors name the item.
  ItemOutput score(const Item& item);
  std::int64_t tokens() const { return tokens_; }  // that were computed

 private:
  void read_shared(const std::vector<data::Token>& shared, std::int64_t most);

  const run::TextModel& model_;
  CacheType type_;
  nn::KVCache kept_;
  std::vector<data::Token> kept_tokens_;
  std::int64_t tokens_ = 0;
};

}  // namespace tapegrad::evaluation
