#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/chat/answers/internal/value_scanner.h"

namespace tapegrad::data {

// A call, as far as it is read.
struct ScannedCall {
  std::string name = {};
  std::string id = {};         // "" if the model gave none
  std::string arguments = {};  // an object, as the text of JSON
  bool named = false;          // the name is a known function's, and the arguments have begun
  bool complete = false;
};

// The body of one call or of a list of calls, read byte by byte. Whatever the format's body is, a
// list of objects may stand for an object and the other way round, and "parameters" for
// "arguments", as vLLM reads them. Members of the object that are no part of a call refuse it.
class CallScanner {
 public:
  // `functions` must outlive it.
  CallScanner(const CallFormat& format, const std::vector<std::string>& functions)
      : format_(format), functions_(functions) {}

  // False if no body goes on so. Nothing may be pushed once it is complete.
  bool push(char c);
  bool complete() const { return state_ == State::done; }
  const std::vector<ScannedCall>& calls() const { return calls_; }

 private:
  enum class State {
    start,
    element,  // expects a call of a list
    prefix,   // within gemma's "call:"
    name,
    tail,  // between the name and {
    arguments,
    first_key,
    key,
    in_key,
    colon,
    value,
    in_value,
    in_arguments,  // of an object
    next_key,
    next,  // expects a comma or the end of the list
    done,
  };
  bool begin(char c);
  bool begin_call(char c);
  bool in_name(char c);
  bool in_tail(char c);
  bool end_name(char c);
  bool begin_value(char c);
  bool end_value();
  bool object(char c);
  bool end_call();
  bool known(std::string_view name) const;

  const CallFormat& format_;
  const std::vector<std::string>& functions_;
  State state_ = State::start;
  bool list_ = false;
  std::size_t seen_ = 0;   // bytes of the prefix
  std::string tail_ = {};  // what stands between the name and {
  std::string key_ = {}, text_ = {};
  std::vector<std::string> keys_ = {};  // of the object
  ValueScanner scanner_{ValueSyntax::json};
  std::vector<ScannedCall> calls_ = {};
};

// A call with its marks: what could still be one, and what is its text if it is none.
class CallBlock {
 public:
  enum class Step { more, done, failed };
  // `text`: what was read before the body. `ends`: the marks of which one ends the block; without
  // any the body does. `name`: what the body begins with, if the text has it already.
  CallBlock(const CallFormat& format, const std::vector<std::string>& functions, std::string text,
            std::vector<std::string_view> ends, std::string_view name)
      : scanner_(format, functions),
        begin_(text.size()),
        text_(std::move(text)),
        ends_(std::move(ends)) {
    for (const char c : name) scanner_.push(c);
  }

  // The byte is not a part of the text if it failed.
  Step push(char c);
  bool body_complete() const { return scanner_.complete(); }
  const std::vector<ScannedCall>& calls() const { return scanner_.calls(); }
  const std::string& text() const { return text_; }
  std::size_t begin() const { return begin_; }        // bytes of the text before the body
  std::string_view end_mark() const { return end_; }  // as far as it is read

 private:
  CallScanner scanner_;
  std::size_t begin_;
  std::string text_;
  std::vector<std::string_view> ends_;
  std::string end_ = {};
};

}  // namespace tapegrad::data
