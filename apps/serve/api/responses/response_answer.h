#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/serve/api/completions.h"
#include "tapegrad/apps/serve/api/responses/response_output.h"
#include "tapegrad/apps/serve/api/tools/tools.h"

namespace tapegrad::serve {

// The object "response" of OpenAI's interface: at once, or as events whose last one has all of it.
class ResponseAnswer : public TextFormat {
 public:
  // `echo`: members that say what the request has said. `tools`: that may be called.
  ResponseAnswer(const TextRequest& request, const Asked& asked, Json echo, const Tools& tools);

  Json whole(const std::vector<TextPart>& texts, const Usage& usage) override;
  std::string begin(std::size_t index) override;
  std::string delta(const TextPart& part) override;
  std::string end(const Usage& usage) override;
  std::string fail(const Refusal& why, const Usage& usage) override;
  bool repeats() const override { return true; }

 private:
  void add(const TextPart& part);
  void add_part(const data::AnswerPart& part);
  Json logprobs_until(std::int64_t character);
  const char* status() const { return complete_ ? "completed" : "incomplete"; }
  Json response(std::string_view status, const std::optional<Usage>& usage) const;
  void event(const char* type, const Json& members);

  const data::Tokenizer& tokenizer_;
  const bool logprobs_;
  const Json head_, echo_;
  std::map<std::string, std::string> spaces_ = {};  // of functions that have one
  ResponseOutput output_;
  std::deque<ShownToken> tokens_ = {};  // that belong to no item yet
  std::int64_t characters_ = 0;         // of the message that the answer begins with
  bool begins_ = true;                  // there is nothing but that message
  std::string events_;                  // that nobody has taken yet
  std::int64_t next_number_ = 0;
  bool complete_ = true;
};

}  // namespace tapegrad::serve
