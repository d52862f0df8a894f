#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/data/jinja/internal/expressions.h"
#include "tapegrad/data/jinja/syntax/internal/template_tokens.h"

namespace tapegrad::data::jinja {

// Parses expressions as Jinja does: recursive descent, one function for each strength of operators.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // One, or a tuple of several with commas between them. Without `conditional`, `a if b` ends
  // before the `if`.
  ExpressionPtr parse_tuple(bool conditional = true, bool in_brackets = false);
  ExpressionPtr parse(bool conditional = true);
  // `|a|b(1)`, applied to `to`; null if there is no filter, and `to` is null.
  ExpressionPtr parse_filters(ExpressionPtr to);
  // The filter whose name comes next.
  ExpressionPtr parse_filter_name(ExpressionPtr to);

  std::set<std::string, std::less<>>& names() { return names_; }
  // Names in the order in which they were read, for questions about a part of a template.
  std::vector<std::string>& log() { return log_; }

  // Filters and tests that do not exist are an error where they stand, unless they are behind a
  // condition: {% if %} and `a if b else c` may ask whether they exist.
  std::size_t unknown_count() const { return unknown_.size(); }
  void forgive_unknown(std::size_t from) {
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(from), unknown_.end());
  }
  void check_unknown(std::size_t from) const;

  // Statements and expressions that are nested more deeply are an error.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMost) {
        --parser_.depth_;
        parser_.tokens_.fail(fmt::format("the template is nested more than {} deep", kMost));
      }
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    static constexpr int kMost = 150;
    ExpressionParser& parser_;
  };

 private:
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  std::optional<Comparison> skip_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr of);
  ExpressionPtr parse_subscript(ExpressionPtr of);
  ExpressionPtr parse_subscripts(ExpressionPtr of, int line);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_behind(ExpressionPtr of);  // filters, tests, calls
  ExpressionPtr parse_test(ExpressionPtr of);
  CallArguments parse_arguments();
  Function known(Function function, const char* what, const std::string& name, int line);

  TokenStream& tokens_;
  std::set<std::string, std::less<>> names_;
  std::vector<std::string> log_;
  std::vector<TemplateError> unknown_;
  int depth_ = 0;
};

}  // namespace tapegrad::data::jinja
