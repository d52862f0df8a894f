#include "tapegrad/apps/sample/made_text.h"

#include "tapegrad/base/interrupt.h"

namespace tapegrad::sampling {

std::string TextMaker::show(std::string piece) {
  made_.text += piece;
  return piece;
}

std::string TextMaker::push(const nn::NewToken& token) {
  if (keeps_tokens_) {
    made_.tokens.push_back(token);
    begins_.push_back(decoded_);
  }
  const std::string piece = characters_.push(tokenizer_->token_bytes(token.token));
  decoded_ += piece.size();
  return show(stop_.push(piece));
}

std::string TextMaker::end(std::optional<nn::TextEnd> end) {
  std::string rest = stop_.push(characters_.flush());
  rest = show(rest + stop_.flush());
  if (stopped()) {
    made_.finish_reason = "stop";
    // Of a token in which the stop begins, a part may be shown; the others are no part of the text.
    while (!begins_.empty() && begins_.back() >= made_.text.size()) {
      begins_.pop_back();
      made_.tokens.pop_back();
    }
  } else if (end) {
    made_.finish_reason = *end == nn::TextEnd::length       ? "length"
                          : *end == nn::TextEnd::stop_token ? "eos"
                                                            : "stop";
  }
  return rest;
}

std::function<bool(std::span<const nn::NewToken>)> until_stop(const data::Tokenizer& tokenizer,
                                                              const SampleOptions& options) {
  if (options.stops.empty()) return [](std::span<const nn::NewToken>) { return !interrupted(); };
  return [&tokenizer, stop = StopText(options.stops),
          characters = Utf8Stream()](std::span<const nn::NewToken> tokens) mutable {
    for (const nn::NewToken& t : tokens) {
      stop.push(characters.push(tokenizer.token_bytes(t.token)));
    }
    return !stop.stopped() && !interrupted();
  };
}

}  // namespace tapegrad::sampling
