#include "tapegrad/data/chat/answers/internal/value_scanner.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"

namespace tapegrad::data {
namespace {

// A byte within a text of JSON.
void add_to_text(char c, std::string& json) {
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
  const std::size_t at = kNamed.find(c);
  if (at != std::string_view::npos) {
    json += {'\\', kNames[at]};
  } else if (static_cast<unsigned char>(c) < 0x20) {
    json += fmt::format("\\u{:04x}", static_cast<int>(c));
  } else {
    json += c;
  }
}

void add_code_point(std::uint32_t code, std::string& json) {
  if (code < 0x10000) {
    json += fmt::format("\\u{:04x}", code);
  } else {
    const std::uint32_t rest = code - 0x10000;
    json += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }
}

bool is_json_number(std::string_view text) {
  const auto digits = [&] {
    const std::size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(n);
    return n;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool zero = text.starts_with('0');
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return text.empty();
}

bool is_word(char c) { return is_name_character(c) || c == '+'; }

}  // namespace

bool ValueScanner::push(char c, std::string& json) {
  switch (state_) {
    case State::text:
      return in_text(c, json);
    case State::escape:
      return in_escape(c, json);
    case State::digits:
      return in_digits(c, json);
    case State::open:
      if (c != quote_[seen_]) return false;
      if (++seen_ == quote_.size()) begin_text(c, is_key_, json);
      return true;
    case State::bare_key:
      if (is_name_character(c)) {
        json += c;
        return true;
      }
      json += '"';
      state_ = State::colon;
      break;
    case State::word:
      if (is_word(c)) {
        word_ += c;
        return true;
      }
      if (!end_word(json)) return false;
      break;
    default:
      break;
  }
  if (is_space(c)) {
    if (syntax_ == ValueSyntax::json && !open_.empty()) json += c;
    return true;
  }
  switch (state_) {
    case State::first_value:
      if (c == ']') return end_container(c, json);
      [[fallthrough]];
    case State::value:
      return begin_value(c, json);
    case State::first_key:
      if (c == '}' || c == ')') return end_container(c, json);
      [[fallthrough]];
    case State::key:
      return begin_key(c, json);
    case State::colon:
      if (c != (open_.back() == '(' ? '=' : ':')) return false;
      json += ':';
      state_ = State::value;
      return true;
    case State::next:
      if (c != ',') return end_container(c, json);
      json += ',';
      state_ = open_.back() == '[' ? State::value : State::key;
      return true;
    default:
      return false;
  }
}

bool ValueScanner::begin_value(char c, std::string& json) {
  const bool quote = c == '"' || (c == '\'' && syntax_ == ValueSyntax::python);
  if (syntax_ == ValueSyntax::gemma ? c == quote_.front() : quote) {
    begin_text(c, false, json);
    return true;
  }
  const bool arguments = c == '(' && syntax_ == ValueSyntax::python && open_.empty();
  if (c == '[' || c == '{' || arguments) return begin_container(c, json);
  if (open_.empty() || !is_word(c)) return false;
  word_ = c;
  state_ = State::word;
  return true;
}

bool ValueScanner::begin_key(char c, std::string& json) {
  const bool bare = open_.back() == '(' || syntax_ == ValueSyntax::gemma;
  if (bare && is_name_character(c)) {
    json += {'"', c};
    state_ = State::bare_key;
    return true;
  }
  const bool quoted = syntax_ == ValueSyntax::gemma ? c == quote_.front()
                      : open_.back() == '('
                          ? false
                          : c == '"' || (c == '\'' && syntax_ == ValueSyntax::python);
  if (quoted) begin_text(c, true, json);
  return quoted;
}

bool ValueScanner::begin_container(char c, std::string& json) {
  if (open_.size() == kMostArgumentDepth) return false;
  open_.push_back(c);
  json += c == '(' ? '{' : c;
  state_ = c == '[' ? State::first_value : State::first_key;
  return true;
}

bool ValueScanner::end_container(char c, std::string& json) {
  const char begin = open_.back();
  if (c != (begin == '[' ? ']' : begin == '{' ? '}' : ')')) return false;
  json += begin == '[' ? ']' : '}';
  open_.pop_back();
  value_ended();
  return true;
}

void ValueScanner::value_ended() { state_ = open_.empty() ? State::done : State::next; }

// Of gemma, the quote's first byte begins it, and its last one the text.
void ValueScanner::begin_text(char c, bool key, std::string& json) {
  is_key_ = key;
  const bool within_quote = syntax_ == ValueSyntax::gemma && state_ != State::open;
  if (within_quote) {
    seen_ = 1;
    state_ = State::open;
    return;
  }
  seen_ = 0;
  delimiter_ = c;
  json += '"';
  state_ = State::text;
}

void ValueScanner::end_text(std::string& json) {
  json += '"';
  state_ = State::colon;
  if (!is_key_) value_ended();
}

bool ValueScanner::in_text(char c, std::string& json) {
  if (syntax_ == ValueSyntax::gemma) {
    in_quoted(c, json);
  } else if (c == delimiter_) {
    end_text(json);
  } else if (c == '\\') {
    if (syntax_ == ValueSyntax::json) json += c;
    state_ = State::escape;
  } else if (syntax_ == ValueSyntax::json) {
    if (static_cast<unsigned char>(c) < 0x20) return false;
    json += c;
  } else {
    add_to_text(c, json);
  }
  return true;
}

// The first byte of a quote is not in it a second time.
void ValueScanner::in_quoted(char c, std::string& json) {
  if (c == quote_[seen_]) {
    if (++seen_ == quote_.size()) end_text(json);
    return;
  }
  for (const char earlier : quote_.substr(0, seen_)) add_to_text(earlier, json);
  seen_ = c == quote_.front() ? 1 : 0;
  if (seen_ == 0) add_to_text(c, json);
}

bool ValueScanner::in_escape(char c, std::string& json) {
  state_ = State::text;
  if (syntax_ == ValueSyntax::json) {
    json += c;
    if (c != 'u') return std::string_view(R"("\/bfnrt)").find(c) != std::string_view::npos;
  } else {
    constexpr std::string_view kNames = "abfnrtv0'\"\\";
    constexpr std::string_view kBytes("\a\b\f\n\r\t\v\0'\"\\", 11);
    const std::size_t at = kNames.find(c);
    if (c == '\n') return true;  // the text goes on in the next line
    if (c == 'N') return false;  // a character's name
    if (at != std::string_view::npos) {
      add_to_text(kBytes[at], json);
      return true;
    }
    if (c != 'x' && c != 'u' && c != 'U') {  // as it stands
      add_to_text('\\', json);
      add_to_text(c, json);
      return true;
    }
  }
  awaited_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
  word_.clear();
  state_ = State::digits;
  return true;
}

bool ValueScanner::in_digits(char c, std::string& json) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (kDigits.find(lower) == std::string_view::npos) return false;
  word_ += lower;
  if (syntax_ == ValueSyntax::json) json += c;
  if (word_.size() < awaited_) return true;
  state_ = State::text;
  if (syntax_ == ValueSyntax::json) return true;
  std::uint32_t code = 0;
  for (const char digit : word_) {
    code = code * 16 + static_cast<std::uint32_t>(kDigits.find(digit));
  }
  if (code > 0x10FFFF) return false;
  add_code_point(code, json);
  return true;
}

bool ValueScanner::end_word(std::string& json) {
  const bool other = syntax_ != ValueSyntax::json;
  if (other && word_ == "True") word_ = "true";
  if (other && word_ == "False") word_ = "false";
  if (other && word_ == "None") word_ = "null";
  if (word_ != "true" && word_ != "false" && word_ != "null" && !is_json_number(word_))
    return false;
  json += word_;
  value_ended();
  return true;
}

}  // namespace tapegrad::data
