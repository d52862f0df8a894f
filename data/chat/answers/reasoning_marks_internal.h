#pragma once

#include <optional>
#include <string_view>

#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::data {

// What stands around the reasoning that an answer begins with.
struct ReasoningMarks {
  std::string_view begin, end;
  // The answer is a sequence of messages, each with a header that names its channel: gpt-oss.
  bool channels = false;
};

// The marks of a template's models; nothing if it has none that are known.
std::optional<ReasoningMarks> reasoning_marks_of(const ChatTemplate& chat_template);
// True if the answer to this prompt begins within the reasoning: the prompt ends with `begin`,
// white space behind it aside.
bool begins_within_reasoning(std::string_view prompt, const ReasoningMarks& marks);

}  // namespace tapegrad::data
