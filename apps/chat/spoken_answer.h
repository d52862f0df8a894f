#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/sample/sample_printer.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/answers/internal/answer_reader.h"
#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::chat {

// An answer as it is made, on its way to people: calls are on lines of their own, as
// → weather({"city":"Paris"}), and so are the marks of reasoning.
class SpokenAnswer {
 public:
  // `reading`: how the answer is taken apart; none: it is shown as the model writes it. `on_answer`
  // must outlive this.
  SpokenAnswer(const std::optional<data::AnswerReading>& reading,
               const sampling::OnText& on_answer);

  // False if nobody can see more of it.
  bool push(std::string_view piece);
  // The answer as a message, with "tool_calls" if it has any. A call to which the model gave no id
  // has one of nine letters and digits, as Mistral's templates want them: call00001, counted by
  // `calls`.
  data::Message end(std::int64_t& calls);

 private:
  void show(std::string_view text);
  void begin_line();
  void say(const std::vector<data::AnswerPart>& parts);
  void say_content(std::string_view text);
  void say_call(std::string_view name, const std::string& arguments);
  void end_reasoning();

  const sampling::OnText& on_answer_;
  std::optional<data::ReasoningMarks> marks_ = {};
  std::optional<data::AnswerReader> reader_ = {};
  std::string content_ = {}, reasoning_ = {};
  data::AnswerPart call_ = {};  // that is read; its text is that of its arguments
  Json calls_ = Json::array();
  bool in_line_ = false, in_reasoning_ = false, behind_call_ = false;
  bool seen_ = true;  // somebody can see more
};

}  // namespace tapegrad::chat
