#include "tapegrad/data/jinja/syntax/internal/expression_parser.h"

#include <optional>

namespace tapegrad::data::jinja {
void ExpressionParser::check_unknown(std::size_t from) const {
  if (unknown_.size() > from) throw unknown_[from];
}

Function ExpressionParser::known(Function function, const char* what, const std::string& name,
                                 int line) {
  if (function == nullptr) {
    unknown_.emplace_back(fmt::format("No {} named '{}'.", what, name), line);
  }
  return function;
}

ExpressionPtr ExpressionParser::parse_tuple(bool conditional, bool in_brackets) {
  const int line = tokens_.now().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  const auto ends = [&] {
    return tokens_.at(TokenKind::variable_end) || tokens_.at(TokenKind::block_end) ||
           tokens_.at_sign(")") || (!conditional && tokens_.at_name("recursive"));
  };
  while (!ends()) {
    items.push_back(parse(conditional));
    if (!tokens_.skip_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items.front());
  if (!is_tuple && !in_brackets) {
    tokens_.fail(fmt::format("Expected an expression, got '{}'", tokens_.described()));
  }
  return std::make_unique<ListOf>(line, ListKind::tuple, std::move(items));
}

ExpressionPtr ExpressionParser::parse(bool conditional) {
  const Nested nested(*this);
  return conditional ? parse_conditional() : parse_or();
}

ExpressionPtr ExpressionParser::parse_conditional() {
  const std::size_t unknown = unknown_count();
  int line = tokens_.now().line;
  ExpressionPtr value = parse_or();
  while (tokens_.skip_name("if")) {
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise;
    if (tokens_.skip_name("else")) {
      const Nested nested(*this);
      otherwise = parse_conditional();
    }
    value = std::make_unique<Conditional>(line, std::move(condition), std::move(value),
                                          std::move(otherwise));
    line = tokens_.now().line;
    forgive_unknown(unknown);
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  for (int line = tokens_.now().line; tokens_.skip_name("or"); line = tokens_.now().line) {
    ExpressionPtr right = parse_and();
    left = std::make_unique<Either>(line, false, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  for (int line = tokens_.now().line; tokens_.skip_name("and"); line = tokens_.now().line) {
    ExpressionPtr right = parse_not();
    left = std::make_unique<Either>(line, true, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const int line = tokens_.now().line;
  if (!tokens_.skip_name("not")) return parse_comparison();
  const Nested nested(*this);
  return std::make_unique<UnaryOf>(line, Unary::negation, parse_not());
}

std::optional<Comparison> ExpressionParser::skip_comparison() {
  if (tokens_.skip_sign("==")) return Comparison::equal;
  if (tokens_.skip_sign("!=")) return Comparison::unequal;
  if (tokens_.skip_sign("<")) return Comparison::less;
  if (tokens_.skip_sign("<=")) return Comparison::less_equal;
  if (tokens_.skip_sign(">")) return Comparison::greater;
  if (tokens_.skip_sign(">=")) return Comparison::greater_equal;
  if (tokens_.skip_name("in")) return Comparison::in;
  const Token& next = tokens_.next();
  if (!tokens_.at_name("not") || next.kind != TokenKind::name || next.text != "in") return {};
  tokens_.take();
  tokens_.take();
  return Comparison::not_in;
}

ExpressionPtr ExpressionParser::parse_comparison() {
  const int line = tokens_.now().line;
  ExpressionPtr left = parse_sum();
  const auto comparison = skip_comparison();
  if (!comparison) return left;
  ExpressionPtr right = parse_sum();
  if (skip_comparison()) tokens_.fail("comparisons in a row (a < b < c) are not supported");
  return std::make_unique<Compared>(line, *comparison, std::move(left), std::move(right));
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concatenation();
  while (tokens_.at_sign("+") || tokens_.at_sign("-")) {
    const Token sign = tokens_.take();
    const Operator op = sign.text == "+" ? Operator::add : Operator::subtract;
    ExpressionPtr right = parse_concatenation();
    left = std::make_unique<Binary>(sign.line, op, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  const int line = tokens_.now().line;
  std::vector<ExpressionPtr> parts;
  do {
    parts.push_back(parse_product());
  } while (tokens_.skip_sign("~"));
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<Concatenation>(line, std::move(parts));
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr left = parse_unary(true);
  while (tokens_.at_sign("*") || tokens_.at_sign("%")) {
    const Token sign = tokens_.take();
    const Operator op = sign.text == "*" ? Operator::multiply : Operator::modulo;
    ExpressionPtr right = parse_unary(true);
    left = std::make_unique<Binary>(sign.line, op, std::move(left), std::move(right));
  }
  for (const std::string_view other : {"/", "//", "**"}) {
    if (tokens_.at_sign(other)) tokens_.fail(fmt::format("'{}' is not supported", other));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  ExpressionPtr value;
  if (tokens_.at_sign("-")) {
    const int line = tokens_.take().line;
    const Nested nested(*this);
    value = std::make_unique<UnaryOf>(line, Unary::negative, parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_behind(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_behind(ExpressionPtr of) {
  for (;;) {
    if (tokens_.at_sign("|")) {
      of = parse_filters(std::move(of));
    } else if (tokens_.at_name("is")) {
      of = parse_test(std::move(of));
    } else if (tokens_.at_sign("(")) {
      of = parse_call(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr to) {
  while (tokens_.skip_sign("|")) to = parse_filter_name(std::move(to));
  return to;
}

ExpressionPtr ExpressionParser::parse_filter_name(ExpressionPtr to) {
  const int line = tokens_.now().line;
  std::string name = tokens_.expect_name();
  CallArguments arguments;
  if (tokens_.at_sign("(")) arguments = parse_arguments();
  const Function function = known(find_filter(name), "filter", name, line);
  return std::make_unique<Applied>(line, "filter", std::move(name), function, std::move(to),
                                   std::move(arguments));
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr of) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.skip_name("not");
  std::string name = tokens_.expect_name();
  CallArguments arguments;
  const bool ends = tokens_.at_name("else") || tokens_.at_name("or") || tokens_.at_name("and");
  const bool value_follows = tokens_.at(TokenKind::name) || tokens_.at(TokenKind::string) ||
                             tokens_.at(TokenKind::integer) || tokens_.at(TokenKind::real) ||
                             tokens_.at_sign("[") || tokens_.at_sign("{");
  if (tokens_.at_sign("(")) {
    arguments = parse_arguments();
  } else if (value_follows && !ends) {
    if (tokens_.at_name("is")) tokens_.fail("You cannot chain multiple tests with is");
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  const Function function = known(find_test(name), "test", name, line);
  ExpressionPtr test = std::make_unique<Applied>(line, "test", std::move(name), function,
                                                 std::move(of), std::move(arguments));
  if (!negated) return test;
  return std::make_unique<UnaryOf>(line, Unary::negation, std::move(test));
}

}  // namespace tapegrad::data::jinja
