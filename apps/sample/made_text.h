#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/sample/sample_options.h"
#include "tapegrad/apps/sample/stop_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/generation/running_text.h"

namespace tapegrad::sampling {

// The answer to a prompt: the new text, why it ended, and with SampleOptions::logprobs its
// tokens.
struct MadeText {
  std::string text;
  // "length", "eos", or "stop": before a stop, or because nothing was allowed to follow. Empty if a
  // signal ended it.
  std::string finish_reason;
  std::vector<nn::NewToken> tokens;
};

// Makes a text of tokens: whole characters, up to the first of SampleOptions::stops.
class TextMaker {
 public:
  TextMaker(const data::Tokenizer& tokenizer, const SampleOptions& options)
      : tokenizer_(&tokenizer), keeps_tokens_(options.logprobs), stop_(options.stops) {}

  // The part that may be shown now and was not shown yet.
  std::string push(const nn::NewToken& token);
  // The rest at the end of the text. `end` is why there are no more tokens, if there are none.
  std::string end(std::optional<nn::TextEnd> end);
  bool stopped() const { return stop_.stopped(); }
  MadeText take() { return std::move(made_); }

 private:
  std::string show(std::string piece);

  const data::Tokenizer* tokenizer_;
  bool keeps_tokens_;
  Utf8Stream characters_;
  StopText stop_;
  std::size_t decoded_ = 0;          // bytes
  std::vector<std::size_t> begins_;  // of each kept token, in these bytes
  MadeText made_;
};

// Of nn::Prompt: a text goes on until a stop, or until a signal.
std::function<bool(std::span<const nn::NewToken>)> until_stop(const data::Tokenizer& tokenizer,
                                                              const SampleOptions& options);

}  // namespace tapegrad::sampling
