#include "tapegrad/nn/generation/token_stream.h"

#include <algorithm>
#include <utility>

namespace tapegrad::nn {
namespace {

// Texts behind a long one, which is read first. More would fill memory for longer texts than that.
constexpr std::int64_t kMostUnread = 1024;

}  // namespace

PromptSource source_of(std::vector<Prompt> prompts) {
  return {.next = [prompts = std::move(prompts),
                   at = std::size_t{0}]() mutable -> std::optional<Prompt> {
    if (at == prompts.size()) return std::nullopt;
    return std::move(prompts[at++]);
  }};
}

PromptSource source_of(std::vector<Tokens> prompts, const GenerateOptions& options,
                       std::uint64_t seed) {
  std::vector<Prompt> all;
  for (Tokens& tokens : prompts) all.push_back({std::move(tokens), options, seed++});
  return source_of(std::move(all));
}

TokenStream::TokenStream(Generation& engine, PromptSource prompts)
    : engine_(engine), source_(std::move(prompts)) {}

TokenStream::TokenStream(std::unique_ptr<Generation> engine, PromptSource prompts)
    : own_(std::move(engine)), engine_(*own_), source_(std::move(prompts)) {}

TokenStream::TokenStream(const Decoder& model, PromptSource prompts)
    : TokenStream(std::make_unique<Generation>(model, GenerationLimits{.kept_positions = 0}),
                  std::move(prompts)) {}

TokenStream::~TokenStream() {
  while (!texts_.empty()) drop_text();
}

// Texts that are being made do not wait for a prompt that is still to come.
void TokenStream::read_prompt() {
  if (next_ || ended_) return;
  if (!texts_.empty() && !source_.ready()) return;
  next_ = source_.next();
  ended_ = !next_;
}

void TokenStream::begin_texts() {
  const std::int64_t most = std::max(kMostUnread, 2 * engine_.limits().max_sequences);
  try {
    while (std::ssize(texts_) < most) {
      read_prompt();
      if (!next_) return;
      const bool room = engine_.has_room(std::ssize(next_->tokens), next_->options);
      if (!room && !texts_.empty()) return;
      Prompt prompt = *std::exchange(next_, {});
      texts_.push_back(
          {.id = engine_.add(std::move(prompt.tokens), prompt.options, Rng(prompt.seed)),
           .goes_on = std::move(prompt.goes_on)});
    }
  } catch (...) {  // the texts before it are made all the same
    error_ = std::current_exception();
    ended_ = true;
  }
}

// Takes what a step has made of a text.
void TokenStream::take(Text& text) {
  if (!text.id) return;
  bool goes_on = true;
  try {
    Generation::Taken taken = engine_.take(*text.id);
    goes_on = !text.goes_on || text.goes_on(taken.tokens);
    std::move(taken.tokens.begin(), taken.tokens.end(), std::back_inserter(text.made));
    text.end = taken.end;
  } catch (...) {
    text.error = std::current_exception();
  }
  if (goes_on && !text.end && !text.error) return;
  engine_.remove(*text.id);
  text.id.reset();
}

void TokenStream::drop_text() {
  if (texts_.front().id) engine_.remove(*texts_.front().id);
  texts_.pop_front();
}

bool TokenStream::next_text() {
  if (std::exchange(begun_, false)) drop_text();
  begin_texts();
  begun_ = !texts_.empty();
  if (!begun_ && error_) std::rethrow_exception(std::exchange(error_, {}));
  return begun_;
}

std::optional<NewToken> TokenStream::next() {
  if (!begun_ && !next_text()) return std::nullopt;
  Text& text = texts_.front();
  while (text.made.empty() && text.id) {
    engine_.step();
    for (Text& each : texts_) take(each);
    begin_texts();
  }
  if (text.made.empty()) {
    if (text.error) std::rethrow_exception(text.error);
    return std::nullopt;
  }
  NewToken token = std::move(text.made.front());
  text.made.pop_front();
  return token;
}

Tokens TokenStream::tokens() {
  Tokens tokens;
  while (const auto token = next()) tokens.push_back(token->token);
  return tokens;
}

std::optional<TextEnd> TokenStream::end_of_text() const {
  if (!begun_ || !texts_.front().made.empty()) return std::nullopt;
  return texts_.front().end;
}

}  // namespace tapegrad::nn
