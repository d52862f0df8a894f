#include "tapegrad/data/jinja/syntax/internal/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

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
    if (kind == '%' && lex_raw(tag)) return;
    skip(tag);
    if (kind == '#') return skip_comment();
    lex_tag(kind == '{');
  }

  // A comment or raw text of which nothing is there but its begin is no error to Jinja.
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

  // {% raw %} … {% endraw %}, if that is here.
  bool lex_raw(std::size_t tag) {
    std::string_view text = rest().substr(tag);
    const auto take = [&](std::string_view word) {
      text = strip_left(text);
      if (!text.starts_with(word)) return false;
      text.remove_prefix(word.size());
      text = strip_left(text);
      return true;
    };
    if (!take("raw")) return false;
    const bool strips = text.starts_with("-%}");
    if (!strips && !text.starts_with("%}")) return false;
    text.remove_prefix(strips ? 3 : 2);
    if (strips) text = strip_left(text);
    skip(rest().size() - text.size());
    if (text.empty()) return true;
    for (std::size_t at = text.find("{%"); at != text.npos; at = text.find("{%", at + 1)) {
      const std::string_view inside = text.substr(0, at);
      std::string_view behind = text.substr(at + 2);
      const char sign = behind.empty() ? char{0} : behind[0];
      if (sign == '-' || sign == '+') behind.remove_prefix(1);
      behind = strip_left(behind);
      if (!behind.starts_with("endraw")) continue;
      behind = strip_left(behind.substr(6));
      const char end_sign = behind.empty() ? char{0} : behind[0];
      if (end_sign == '-' || end_sign == '+') behind.remove_prefix(1);
      if (!behind.starts_with("%}")) continue;
      add_data(inside, sign, false);
      skip(text.size() - behind.size() + 2);
      skip_behind(end_sign, true);
      return true;
    }
    fail("Missing end of raw directive");
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

  // Digits with single _ between them, from `from` on; the number of bytes.
  std::size_t digits_from(std::size_t from) const {
    std::size_t at = from;
    while (at < rest().size() &&
           (is_digit(rest()[at]) || (rest()[at] == '_' && at > from && at + 1 < rest().size() &&
                                     is_digit(rest()[at + 1])))) {
      ++at;
    }
    return at - from;
  }

  std::optional<std::size_t> real_size() const {
    const auto at = [&](std::size_t i) { return i < rest().size() ? rest()[i] : char{0}; };
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
    std::size_t size = digits_from(0);
    bool real = false;
    if (behind_dot) return std::nullopt;
    if (at(size) == '.' && digits_from(size + 1) > 0) {
      size += 1 + digits_from(size + 1);
      real = true;
    }
    if (at(size) == 'e' || at(size) == 'E') {
      const std::size_t sign = at(size + 1) == '+' || at(size + 1) == '-' ? 1 : 0;
      if (const std::size_t digits = digits_from(size + 1 + sign); digits > 0) {
        size += 1 + sign + digits;
        real = true;
      }
    }
    return real ? std::optional(size) : std::nullopt;
  }

  void lex_number() {
    const auto without_marks = [](std::string_view text) {
      std::string digits(text);
      std::erase(digits, '_');
      return digits;
    };
    Token token{.kind = TokenKind::real, .line = line_};
    std::size_t size = 0;
    if (const auto real = real_size()) {
      size = *real;
      const auto value = number_of<double>(without_marks(rest().substr(0, size)));
      if (!value) fail("a number is out of range");
      token.real = *value;
    } else {
      token.kind = TokenKind::integer;
      int base = 10;
      std::size_t prefix = 0;
      const char mark = rest().size() > 1 && rest()[0] == '0' ? rest()[1] : char{0};
      for (const auto& [lower, upper, of] :
           {std::tuple('x', 'X', 16), std::tuple('o', 'O', 8), std::tuple('b', 'B', 2)}) {
        if (mark == lower || mark == upper) base = of;
      }
      const auto is_of_base = [&](char c) {
        return number_of<int>(std::string_view(&c, 1), base).has_value();
      };
      if (base != 10) {
        size = prefix = 2;
        while (size < rest().size()) {
          const std::size_t mark_size = rest()[size] == '_' ? 1 : 0;
          if (size + mark_size >= rest().size() || !is_of_base(rest()[size + mark_size])) break;
          size += 1 + mark_size;
        }
        if (size == prefix) size = 1, prefix = 0, base = 10;
      } else if (rest()[0] == '0') {  // no number begins with one, but for zeros
        size = std::min(rest().find_first_not_of("0_"), rest().size());
        while (rest()[size - 1] == '_') --size;
      } else {
        size = digits_from(0);
      }
      const auto value =
          number_of<std::int64_t>(without_marks(rest().substr(prefix, size - prefix)), base);
      if (!value) fail("an integer needs more than 64 bits");
      token.integer = *value;
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
