#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/data/chat/answers/internal/answer_reader.h"
#include "tapegrad/data/chat/answers/internal/call_scanner.h"
#include "tapegrad/data/chat/answers/internal/part_writer.h"

namespace tapegrad::data {

// Finds marks in a text that comes byte by byte, of which none begins with another. Keeps no more
// than what could still become one.
class MarkFinder {
 public:
  // Calls `out` for each byte that is in no mark; true if the byte completes a mark. `marks` may
  // change in between.
  template <class Out>
  bool push(char c, const std::vector<std::string_view>& marks, const Out& out) {
    kept_ += c;
    while (!kept_.empty()) {
      bool may_be = false;
      for (const std::string_view mark : marks) {
        if (mark == kept_) {
          found_ = std::exchange(kept_, {});
          return true;
        }
        may_be = may_be || mark.starts_with(kept_);
      }
      if (may_be) return false;
      const char first = kept_.front();
      kept_.erase(0, 1);
      out(first);
    }
    return false;
  }
  const std::string& found() const { return found_; }
  std::string take() { return std::exchange(kept_, {}); }

 private:
  std::string kept_ = {}, found_ = {};
};

// How one form of answers is read.
class AnswerReader::Text {
 public:
  explicit Text(AnswerReading reading)
      : reading_(std::move(reading)),
        writer_(reading_.calls != nullptr, reading_.reasoning.has_value()) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  virtual ~Text() = default;

  virtual void push(char c) = 0;
  virtual bool reasons() const = 0;  // see AnswerReader
  void end();
  std::vector<AnswerPart> take() { return writer_.take(); }

 protected:
  // The text is over, outside of a call.
  virtual void end_text() = 0;
  // What becomes of a call's text that is none, and of the byte that shows it. `body`: the bytes at
  // its end that are behind the begin mark.
  virtual void push_failed(std::string_view text, std::size_t body, char c) = 0;
  // A call has ended by this mark.
  virtual void end_call(std::string_view /*mark*/) {}
  void begin_call(std::string text, std::vector<std::string_view> ends, std::string_view name = {});
  // The next byte of the call.
  void push_call(char c);
  // Nothing has been said, and no call has begun.
  bool at_start() const {
    return !block_ && !writer_.any_content() && !writer_.any_calls() && !writer_.any_reasoning();
  }

  AnswerReading reading_;
  PartWriter writer_;
  std::optional<CallBlock> block_ = {};  // the call that is read
  std::size_t said_ = 0;                 // bytes of its text that its parts have said

 private:
  bool say_calls();
};

}  // namespace tapegrad::data
