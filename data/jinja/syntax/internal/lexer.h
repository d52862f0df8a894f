#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::data::jinja {

// The parts of a template: text, {{ expressions }} and {% statements %}.
enum class TokenKind {
  data,         // text between tags, already without the white space that tags take away
  block_begin,  // {%
  block_end,
  variable_begin,  // {{
  variable_end,
  name,
  string,  // unescaped
  integer,
  real,
  sign,  // an operator or bracket, in `text`
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text = {};
  int line = 0;
  std::int64_t integer = 0;
  double real = 0;
};

// Cuts a template, with trim_blocks and lstrip_blocks as transformers has them: the line break
// behind a {% tag %} and the blanks before one that begins a line are not text. Errors are
// TemplateError.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace tapegrad::data::jinja
