#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/answers/internal/reasoning_marks.h"

namespace tapegrad::data {

// A part of an answer. Neighbours of one kind are one text that was cut.
struct AnswerPart {
  enum class Kind {
    content,
    reasoning,
    call_begin,      // `index`, `name` and `id`
    call_arguments,  // `index`, and a piece of the text of a JSON object
    call_end,        // `index`
  };
  Kind kind = Kind::content;
  std::string text = {};
  int index = 0;          // of the call: 0, 1, … in the answer
  std::string name = {};  // a known function's
  std::string id = {};    // "" if the model gave none
  bool operator==(const AnswerPart&) const = default;
};

struct AnswerReading {
  const CallFormat* calls = nullptr;  // nullptr: calls are text
  std::optional<ReasoningMarks> reasoning = std::nullopt;
  std::vector<std::string> functions = {};  // the names that a call may have
  bool within_reasoning = false;            // begins_within_reasoning()
  // A grammar keeps calls well-formed: they are said as they come. Otherwise, once they are
  // complete.
  bool held = false;
};

// Takes the text of an answer apart, as it comes. The text has its special tokens, such as
// [TOOL_CALLS], but not the one that ended it.
//
// Reasoning stands at the beginning or nowhere; calls, anywhere behind it. A call that is
// malformed, of an unknown function or without an end is content, as the model wrote it; one that
// lacks nothing but the mark behind it is a call at the end of the answer. White space before and
// behind reasoning, and around calls, belongs to no part. The parts, neighbours of one kind
// joined, do not depend on how the text was cut. Time is linear in the length of the text.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerReading reading);
  AnswerReader(AnswerReader&&) noexcept;
  AnswerReader& operator=(AnswerReader&&) noexcept;
  ~AnswerReader();

  // What the next piece of the text makes certain.
  std::vector<AnswerPart> push(std::string_view text);
  // The rest. Nothing may be pushed behind it. A call that is held and was cut has no call_end.
  std::vector<AnswerPart> end();

  // True as long as the next text may belong to reasoning: within it, and where it may begin.
  bool reasons() const;

  class Text;  // one form of answers

 private:
  std::unique_ptr<Text> text_;
};

}  // namespace tapegrad::data
