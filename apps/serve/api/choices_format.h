#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/apps/serve/text_job.h"

namespace tapegrad::serve {

// Answers with "choices", of both kinds of completions. The members are named as in OpenAI's
// interface.
class ChoicesFormat : public TextFormat {
 public:
  // The member "object" of an answer and of an event.
  struct Objects {
    const char *answer, *event;
  };
  ChoicesFormat(const TextRequest& request, std::string id, const Objects& objects);

  Json whole(const std::vector<TextPart>& texts, const Usage& usage) override;
  std::string begin(std::size_t index) override;
  std::string delta(const TextPart& part) override;
  std::string end(const Usage& usage) override;
  std::string fail(const Refusal& why, const Usage& usage) override;

 protected:
  virtual Json choice(const TextPart& whole) const = 0;
  // In events: what a text begins with, if it does; a part, an event for each element.
  virtual std::optional<Json> first(std::size_t index) const = 0;
  virtual std::vector<Json> pieces(const TextPart& part) const = 0;

 private:
  Json head(const char* object) const;
  std::string event(const Json& choices, const Json& usage) const;

  const std::string id_, model_;
  const Objects objects_;
  const std::int64_t created_, seed_;
  const bool include_usage_;
};

// The first `count` of a list of the likeliest tokens, or all if there are fewer.
std::span<const nn::TokenLogprob> first_of(const std::vector<nn::TokenLogprob>& top,
                                           std::int64_t count);
// vLLM's list of the tokens of a prompt: null for the first one, and for each further one an object
// of it and of the `count` likeliest ones in its place, by their numbers.
Json prompt_logprobs_of(const data::Tokenizer& tokenizer, std::span<const nn::NewToken> scores,
                        std::int64_t count);

}  // namespace tapegrad::serve
