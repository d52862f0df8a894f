#pragma once

#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::nn {

// Continues `prompt` (at least one token) and returns the new tokens. Each is passed to `on_token`,
// if there is one, as soon as it is known; returning false from it ends the text. Draws one
// multinomial per token, as nanoGPT's generate does. As to long texts, see Generation.
Tokens generate(const Decoder& gpt, const Tokens& prompt, const GenerateOptions& options, Rng& rng,
                const std::function<bool(std::int32_t)>& on_token = {});

// Continues several prompts side by side, up to GenerationLimits::max_sequences at once. Text i
// draws from rngs[i] alone, one multinomial per token: it becomes what it becomes by itself with
// that generator. `on_token` gets the index of the text and the token; returning false ends that
// text. Error unless there are as many generators as prompts.
std::vector<Tokens> generate(const Decoder& gpt, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options, std::span<Rng> rngs,
                             const std::function<bool(std::size_t, std::int32_t)>& on_token = {});

// A text as a range, made token by token as it is walked through, once:
//
//   for (const NewToken& t : TokenStream(model, prompt, {.max_new_tokens = 50}, rng))
//   show(t.token);
class TokenStream {
 public:
  // Draws from `rng`, which must outlive the stream, as the model must.
  TokenStream(const Decoder& model, Tokens prompt, const GenerateOptions& options, Rng& rng);

  // The next token; none at the end.
  std::optional<NewToken> next();
  // Why there are no more tokens; none before.
  std::optional<TextEnd> end_of_text() const { return end_; }

  class Iterator {
   public:
    using value_type = NewToken;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(TokenStream* stream) : stream_(stream), token_(stream->next()) {}
    const NewToken& operator*() const { return *token_; }
    const NewToken* operator->() const { return &*token_; }
    Iterator& operator++() {
      token_ = stream_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !token_; }

   private:
    TokenStream* stream_;
    std::optional<NewToken> token_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Generation generation_;
  Generation::Id id_;
  Rng& rng_;
  std::optional<TextEnd> end_;
};

}  // namespace tapegrad::nn
