#include "tapegrad/nn/generation/token_stream.h"

namespace tapegrad::nn {
namespace {

// Texts that are made side by side share what they begin with; nothing is kept behind them.
GenerationLimits limits_of(const StreamOptions& stream) {
  GenerationLimits limits = stream.limits;
  if (!limits.kept_positions) limits.kept_positions = 0;
  return limits;
}

}  // namespace

// To begin behind a text, all numbers are drawn that it will draw: so many take a tenth of a
// second.
constexpr std::int64_t kMostDrawsAhead = 100'000'000;

TokenStream::TokenStream(const Decoder& model, std::vector<Tokens> prompts,
                         const GenerateOptions& options, Rng& rng, const StreamOptions& stream)
    : model_(model),
      generation_(model, limits_of(stream)),
      prompts_(std::move(prompts)),
      times_(stream.times),
      options_(options),
      rng_(rng),
      may_look_ahead_(options.greedy ||
                      options.max_new_tokens <= kMostDrawsAhead / model.config.vocab_size),
      reach_length_(options.stop_tokens.empty() && !stream.leaves_texts) {
  check(!prompts_.empty() && times_ >= 1, "[token_stream] {} prompts, {} times, are no text",
        prompts_.size(), times_);
  begin_text(rng_);
}

TokenStream::TokenStream(const Decoder& model, Tokens prompt, const GenerateOptions& options,
                         Rng& rng)
    : TokenStream(model, std::vector<Tokens>{std::move(prompt)}, options, rng, {}) {}

bool TokenStream::has_next() const { return begun_ < std::ssize(prompts_) * times_; }

const Tokens& TokenStream::next_prompt() const {
  return prompts_[static_cast<std::size_t>(begun_ / times_)];
}

void TokenStream::begin_text(const Rng& start) {
  texts_.push_back({start, start, generation_.add(next_prompt(), options_, start)});
  ++begun_;
}

// The generator after a text of which nothing is left out.
Rng TokenStream::after_whole(const Text& text) const {
  if (text.end) return text.rng;
  Rng rng = text.start;
  skip_tokens(rng, options_, model_.config.vocab_size, options_.max_new_tokens);
  return rng;
}

void TokenStream::look_ahead() {
  while (may_look_ahead_ && reach_length_ && has_next() &&
         generation_.has_room(std::ssize(next_prompt()), options_)) {
    begin_text(after_whole(texts_.back()));
  }
}

void TokenStream::drop_from(std::size_t text) {
  while (texts_.size() > text) {
    if (texts_.back().id) generation_.remove(*texts_.back().id);
    texts_.pop_back();
    --begun_;
  }
}

// Takes what a step has made.
void TokenStream::read_tokens() {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    Text& text = texts_[i];
    if (!text.id) continue;
    const Generation::Taken taken = generation_.take(*text.id);
    text.made.insert(text.made.end(), taken.tokens.begin(), taken.tokens.end());
    text.rng = generation_.rng(*text.id);
    text.end = taken.end;
    if (!text.end) continue;
    generation_.remove(*text.id);
    text.id.reset();
    reach_length_ = text.end == TextEnd::length;
    if (!reach_length_) drop_from(i + 1);  // they were begun from another state
  }
}

std::optional<NewToken> TokenStream::next() {
  Text& text = texts_.front();
  while (text.made.empty() && !text.end) {
    look_ahead();
    generation_.step();
    read_tokens();
  }
  if (text.made.empty()) {
    rng_ = text.rng;
    end_ = text.end;
    return std::nullopt;
  }
  const NewToken token = text.made.front();
  text.made.pop_front();
  if (text.made.empty() && text.end != TextEnd::stop_token) {
    rng_ = text.rng;
  } else {  // the text's own generator is ahead
    skip_tokens(rng_, options_, model_.config.vocab_size, 1);
  }
  return token;
}

bool TokenStream::next_text() {
  const Text& text = texts_.front();
  const bool whole = text.made.empty() && (end_ || text.end == TextEnd::length);
  if (!whole) {  // the next text begins where this one was left
    reach_length_ = false;
    drop_from(1);
  }
  if (texts_.size() == 1 && !has_next()) return false;
  if (text.id) generation_.remove(*text.id);
  texts_.pop_front();
  end_.reset();
  if (texts_.empty()) begin_text(rng_);
  return true;
}

}  // namespace tapegrad::nn
