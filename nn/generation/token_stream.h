#pragma once

#include <deque>
#include <iterator>
#include <vector>

#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::nn {

struct StreamOptions {
  std::int64_t times = 1;  // texts of each prompt
  // Whether next_text() may leave texts before their end, as a program does that looks for words in
  // them.
  bool leaves_texts = false;
  GenerationLimits limits = {};
};

// A text as a range, made token by token as it is walked through, once:
//
//   for (const NewToken& t : TokenStream(model, prompt, {.max_new_tokens = 50}, rng))
//   show(t.token);
//
// A stream may have several texts, one behind the other:
//
//   TokenStream stream(model, prompts, options, rng, {.times = 3});
//   do {
//     for (const NewToken& t : stream) show(t.token);
//   } while (stream.next_text());
//
// All texts draw from one generator: each goes on where the text before it has stopped, as if they
// were made one after the other. The stream makes them side by side all the same. Each token draws
// equally many random numbers, so a text that reaches max_new_tokens leaves the generator in a
// state that is known before. From there the texts that follow begin. A text that ends earlier
// makes their tokens wrong; they are dropped and begun again. So where texts may end earlier, the
// stream looks ahead only after a text that has reached its length.
class TokenStream {
 public:
  // All texts of a prompt come before those of the next one. Draws from `rng`, which must outlive
  // the stream, as the model must. After each token, `rng` is as it is without looking ahead.
  TokenStream(const Decoder& model, std::vector<Tokens> prompts, const GenerateOptions& options,
              Rng& rng, const StreamOptions& stream);
  TokenStream(const Decoder& model, Tokens prompt, const GenerateOptions& options, Rng& rng);

  // The next token of the current text, at first the first one; none at its end.
  std::optional<NewToken> next();
  // Why there are no more tokens; none before.
  std::optional<TextEnd> end_of_text() const { return end_; }
  // Goes on to the next text, and leaves out what next() has not returned of the current one. False
  // if there is no further text.
  bool next_text();

  const GenerationCost& cost() const { return generation_.cost(); }  // of all texts so far

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
  struct Text {
    Rng start, rng;                    // before its first token, and after those so far
    std::optional<Generation::Id> id;  // none after its end
    std::deque<NewToken> made = {};    // next() has not returned them yet
    std::optional<TextEnd> end = {};
  };

  bool has_next() const;
  const Tokens& next_prompt() const;
  void begin_text(const Rng& start);
  void look_ahead();
  void read_tokens();
  void drop_from(std::size_t text);
  Rng after_whole(const Text& text) const;

  const Decoder& model_;
  Generation generation_;
  std::vector<Tokens> prompts_;
  std::int64_t times_, begun_ = 0;  // texts
  GenerateOptions options_;
  Rng& rng_;
  std::deque<Text> texts_;     // from the current one to the last that was begun
  const bool may_look_ahead_;  // whether the draws of a text can be left out in no time
  bool reach_length_;          // whether texts are expected to
  std::optional<TextEnd> end_;
};

}  // namespace tapegrad::nn
