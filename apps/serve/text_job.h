#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tapegrad/apps/serve/answer_parts.h"
#include "tapegrad/apps/serve/api/text_request.h"
#include "tapegrad/apps/serve/choice.h"
#include "tapegrad/apps/serve/engine.h"
#include "tapegrad/apps/serve/served_model.h"

namespace tapegrad::serve {

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  std::int64_t reasoning_tokens = 0;  // of completion_tokens
  std::int64_t spelled = 0;  // special tokens that messages spell, which are text; for the log
  Json json() const;
};

// The way back to whoever asked, from the engine's thread. What comes when nobody is there any more
// is lost.
class Reply {
 public:
  virtual ~Reply() = default;
  // The whole answer.
  virtual void send(http::Response response, const Usage& usage) = 0;
  // Or events, of which the first begins the stream and the last ends it, with what the status
  // would be if the header had not been sent before. Clients leave as soon as they have the last
  // one.
  virtual void event(std::string data) = 0;
  virtual void end(std::string last, int status, const Usage& usage) = 0;
};

// A part of a text of the answer, or all of it.
struct TextPart {
  std::size_t index = 0;  // which text of the answer
  std::string text = {};  // as the model writes it
  // The same taken apart, if TextPrompt::reading says how. What is not certain yet comes later.
  std::vector<data::AnswerPart> parts = {};
  std::vector<ShownToken> tokens = {};  // if the request asks for their log probabilities
  // Of a whole answer, if TextRequest::prompt_logprobs asks for it: the prompt's tokens from the
  // second one on.
  std::span<const nn::NewToken> prompt = {};
  // "stop", "length", or "tool_calls" if the text ended by itself, with calls that are whole.
  std::optional<std::string> finish = {};
};

// How an endpoint says what was made, one for each answer. Texts of events are as they are sent,
// and may be of several ones.
class TextFormat {
 public:
  virtual ~TextFormat() = default;
  // The answer to a request that wants no stream.
  virtual Json whole(const std::vector<TextPart>& texts, const Usage& usage) = 0;
  // Of a stream: what a text begins with, ""; a part of it, or its `finish` alone; the end of all;
  // an error in its place.
  virtual std::string begin(std::size_t index) = 0;
  virtual std::string delta(const TextPart& part) = 0;
  virtual std::string end(const Usage& usage) = 0;
  virtual std::string fail(const Refusal& why, const Usage& usage) = 0;
  // True if the end of a stream has all parts again, so that they are kept until then.
  virtual bool repeats() const { return false; }
  // True if whole() has the log probabilities of a prompt once for all its texts.
  virtual bool shares_prompt_logprobs() const { return false; }
};

// A prompt of a request, and what stands before its texts in the answer.
struct TextPrompt {
  nn::Tokens tokens;
  std::optional<std::string> echo = {};
  std::size_t unseen = 0;    // tokens at its beginning that are no part of the echo
  std::int64_t spelled = 0;  // see Usage
  // How its texts are taken apart, the echo with them. Without it they have no parts.
  std::optional<data::AnswerReading> reading = {};
};

// Makes the texts of a request and says them as a format does, at once or in a stream.
class TextJob : public Job {
 public:
  TextJob(const ServedModel& model, const TextRequest& request, std::vector<TextPrompt> prompts,
          std::unique_ptr<TextFormat> format, std::unique_ptr<Reply> reply);

  bool take(std::size_t text, nn::Generation::Taken taken) override;
  void finish() override;
  void fail(const Refusal& why) override;

 private:
  struct Answer {
    Choice choice;
    const TextPrompt& prompt;
    std::optional<AnswerParts> parts = {};
    std::vector<nn::NewToken> scores = {};  // of the prompt's tokens from the second one on
    bool begun = false;
    TextPart whole = {};  // but for what has been sent
  };

  void begin(std::size_t index, TextPart& part);
  void end(Answer& answer, std::string reason, TextPart& part);
  std::vector<ShownToken> echoed(const Answer& answer) const;
  void keep(TextPart part);
  void count_logprobs(std::string_view field, std::size_t tokens, std::int64_t top);
  void send(TextPart part);
  void event(std::string text);

  const ServedModel& model_;
  const TextRequest request_;
  const nn::GenerateOptions unscored_;  // of further texts of a prompt that has been scored
  const std::vector<TextPrompt> prompts_;
  const std::unique_ptr<TextFormat> format_;
  const std::unique_ptr<Reply> reply_;
  std::vector<Answer> answers_;
  Usage usage_;
  std::size_t kept_logprobs_ = 0;  // of all answers
  bool streaming_ = false;         // an event was sent
};

// Now, as answers say when they were made.
std::int64_t seconds_since_1970();
// A token as text: what is no UTF-8 as "bytes:\xe2\x80".
std::string legacy_token(const std::string& bytes);
// The log probability as a number that JSON has.
double shown_logprob(double logprob);

}  // namespace tapegrad::serve
