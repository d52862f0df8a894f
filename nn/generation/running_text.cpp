#include "tapegrad/nn/generation/running_text.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "tapegrad/nn/generation/internal/broken_logits.h"
#include "tapegrad/nn/generation/speculative/draft.h"
#include "tapegrad/nn/generation/speculative/lookup.h"

namespace tapegrad::nn {
namespace {

bool none_allowed(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(),
                     [](float logit) { return logit == -std::numeric_limits<float>::infinity(); });
}

void rule_out(std::span<float> logits, const Tokens& tokens) {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= std::ssize(logits)) continue;  // the tokenizer's alone
    logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
}

NewToken scored_token(std::span<const float> logits, std::int32_t token, std::int64_t top) {
  const LogProbabilities logprobs(logits);
  return {token, logprobs[token], logprobs.likeliest(top), logprobs.rank(token)};
}

std::unique_ptr<Proposer> proposer_for(const GenerateOptions& options, std::int64_t prompt_tokens) {
  if (options.draft != nullptr) return std::make_unique<Draft>(options, prompt_tokens);
  return options.lookup > 0 ? std::make_unique<Lookup>() : nullptr;
}

}  // namespace

RunningText::RunningText(Tokens prompt, const GenerateOptions& options, Rng rng)
    : tokens_(std::move(prompt)),
      options_(options),
      rng_(std::move(rng)),
      mask_(options.mask == nullptr ? nullptr : options.mask->clone()),
      prompt_tokens_(std::ssize(tokens_)),
      proposer_(proposer_for(options, prompt_tokens_)) {
  const bool only_scored = options.prompt_logprobs && prompt_tokens_ > 1;
  if (options.max_new_tokens == 0 && !only_scored) end_ = TextEnd::length;
}

void RunningText::propose(std::int64_t most) {
  if (proposer_ == nullptr || error_) return;
  const std::int64_t left = options_.max_new_tokens - new_tokens();
  const std::int64_t asked = options_.draft != nullptr ? options_.draft_tokens : options_.lookup;
  guarded([&] {
    proposed_ = proposer_->propose(tokens_, std::min({most, left - 1, asked}), rng_);
  });
}

// An error here is of this text alone: the others of a step go on.
template <class Ask>
bool RunningText::guarded(const Ask& ask) {
  try {
    ask();
    return true;
  } catch (...) {
    error_ = std::current_exception();
    end_ = TextEnd::no_token;
    return false;
  }
}

std::vector<NewToken> RunningText::take_new() {
  if (error_ && fresh_.empty()) std::rethrow_exception(error_);
  return std::exchange(fresh_, {});
}

// Log probabilities are those of the model, whatever the options make of its logits.
void RunningText::choose_one(std::span<const float> logits) {
  std::vector<float> allowed(logits.begin(), logits.end());
  const Tokens& stops = options_.stop_tokens;
  const bool masked = mask_ != nullptr, too_early = new_tokens() < options_.min_tokens;
  const auto allow = [&] {
    check_logits(logits);  // what is ruled out may hide the broken ones
    if (masked) mask_->allow(allowed);
    if (too_early) rule_out(allowed, stops);
  };
  const bool limited = masked || too_early;
  if (limited && !guarded(allow)) return;
  if (limited && none_allowed(allowed)) {
    end_ = TextEnd::no_token;
    return;
  }
  std::int32_t token = 0;
  const auto pick = [&] {
    token = pick_token(std::move(allowed), options_, rng_, tokens_, prompt_tokens_);
  };
  if (!guarded(pick)) return;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    end_ = TextEnd::stop_token;
    return;
  }
  NewToken made{token};
  const auto accept = [&] {
    if (masked) mask_->accept(token);
    const bool scores = options_.logprobs || options_.top_logprobs > 0;
    if (scores) made = scored_token(logits, token, options_.top_logprobs);
  };
  if (!guarded(accept)) return;
  fresh_.push_back(std::move(made));
  tokens_.push_back(token);
  if (new_tokens() >= options_.max_new_tokens) end_ = TextEnd::length;
}

std::int64_t RunningText::choose(std::span<const float> logits, std::int64_t vocab_size) {
  if (error_) {  // of its prompt's scores, of its proposer, or behind the last step's tokens
    end_ = TextEnd::no_token;
    return 0;
  }
  if (options_.max_new_tokens == 0) {  // its prompt has been scored
    end_ = TextEnd::length;
    return 0;
  }
  const Tokens proposed = std::exchange(proposed_, {});
  const auto vocab = static_cast<std::size_t>(vocab_size);
  std::size_t right = 0;
  for (;; ++right) {
    choose_one(logits.subspan(right * vocab, vocab));
    if (end_ || right == proposed.size() || tokens_.back() != proposed[right]) break;
  }
  // Whoever takes after each step gets these tokens now, and the error after one more step.
  if (error_ && right > 0) end_.reset();
  const auto accepted = static_cast<std::int64_t>(right);
  if (!proposed.empty()) proposer_->learn(std::ssize(proposed), accepted);
  return accepted;
}

PositionRange RunningText::to_score(PositionRange read) const {
  if (!options_.prompt_logprobs) return {};
  // Position p scores token p + 1. A position may be read again after an error.
  return {std::max(read.begin, scored_ - 1), std::min(read.end, prompt_tokens_ - 1)};
}

void RunningText::score_prompt(std::span<const float> logits, std::int64_t vocab_size) {
  if (error_) return;
  const auto vocab = static_cast<std::size_t>(vocab_size);
  guarded([&] {
    for (; !logits.empty(); logits = logits.subspan(vocab), ++scored_) {
      const std::int32_t token = tokens_[static_cast<std::size_t>(scored_)];
      scores_.push_back(scored_token(logits.first(vocab), token, *options_.prompt_logprobs));
    }
  });
}

}  // namespace tapegrad::nn
