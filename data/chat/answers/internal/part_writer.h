#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/answers/internal/answer_reader.h"
#include "tapegrad/data/chat/answers/internal/call_scanner.h"

namespace tapegrad::data {

// The parts of an answer, as they are said. White space waits until it is known whether anything
// follows: none is said before reasoning and behind it, and none around calls, but for what is
// between two texts.
class PartWriter {
 public:
  // `calls`: calls may follow a content. `reasoning`: reasoning may stand before it.
  PartWriter(bool calls, bool reasoning) : calls_(calls), reasoning_(reasoning) {}

  void content(char c);
  void content(std::string_view text);
  void begin_reasoning();  // what is said a second time begins on a line of its own
  void reasoning(char c);
  void end_reasoning();
  void next_line();  // what follows is a message of its own
  // Says what is new in the calls of a block; true if there was anything.
  bool calls(const std::vector<ScannedCall>& calls);
  void end_calls();
  // The answer is over.
  void end();

  bool any_content() const { return any_content_; }
  bool any_reasoning() const { return any_reasoning_; }
  bool any_calls() const { return index_ > 0; }
  std::vector<AnswerPart> take();

 private:
  void add(AnswerPart::Kind kind, std::string_view text);

  bool calls_, reasoning_;
  std::vector<AnswerPart> parts_ = {};
  std::string space_ = {};  // waits
  bool trims_ = false;      // white space before the content is dropped
  bool in_reasoning_ = false;
  bool any_content_ = false, any_reasoning_ = false;
  std::size_t said_ = 0;        // calls of the block
  bool open_ = false;           // a call has begun that has not ended
  std::size_t said_bytes_ = 0;  // of its arguments
  int index_ = 0;
};

}  // namespace tapegrad::data
