#include <string>
#include <utility>
#include <vector>

#include "tapegrad/data/jinja/syntax/internal/expression_parser.h"

// The operands of operators: literals, names, and what follows these without a blank.

namespace tapegrad::data::jinja {

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = tokens_.now();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::name:
      return parse_name();
    case TokenKind::string: {
      std::string text;
      while (tokens_.at(TokenKind::string)) text += tokens_.take().text;
      return std::make_unique<Constant>(line, Value(std::move(text)));
    }
    case TokenKind::integer:
      return std::make_unique<Constant>(line, Value(tokens_.take().integer));
    case TokenKind::real:
      return std::make_unique<Constant>(line, Value(tokens_.take().real));
    default:
      break;
  }
  if (tokens_.skip_sign("(")) {
    ExpressionPtr value = parse_tuple(true, true);
    tokens_.expect_sign(")");
    return value;
  }
  if (tokens_.at_sign("[")) return parse_list();
  if (tokens_.at_sign("{")) return parse_dict();
  tokens_.fail(fmt::format("unexpected '{}'", tokens_.described()));
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token token = tokens_.take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return std::make_unique<Constant>(token.line, Value(true));
  if (name == "false" || name == "False") {
    return std::make_unique<Constant>(token.line, Value(false));
  }
  if (name == "none" || name == "None") return std::make_unique<Constant>(token.line, Value());
  names_.insert(name);
  log_.push_back(name);
  return std::make_unique<Name>(token.line, name);
}

ExpressionPtr ExpressionParser::parse_list() {
  const int line = tokens_.take().line;
  std::vector<ExpressionPtr> items;
  while (!tokens_.at_sign("]")) {
    items.push_back(parse());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("]");
  return std::make_unique<ListOf>(line, ListKind::list, std::move(items));
}

ExpressionPtr ExpressionParser::parse_dict() {
  const int line = tokens_.take().line;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
  while (!tokens_.at_sign("}")) {
    ExpressionPtr key = parse();
    tokens_.expect_sign(":");
    members.emplace_back(std::move(key), parse());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("}");
  return std::make_unique<DictOf>(line, std::move(members));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr of) {
  for (;;) {
    if (tokens_.at_sign(".") || tokens_.at_sign("[")) {
      of = parse_subscript(std::move(of));
    } else if (tokens_.at_sign("(")) {
      of = parse_call(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr of) {
  const Token token = tokens_.take();
  if (token.text == "[") return parse_subscripts(std::move(of), token.line);
  if (tokens_.at(TokenKind::name)) {
    return std::make_unique<Attribute>(token.line, std::move(of), tokens_.take().text);
  }
  if (!tokens_.at(TokenKind::integer)) tokens_.fail("expected name or number");
  ExpressionPtr index = std::make_unique<Constant>(token.line, Value(tokens_.take().integer));
  return std::make_unique<Item>(token.line, std::move(of), std::move(index));
}

// The contents of [ ]: a key, or begin:end:step.
ExpressionPtr ExpressionParser::parse_subscripts(ExpressionPtr of, int line) {
  const auto part = [&]() -> ExpressionPtr {
    return tokens_.at_sign(":") || tokens_.at_sign("]") ? nullptr : parse();
  };
  ExpressionPtr begin = part(), end, step;
  if (!tokens_.skip_sign(":")) {
    if (!begin) tokens_.fail(fmt::format("unexpected '{}'", tokens_.described()));
    tokens_.expect_sign("]");
    return std::make_unique<Item>(line, std::move(of), std::move(begin));
  }
  end = part();
  if (tokens_.skip_sign(":")) step = part();
  tokens_.expect_sign("]");
  return std::make_unique<Slice>(line, std::move(of), std::move(begin), std::move(end),
                                 std::move(step));
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments made;
  const int line = tokens_.now().line;
  tokens_.expect_sign("(");
  while (!tokens_.at_sign(")")) {
    if (tokens_.at_sign("*") || tokens_.at_sign("**")) {
      tokens_.fail(fmt::format("'{}' before an argument is not supported", tokens_.described()));
    }
    if (tokens_.at(TokenKind::name) && tokens_.next().kind == TokenKind::sign &&
        tokens_.next().text == "=") {
      std::string name = tokens_.take().text;
      tokens_.take();
      made.named.emplace_back(std::move(name), parse());
    } else {
      if (!made.named.empty()) {
        throw TemplateError("invalid syntax for function call expression", line);
      }
      made.positional.push_back(parse());
    }
    if (!tokens_.at_sign(")")) tokens_.expect_sign(",");
  }
  tokens_.expect_sign(")");
  return made;
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  const int line = tokens_.now().line;
  CallArguments arguments = parse_arguments();
  return std::make_unique<Call>(line, std::move(callee), std::move(arguments));
}

}  // namespace tapegrad::data::jinja
