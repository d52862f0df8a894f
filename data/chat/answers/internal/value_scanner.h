#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::data {

// How the values of arguments are written.
enum class ValueSyntax {
  json,
  python,  // 'text', "text", True, False, None; keyword arguments between ( and )
  gemma,   // texts between two quotes; names of members without any
};

// A text or a container that is read byte by byte, and written as JSON: JSON as it stands, other
// syntaxes without white space. A byte that no such value has is refused at once, but for those of
// numbers and of words, which are judged at their end. Containers are nested at most
// kMostArgumentDepth deep.
class ValueScanner {
 public:
  // `quote`: of gemma.
  explicit ValueScanner(ValueSyntax syntax, std::string_view quote = {})
      : syntax_(syntax), quote_(quote) {}

  // Appends what the next byte adds to `json`; false if no value goes on so. White space may come
  // before the value. Nothing may be pushed once it is complete.
  bool push(char c, std::string& json);
  bool complete() const { return state_ == State::done; }

 private:
  enum class State {
    value,        // expects one
    first_value,  // the same, or the end of the list
    first_key,    // expects a member's name, or the end of the container
    key,
    bare_key,  // within a name without quotes
    colon,
    next,  // expects a comma or the end of the container
    open,  // within the quote that begins a text
    text,
    escape,
    digits,  // hexadecimal ones of an escape
    word,    // within a number, or true, false and null
    done,
  };
  bool begin_value(char c, std::string& json);
  bool begin_key(char c, std::string& json);
  bool begin_container(char c, std::string& json);
  bool end_container(char c, std::string& json);
  void begin_text(char c, bool key, std::string& json);
  bool in_text(char c, std::string& json);
  void in_quoted(char c, std::string& json);
  void end_text(std::string& json);
  bool in_escape(char c, std::string& json);
  bool in_digits(char c, std::string& json);
  bool end_word(std::string& json);
  void value_ended();

  ValueSyntax syntax_;
  std::string_view quote_;
  State state_ = State::value;
  std::vector<char> open_ = {};  // '[', '{' or '(' of each container
  bool is_key_ = false;          // the text is a member's name
  char delimiter_ = '"';         // of the text
  std::size_t seen_ = 0;         // bytes of the quote
  std::size_t awaited_ = 0;      // digits of an escape
  std::string word_ = {};
};

}  // namespace tapegrad::data
