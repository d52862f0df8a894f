#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::nn {

// A text to make.
struct Prompt {
  Tokens tokens;
  GenerateOptions options = {};
  std::uint64_t seed = 1337;  // of a generator that draws for this text alone
  // Called after each step with the tokens that it has made, which are none while the prompt is
  // read. It may be called before the text's turn. False ends the text behind these tokens.
  std::function<bool(std::span<const NewToken>)> goes_on = {};
};

// Prompts that are read one by one, each when there is room for its text.
struct PromptSource {
  std::function<std::optional<Prompt>()> next;        // nothing: there are no more
  std::function<bool()> ready = [] { return true; };  // next() would return at once
};

PromptSource source_of(std::vector<Prompt> prompts);
// The same options for each prompt; text i has the seed `seed + i`.
PromptSource source_of(std::vector<Tokens> prompts, const GenerateOptions& options,
                       std::uint64_t seed);

// A range over what `next()` of a stream returns, which can be walked through once.
template <class Stream>
class StreamIterator {
 public:
  using value_type = typename Stream::Piece;
  using difference_type = std::ptrdiff_t;
  explicit StreamIterator(Stream* stream) : stream_(stream), piece_(stream->next()) {}
  const value_type& operator*() const { return *piece_; }
  const value_type* operator->() const { return &*piece_; }
  StreamIterator& operator++() {
    piece_ = stream_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !piece_; }

 private:
  Stream* stream_;
  std::optional<value_type> piece_;
};

// Texts in the order of their prompts, each a range of tokens that are made as it is walked
// through:
//
//   TokenStream stream(engine, source_of(prompts, options, seed));
//   while (stream.next_text()) {
//     for (const NewToken& t : stream) show(t.token);
//   }
//
// The texts are made side by side, as many as the engine has room for. Each is the text that its
// prompt and seed give alone. An error of a text, of its prompt or of the source is thrown at that
// text's turn.
class TokenStream {
 public:
  using Piece = NewToken;

  // The engine must outlive the stream, and may run other texts.
  TokenStream(Generation& engine, PromptSource prompts);
  // With an engine of its own, which keeps nothing of texts that have ended.
  TokenStream(const Decoder& model, PromptSource prompts);
  ~TokenStream();
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // Goes to the next text, at first to the first one, and leaves out what next() has not returned
  // of the one before. False if there is none. Waits for a prompt only if no other text is there.
  bool next_text();
  // The next token of the current text; none at its end. Before the first next_text(), of the
  // first text.
  std::optional<NewToken> next();
  // All tokens of the current text that next() has not returned.
  Tokens tokens();
  // Why the current text has ended; none before, and if Prompt::goes_on has ended it.
  std::optional<TextEnd> end_of_text() const;

  StreamIterator<TokenStream> begin() { return StreamIterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Text {
    std::optional<Generation::Id> id;  // none when nothing more is made
    std::function<bool(std::span<const NewToken>)> goes_on;
    std::deque<NewToken> made = {};  // next() has not returned them yet
    std::optional<TextEnd> end = {};
    std::exception_ptr error = {};
  };

  TokenStream(std::unique_ptr<Generation> engine, PromptSource prompts);
  void read_prompt();
  void begin_texts();
  void take(Text& text);
  void drop_text();

  std::unique_ptr<Generation> own_;
  Generation& engine_;
  PromptSource source_;
  std::optional<Prompt> next_;  // read, and not begun
  bool ended_ = false;          // no prompt is to be read behind it
  std::exception_ptr error_;    // of the prompt behind it
  std::deque<Text> texts_;      // from the current one to the last that was begun
  bool begun_ = false;          // the first of these is the current one
};

}  // namespace tapegrad::nn
