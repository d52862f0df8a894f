#include "tapegrad/apps/chat/spoken_answer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/internal/tool_lines.h"

namespace tapegrad::chat {

SpokenAnswer::SpokenAnswer(const std::optional<data::AnswerReading>& reading,
                           const sampling::OnText& on_answer)
    : on_answer_(on_answer) {
  if (!reading) return;
  marks_ = reading->reasoning;
  reader_.emplace(*reading);
}

void SpokenAnswer::show(std::string_view text) {
  if (text.empty()) return;
  in_line_ = text.back() != '\n';
  seen_ = on_answer_(text) && seen_;
}

void SpokenAnswer::begin_line() {
  if (in_line_) show("\n");
}

void SpokenAnswer::end_reasoning() {
  if (!std::exchange(in_reasoning_, false)) return;
  begin_line();
  show(marks_->end);
  begin_line();
}

void SpokenAnswer::say_call(std::string_view name, const std::string& arguments) {
  end_reasoning();
  begin_line();
  std::string given = arguments;  // on one line
  try {
    given = json_text(parse_json<Json>(arguments, data::kMostArgumentDepth));
  } catch (const Error&) {  // a name that comes twice, say
    std::replace(given.begin(), given.end(), '\n', ' ');
  }
  show(fmt::format("→ {}({})", name, given));
  behind_call_ = true;
}

void SpokenAnswer::say_content(std::string_view text) {
  end_reasoning();
  if (behind_call_) {  // on a line of its own, whatever white space stands there
    text = without_space_before(text);
    if (text.empty()) return;
    behind_call_ = false;
    begin_line();
  }
  show(text);
}

void SpokenAnswer::say(const std::vector<data::AnswerPart>& parts) {
  using Kind = data::AnswerPart::Kind;
  for (const data::AnswerPart& part : parts) {
    switch (part.kind) {
      case Kind::reasoning:
        if (!std::exchange(in_reasoning_, true)) {
          begin_line();
          show(marks_->begin);
          begin_line();
        }
        reasoning_ += part.text;
        show(part.text);
        break;
      case Kind::content:
        content_ += part.text;
        say_content(part.text);
        break;
      case Kind::call_begin:
        call_ = part;
        break;
      case Kind::call_arguments:
        call_.text += part.text;
        break;
      case Kind::call_end:
        say_call(call_.name, call_.text);
        calls_.push_back({{"id", call_.id},
                          {"type", "function"},
                          {"function", {{"name", call_.name}, {"arguments", call_.text}}}});
        break;
    }
  }
}

bool SpokenAnswer::push(std::string_view piece) {
  if (reader_) {
    say(reader_->push(piece));
  } else {
    content_ += piece;
    show(piece);
  }
  return seen_;
}

data::Message SpokenAnswer::end(std::int64_t& calls) {
  if (reader_) say(reader_->end());
  end_reasoning();
  Json message = {{"role", "assistant"}, {"content", content_}};
  // Templates that have other marks take the reasoning out of the content.
  if (!reasoning_.empty() && marks_->channels) {
    message["thinking"] = reasoning_;
  } else if (!reasoning_.empty()) {
    message["content"] =
        fmt::format("{}\n{}\n{}\n\n{}", marks_->begin, reasoning_, marks_->end, content_);
  }
  for (Json& call : calls_) {
    ++calls;
    if (call["id"] == "") call["id"] = fmt::format("call{:05}", calls);
  }
  if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
  return data::message_of_json(json_text(message));
}

}  // namespace tapegrad::chat
