#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/sample/sample_printer.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/answers/internal/answer_reader.h"
#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::chat {

struct ChatOptions {
  sampling::SampleOptions sample{
      .generate = {.max_new_tokens = 1000, .temperature = 0.8, .top_k = 200}};
  std::optional<data::ChatTemplate> chat_template = {};  // none: what was said is continued
  std::string variables = {};                            // of the template, as the text of JSON
  std::string system = {};                               // the first message, if it is not empty
  std::string tools = {};                                // of data::Conversation; for a template
  std::uint64_t seed = 1337;
};

// The functions of a file, for ChatOptions::tools. Error, naming the file, if it has none.
std::string tools_of_file(const std::string& path);

// A conversation with a model: what was said, and the model's state behind it. Keys and values stay
// from turn to turn: the model reads what is new, and what a template writes in another way than
// before.
class ChatSession {
 public:
  // `model` must outlive the session.
  ChatSession(const run::TextModel& model, ChatOptions options);

  // Adds a message, and passes the answer on as it is made. The answer is part of the conversation,
  // as far as it came if a signal ended it. Error, and nothing is added, if the template refuses
  // the conversation or the model does not know a character.
  //
  // While calls of the last answer wait for their results, the message is the result of the first
  // of these, and there is an answer behind the last result alone. False if there is none yet.
  bool say(const std::string& message, const sampling::OnText& on_answer);
  // The name of the function whose result the next message is; "" if it is the user's.
  std::string waiting_call() const;
  // Makes the last answer anew; results of its calls are forgotten. False if there is none.
  bool retry(const sampling::OnText& on_answer);
  // Goes on with the last answer, of which it passes on what is new. False if there is none. Error
  // if a call of it waits for its result.
  bool go_on(const sampling::OnText& on_answer);
  // Forgets all but the system's message, or replaces that, too.
  void reset();
  void reset(std::string system);

  // One line of JSON: {"messages": […]}, with "tools" if there are any, or {"text": …} of a model
  // without a template, as corpora have them.
  std::string json_line() const;
  bool empty() const { return conversation_.messages.empty() && text_.empty(); }
  bool has_template() const { return options_.chat_template.has_value(); }
  const std::string& system() const { return options_.system; }
  // Prints the last line: how fast prompts were read and answers made.
  void print_rate();

 private:
  data::Conversation with_system() const;  // and with tools
  // Changes what was said by `make`; not at all if that throws.
  template <class F>
  void change(const F& make);
  // The calls of the last answer that have no result, a list of JSON.
  Json waiting_calls() const;
  data::RenderedChat prompt(bool goes_on);
  // How an answer to this prompt is taken apart, if there are tools.
  std::optional<data::AnswerReading> reading(const std::string& prompt, bool goes_on) const;
  data::Message answer(const sampling::OnText& on_answer, bool goes_on = false);

  const run::TextModel& model_;
  ChatOptions options_;
  nn::GenerateOptions generate_;
  sampling::SamplePrinter printer_;
  nn::Generation generation_;
  std::vector<std::string> functions_;  // names of the tools
  std::uint64_t answers_ = 0;           // that were made
  std::int64_t calls_ = 0;              // that were made
  data::Conversation conversation_;     // without the system's message
  std::string text_;                    // of a model without a template
  std::size_t answer_begin_ = 0;        // of the last answer in text_
  bool said_spelled_ = false;           // that messages spell special tokens
};

}  // namespace tapegrad::chat
