#include "tapegrad/data/chat/answers/internal/call_scanner.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "tapegrad/base/text/internal/spaces.h"

namespace tapegrad::data {
namespace {

constexpr std::string_view kGemmaPrefix = "call:";
constexpr std::string_view kCallId = "[CALL_ID]";  // of Mistral, before the arguments
constexpr std::size_t kMostTail = 128;

// What stands between a name and its arguments: an id or none, the mark `between` or none.
struct Tail {
  bool complete = false;
  bool may_be = false;  // complete, or the beginning of one that is
  std::string_view id = {};
};

Tail read_tail(std::string_view text, std::string_view between) {
  Tail tail;
  text = without_space_before(text);
  bool more = kCallId.starts_with(text);
  if (text.starts_with(kCallId)) {
    text.remove_prefix(kCallId.size());
    const auto* const end = std::find_if_not(text.begin(), text.end(), is_name_character);
    tail.id = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    text = without_space_before(text.substr(tail.id.size()));
    more = false;
  }
  if (text.starts_with(between)) {
    text = without_space_before(text.substr(between.size()));
  } else {
    more = more || between.starts_with(text);
  }
  tail.complete = text.empty();
  tail.may_be = more || tail.complete;
  return tail;
}

}  // namespace

bool CallScanner::known(std::string_view name) const {
  return std::find(functions_.begin(), functions_.end(), name) != functions_.end();
}

bool CallScanner::push(char c) {
  switch (state_) {
    case State::start:
      return is_space(c) || begin(c);
    case State::element:
      return is_space(c) || begin_call(c);
    case State::prefix:
      if (c != kGemmaPrefix[seen_]) return false;
      if (++seen_ == kGemmaPrefix.size()) {
        calls_.emplace_back();
        state_ = State::name;
      }
      return true;
    case State::name:
      return in_name(c);
    case State::tail:
      if (c == '{') return end_name(c);
      return in_tail(c);
    case State::arguments:
      if (!scanner_.push(c, calls_.back().arguments)) return false;
      return !scanner_.complete() || end_call();
    case State::next:
      if (is_space(c)) return true;
      state_ = c == ',' ? State::element : State::done;
      return c == ',' || c == ']';
    case State::done:
      return false;
    default:
      return object(c);
  }
}

bool CallScanner::begin(char c) {
  if (format_.body == CallBody::gemma) {
    state_ = State::prefix;
    return push(c);
  }
  if (format_.body == CallBody::name_then_object) return begin_call(c);
  list_ = c == '[';
  if (list_) state_ = State::element;
  return list_ || (c == '{' && begin_call(c));
}

bool CallScanner::begin_call(char c) {
  const bool named = format_.body == CallBody::name_then_object || format_.body == CallBody::python;
  calls_.emplace_back();
  keys_.clear();
  if (c == '{' && format_.body != CallBody::name_then_object) {
    state_ = State::first_key;
    return true;
  }
  state_ = State::name;
  return named && is_name_character(c) && in_name(c);
}

bool CallScanner::in_name(char c) {
  std::string& name = calls_.back().name;
  if (is_name_character(c)) {
    name += c;
    return true;
  }
  if (!known(name)) return false;
  if (format_.body == CallBody::name_then_object) {
    state_ = State::tail;
    return push(c);
  }
  const char begin = format_.body == CallBody::python ? '(' : '{';
  return c == begin && end_name(c);
}

bool CallScanner::in_tail(char c) {
  tail_ += c;
  return tail_.size() <= kMostTail && read_tail(tail_, without_space(format_.between)).may_be;
}

// The arguments begin with c.
bool CallScanner::end_name(char c) {
  ScannedCall& call = calls_.back();
  if (format_.body == CallBody::name_then_object) {
    const Tail tail = read_tail(tail_, without_space(format_.between));
    if (!tail.complete) return false;
    call.id = tail.id;
  }
  const ValueSyntax syntax = format_.body == CallBody::python  ? ValueSyntax::python
                             : format_.body == CallBody::gemma ? ValueSyntax::gemma
                                                               : ValueSyntax::json;
  scanner_ = ValueScanner(syntax, format_.quote);
  call.named = true;
  state_ = State::arguments;
  return scanner_.push(c, call.arguments);
}

// Within {"name": "f", "arguments": {…}}.
bool CallScanner::object(char c) {
  if (state_ == State::in_arguments) {
    if (!scanner_.push(c, calls_.back().arguments)) return false;
    if (scanner_.complete()) state_ = State::next_key;
    return true;
  }
  if (state_ == State::in_key || state_ == State::in_value) {
    if (!scanner_.push(c, text_)) return false;
    return !scanner_.complete() || end_value();
  }
  if (is_space(c)) return true;
  switch (state_) {
    case State::first_key:
    case State::key:
      text_.clear();
      scanner_ = ValueScanner(ValueSyntax::json);
      state_ = State::in_key;
      return c == '"' && scanner_.push(c, text_);
    case State::colon:
      state_ = State::value;
      return c == ':';
    case State::value:
      return begin_value(c);
    default:  // next_key
      state_ = State::key;
      return c == ',' || (c == '}' && end_call());
  }
}

bool CallScanner::begin_value(char c) {
  scanner_ = ValueScanner(ValueSyntax::json);
  ScannedCall& call = calls_.back();
  if (key_ == "arguments" || key_ == "parameters") {
    if (!call.arguments.empty() || c != '{') return false;
    call.named = !call.name.empty();
    state_ = State::in_arguments;
    return scanner_.push(c, call.arguments);
  }
  text_.clear();
  state_ = State::in_value;
  return (key_ == "name" || key_ == "id" || key_ == "type") && c == '"' && scanner_.push(c, text_);
}

// The text, which has no escapes if it is one that a call may have.
bool CallScanner::end_value() {
  if (text_.find('\\') != std::string::npos) return false;
  const std::string text = text_.substr(1, text_.size() - 2);
  if (state_ == State::in_key) {
    state_ = State::colon;
    key_ = text;
    const bool twice = std::find(keys_.begin(), keys_.end(), text) != keys_.end();
    keys_.push_back(text);
    return !twice;
  }
  state_ = State::next_key;
  ScannedCall& call = calls_.back();
  if (key_ == "id") call.id = text;
  if (key_ == "name") call.name = text;
  return key_ != "name" || known(text);
}

bool CallScanner::end_call() {
  ScannedCall& call = calls_.back();
  if (call.name.empty()) return false;
  if (call.arguments.empty()) call.arguments = "{}";
  call.named = call.complete = true;
  state_ = list_ ? State::next : State::done;
  return true;
}

CallBlock::Step CallBlock::push(char c) {
  if (!scanner_.complete()) {
    if (!scanner_.push(c)) return Step::failed;
    text_ += c;
    return scanner_.complete() && ends_.empty() ? Step::done : Step::more;
  }
  if (!end_.empty() || !is_space(c)) {
    const std::string longer = end_ + c;
    const bool goes_on = std::any_of(ends_.begin(), ends_.end(), [&](std::string_view mark) {
      return mark.starts_with(longer);
    });
    if (!goes_on) return Step::failed;
    end_ = longer;
  }
  text_ += c;
  return std::find(ends_.begin(), ends_.end(), end_) == ends_.end() ? Step::more : Step::done;
}

}  // namespace tapegrad::data
