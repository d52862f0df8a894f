#include "tapegrad/data/jinja/syntax/internal/lexer.h"

#include <algorithm>
#include <array>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/data/jinja/internal/value.h"
#include "tapegrad/data/jinja/syntax/internal/string_literal.h"

namespace tapegrad::data::jinja {
namespace {

constexpr std::array<std::string_view, 25> kSigns = {
    "==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Line breaks as "\n"; one at the end is no part of a template.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    add(TokenKind::end);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool next_is(std::string_view text) const { return rest().starts_with(text); }
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(message, line_); }

  void add(TokenKind kind, std::string_view text = {}) {
    tokens_.push_back({.kind = kind, .text = std::string(text), .line = line_});
  }
  // Goes on by so many bytes.
  void skip(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
    line_starts_ = bytes > 0 ? source_[at_ - 1] == '\n' : line_starts_;
  }
  std::size_t space_size(std::string_view text) const {
    return text.size() - strip_left(text).size();
  }

  // Text up to the next tag, without what the tag takes away before it: with '-' all white space,
  // else the blanks from the line's start.
  void add_data(std::string_view text, char sign, bool variable) {
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && !variable) {
      const std::size_t line = text.rfind('\n') + 1;  // 0 if there is none
      const std::string_view last = text.substr(line);
      const bool blank = !last.empty() && strip_left(last).empty();
      if ((line > 0 || line_starts_) && blank) text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::data, text);
  }

  void lex_data() {
    const std::string_view text = rest();
    std::size_t at = 0;
    for (;; ++at) {
      at = text.find('{', at);
      if (at == text.npos || at + 1 == text.size()) {
        add(TokenKind::data, text);
        return skip(text.size());
      }
      if (text[at + 1] == '{' || text[at + 1] == '%' || text[at + 1] == '#') break;
    }
    const char kind = text[at + 1];
    const char sign = at + 2 < text.size() ? text[at + 2] : char{0};
    const bool signed_tag = sign == '-' || sign == '+';
    add_data(text.substr(0, at), sign, kind == '{');
    skip(at);
    const std::size_t tag = signed_tag ? 3 : 2;
    skip(tag);
    if (kind == '#') return skip_comment();
    lex_tag(kind == '{');
  }

  // A comment of which nothing is there but its begin is no error to Jinja.
  void skip_comment() {
    if (rest().empty()) return;
    const std::size_t end = rest().find("#}");
    if (end == std::string_view::npos) fail("Missing end of comment tag");
    const char sign = end > 0 ? rest()[end - 1] : char{0};
    skip(end + 2);
    skip_behind(sign, true);
  }

  // White space that the end of a tag takes away.
  void skip_behind(char sign, bool trims_line) {
    if (sign == '-') {
      skip(space_size(rest()));
    } else if (sign != '+' && trims_line && next_is("\n")) {
      skip(1);
    }
  }

  void lex_tag(bool variable) {
    add(variable ? TokenKind::variable_begin : TokenKind::block_begin);
    const std::string_view end = variable ? "}}" : "%}";
    std::vector<char> open;  // brackets
    for (;;) {
      skip(space_size(rest()));
      if (at_ == source_.size()) {
        add(TokenKind::end);  // the parser says what is missing
        return;
      }
      if (open.empty()) {
        const char sign = next_is("-") || (!variable && next_is("+")) ? rest()[0] : char{0};
        if (rest().substr(sign != 0 ? 1 : 0).starts_with(end)) {
          add(variable ? TokenKind::variable_end : TokenKind::block_end);
          skip(sign != 0 ? 3 : 2);
          return skip_behind(sign, !variable);
        }
      }
      lex_token(open);
    }
  }

  void lex_token(std::vector<char>& open) {
    const char c = rest()[0];
    if (is_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string(c);
    const Utf8Char first = first_char(rest());
    if (is_word(first.code_point)) return lex_name();
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(),
                                   [&](std::string_view known) { return next_is(known); });
    if (sign == kSigns.end()) {
      fail(fmt::format("unexpected char {}", describe_char(first.code_point)));
    }
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail(fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    add(TokenKind::sign, *sign);
    skip(sign->size());
  }

  void lex_name() {
    std::size_t size = 0;
    while (size < rest().size()) {
      const Utf8Char c = first_char(rest().substr(size));
      if (!is_word(c.code_point)) break;
      size += c.size;
    }
    add(TokenKind::name, rest().substr(0, size));
    skip(size);
  }

  std::size_t digits_from(std::size_t from) const {
    std::size_t at = from;
    while (at < rest().size() && is_digit(rest()[at])) ++at;
    return at - from;
  }

  void lex_number() {
    Token token{.kind = TokenKind::integer, .line = line_};
    std::size_t size = digits_from(0);
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!behind_dot && rest().substr(size).starts_with('.') && digits_from(size + 1) > 0) {
      token.kind = TokenKind::real;
      size += 1 + digits_from(size + 1);
      const auto value = number_of<double>(rest().substr(0, size));
      if (!value) fail("a number is out of range");
      token.real = *value;
    } else {
      const auto value = number_of<std::int64_t>(rest().substr(0, size));
      if (!value) fail("an integer needs more than 64 bits");
      token.integer = *value;
      const bool is_zero = token.integer == 0;  // no other number begins with one
      if (rest()[0] == '0' && !is_zero) fail("a number begins with 0");
    }
    if (size < rest().size() && is_word(first_char(rest().substr(size)).code_point)) {
      fail(fmt::format("numbers are written as 12 or 1.5, and not as {}...",
                       rest().substr(0, size + first_char(rest().substr(size)).size)));
    }
    token.text = std::string(rest().substr(0, size));
    tokens_.push_back(std::move(token));
    skip(size);
  }

  void lex_string(char quote) {
    std::size_t end = 1;
    while (end < rest().size() && rest()[end] != quote) end += rest()[end] == '\\' ? 2 : 1;
    if (end >= rest().size()) fail(fmt::format("unexpected char '{}'", quote));
    std::string text;
    try {
      text = unescaped(rest().substr(1, end - 1));
    } catch (const TemplateError& error) {
      fail(error.message());
    }
    add(TokenKind::string, text);
    skip(end + 1);
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  if (const auto at = find_invalid_utf8(source)) {
    raise("the template is not in UTF-8: byte {}", *at);
  }
  return Lexer(normalized(source)).run();
}

}  // namespace tapegrad::data::jinja
