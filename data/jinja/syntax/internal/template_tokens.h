#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/data/jinja/internal/value.h"
#include "tapegrad/data/jinja/syntax/internal/lexer.h"

namespace tapegrad::data::jinja {

// The tokens of a template, one after the other.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take() {
    Token token = now();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at(TokenKind kind) const { return now().kind == kind; }
  bool at_sign(std::string_view sign) const { return at(TokenKind::sign) && now().text == sign; }
  bool at_name(std::string_view name) const { return at(TokenKind::name) && now().text == name; }
  bool skip_sign(std::string_view sign) { return at_sign(sign) && (take(), true); }
  bool skip_name(std::string_view name) { return at_name(name) && (take(), true); }

  [[noreturn]] void fail(const std::string& message) const {
    throw TemplateError(message, now().line);
  }
  [[noreturn]] void fail_expected(std::string_view what) const {
    fail(fmt::format("expected token '{}', got '{}'", what, described()));
  }
  std::string described() const {
    switch (now().kind) {
      case TokenKind::end:
        return "end of template";
      case TokenKind::data:
        return "template data / text";
      case TokenKind::block_begin:
        return "begin of statement block";
      case TokenKind::block_end:
        return "end of statement block";
      case TokenKind::variable_begin:
        return "begin of print statement";
      case TokenKind::variable_end:
        return "end of print statement";
      case TokenKind::string:
        return "string";
      case TokenKind::integer:
        return "integer";
      case TokenKind::real:
        return "float";
      default:
        return now().text;
    }
  }
  void expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) fail_expected(sign);
  }
  void expect(TokenKind kind, std::string_view what) {
    if (!at(kind)) fail_expected(what);
    take();
  }
  std::string expect_name() {
    if (!at(TokenKind::name)) fail_expected("name");
    return take().text;
  }

 private:
  std::vector<Token> tokens_;  // the last one is the end
  std::size_t at_ = 0;
};

}  // namespace tapegrad::data::jinja
