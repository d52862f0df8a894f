#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/generation/log_probabilities.h"
#include "tapegrad/nn/generation/pick_token.h"
#include "tapegrad/nn/generation/speculative/proposer.h"

namespace tapegrad::nn {

struct NewToken {
  std::int32_t token;
  // Under the model alone, if GenerateOptions::logprobs asks for it: top_logprobs likeliest ones,
  // and the token's own place among all.
  double logprob = 0;
  std::vector<TokenLogprob> top = {};
  std::int64_t rank = 0;
};

// max_new_tokens were made, a stop token was chosen, or the mask allowed none.
enum class TextEnd { length, stop_token, no_token };

struct PositionRange {
  std::int64_t begin = 0, end = 0;
};

// A text of a Generation, as far as it is its own concern: its tokens, and how they are chosen.
class RunningText {
 public:
  RunningText(Tokens prompt, const GenerateOptions& options, Rng rng);

  const Tokens& tokens() const { return tokens_; }  // of the prompt, and those behind it
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t new_tokens() const { return std::ssize(tokens_) - prompt_tokens_; }
  const GenerateOptions& options() const { return options_; }
  std::optional<TextEnd> end() const { return end_; }

  // Proposes at most `most` tokens, which choose() checks; none unless the options ask for it.
  void propose(std::int64_t most);
  const Tokens& proposed() const { return proposed_; }
  Proposer* proposer() { return proposer_.get(); }  // null if nothing is proposed
  void forget_proposed() { proposed_.clear(); }
  // Adds the token that the first V of these logits give, or ends the text. The logits behind a
  // proposed token count if it was chosen, and those before it. Returns how many of these were.
  std::int64_t choose(std::span<const float> logits, std::int64_t vocab_size);

  // Of positions that are read: those whose logits score a token of the prompt, which follows each.
  PositionRange to_score(PositionRange read) const;
  // Scores tokens of the prompt by the logits (rows, V) of the first positions of to_score().
  void score_prompt(std::span<const float> logits, std::int64_t vocab_size);

  // Throws what the mask or the choice of a token has thrown, which has ended the text. Tokens from
  // before that come first, in a call of their own: the text may be complete with them.
  std::vector<NewToken> take_new();
  bool failed() const { return error_ != nullptr; }
  std::vector<NewToken> take_prompt() { return std::exchange(scores_, {}); }

 private:
  void choose_one(std::span<const float> logits);
  template <class Ask>
  bool guarded(const Ask& ask);

  Tokens tokens_;
  GenerateOptions options_;
  Rng rng_;
  std::unique_ptr<TokenMask> mask_;
  std::int64_t prompt_tokens_;
  std::int64_t scored_ = 1;  // of the prompt's tokens; nothing stands before the first
  std::unique_ptr<Proposer> proposer_;
  Tokens proposed_;
  std::vector<NewToken> fresh_, scores_;  // not taken yet
  std::optional<TextEnd> end_;
  std::exception_ptr error_;
};

}  // namespace tapegrad::nn
