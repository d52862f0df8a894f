#include "tapegrad/data/jinja/syntax/internal/parser.h"

#include <algorithm>
#include <initializer_list>

#include "tapegrad/data/jinja/syntax/internal/expression_parser.h"

namespace tapegrad::data::jinja {
namespace {

using StatementPtr = std::unique_ptr<const Statement>;
using Tags = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens_of(source)), expressions_(tokens_) {}

  Parsed run() {
    parsed_.body = parse_body({});
    expressions_.check_unknown(0);
    parsed_.names = std::move(expressions_.names());
    return std::move(parsed_);
  }

 private:
  // Statements up to one of these tags, whose name is then the next token.
  Body parse_body(Tags ends) {
    const ExpressionParser::Nested nested(expressions_);
    Body body;
    while (!tokens_.at(TokenKind::end)) {
      if (tokens_.at(TokenKind::data)) {
        const Token data = tokens_.take();
        body.statements.push_back(std::make_unique<Data>(data.line, data.text));
      } else if (tokens_.at(TokenKind::variable_begin)) {
        const int line = tokens_.take().line;
        ExpressionPtr value = expressions_.parse_tuple();
        tokens_.expect(TokenKind::variable_end, "end of print statement");
        body.statements.push_back(std::make_unique<Print>(line, std::move(value)));
      } else {
        tokens_.expect(TokenKind::block_begin, "begin of statement block");
        if (at_one_of(ends)) return body;
        parse_statement(body, ends);
        tokens_.expect(TokenKind::block_end, "end of statement block");
      }
    }
    if (ends.size() > 0) fail_end(ends);
    return body;
  }
  [[noreturn]] void fail_end(Tags ends) {
    std::string wanted;
    for (const std::string_view end : ends) {
      wanted += fmt::format("{}'{}'", wanted.empty() ? "" : " or ", end);
    }
    tokens_.fail(fmt::format(
        "Unexpected end of template. Jinja was looking for the following tags: {}.", wanted));
  }
  bool at_one_of(Tags names) const {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return tokens_.at_name(name); });
  }
  // The body of a statement, behind the statement's own tag.
  Body parse_inside(Tags ends) {
    tokens_.expect(TokenKind::block_end, "end of statement block");
    return parse_body(ends);
  }
  // The same up to `end`, which is taken, too; in a scope of its own, where filters must exist.
  Body parse_scope(std::string_view end) {
    const std::size_t unknown = expressions_.unknown_count();
    Body body = parse_inside({end});
    tokens_.take();
    expressions_.check_unknown(unknown);
    return body;
  }

  void parse_statement(Body& body, Tags ends) {
    if (!tokens_.at(TokenKind::name)) tokens_.fail("tag name expected");
    const std::string tag = tokens_.now().text;
    const int line = tokens_.now().line;
    using Parse = StatementPtr (Parser::*)(int line);
    constexpr std::pair<std::string_view, Parse> kTags[] = {
        {"set", &Parser::parse_set},
        {"if", &Parser::parse_if},
        {"for", &Parser::parse_for},
        {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block},
        {"filter", &Parser::parse_filter_block},
        {"break", &Parser::parse_break},
        {"continue", &Parser::parse_continue},
        {"generation", &Parser::parse_generation}};
    for (const auto& [name, parse] : kTags) {
      if (name != tag) continue;
      tokens_.take();
      body.statements.push_back((this->*parse)(line));
      return;
    }
    for (const std::string_view other : {"include", "import", "from", "extends"}) {
      if (tag == other) {
        tokens_.fail(fmt::format("'{}' asks for another template, and there is none", tag));
      }
    }
    std::string message = fmt::format("Encountered unknown tag '{}'.", tag);
    std::string wanted;
    for (const std::string_view end : ends) {
      wanted += fmt::format("{}'{}'", wanted.empty() ? "" : " or ", end);
    }
    if (!wanted.empty()) {
      message += " Jinja was looking for the following tags: " + wanted + ".";
    }
    tokens_.fail(message);
  }

  Target parse_one_target(bool attributes) {
    Target target;
    if (tokens_.skip_sign("(")) {
      const ExpressionParser::Nested nested(expressions_);
      target = parse_target(attributes);
      tokens_.expect_sign(")");
      return target;
    }
    target.name = tokens_.expect_name();
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (target.name == constant) tokens_.fail("can't assign to 'const'");
    }
    if (attributes && tokens_.skip_sign(".")) target.attribute = tokens_.expect_name();
    return target;
  }
  Target parse_target(bool attributes) {
    Target target = parse_one_target(attributes);
    if (!tokens_.at_sign(",")) return target;
    Target tuple;
    tuple.is_tuple = true;
    tuple.several.push_back(std::move(target));
    while (tokens_.skip_sign(",")) {
      const bool ends = tokens_.at_name("in") || tokens_.at(TokenKind::block_end) ||
                        tokens_.at_sign(")") || tokens_.at_sign("=");
      if (ends) break;
      tuple.several.push_back(parse_one_target(attributes));
    }
    return tuple;
  }

  StatementPtr parse_set(int line) {
    Target target = parse_target(true);
    if (tokens_.skip_sign("=")) {
      auto set = std::make_unique<Set>(line);
      set->target = std::move(target);
      set->value = expressions_.parse_tuple();
      return set;
    }
    auto block = std::make_unique<TextBlock>(line);
    block->target = std::make_unique<Target>(std::move(target));
    block->filter = expressions_.parse_filters(nullptr);
    block->body = parse_buffered("endset");
    return block;
  }
  StatementPtr parse_filter_block(int line) {
    auto block = std::make_unique<TextBlock>(line);
    block->filter = expressions_.parse_filters(expressions_.parse_filter_name(nullptr));
    block->body = parse_buffered("endfilter");
    return block;
  }
  // A body whose text is not written at once.
  Body parse_buffered(std::string_view end) {
    ++buffers_;
    Body body = parse_scope(end);
    --buffers_;
    return body;
  }

  StatementPtr parse_if(int line) {
    auto made = std::make_unique<If>(line);
    const std::size_t unknown = expressions_.unknown_count();
    for (bool more = true; more;) {
      ExpressionPtr condition = expressions_.parse_tuple(false);
      made->branches.emplace_back(std::move(condition), parse_inside({"elif", "else", "endif"}));
      const Token tag = tokens_.take();
      if (tag.text == "else") {
        made->otherwise = parse_inside({"endif"});
        tokens_.take();
      }
      more = tag.text == "elif";
    }
    expressions_.forgive_unknown(unknown);
    return made;
  }

  StatementPtr parse_for(int line) {
    auto made = std::make_unique<For>(line);
    made->target = parse_target(false);
    if (assigns(made->target, "loop")) {
      tokens_.fail("Can't assign to special loop variable in for-loop target");
    }
    if (!tokens_.skip_name("in")) tokens_.fail_expected("in");
    made->items = expressions_.parse_tuple(false);
    const std::size_t unknown = expressions_.unknown_count();
    if (tokens_.skip_name("if")) made->test = expressions_.parse();
    ++loops_;
    made->body = parse_inside({"endfor", "else"});
    --loops_;
    if (tokens_.take().text == "else") {
      made->otherwise = parse_inside({"endfor"});
      tokens_.take();
    }
    expressions_.check_unknown(unknown);
    return made;
  }
  static bool assigns(const Target& target, std::string_view name) {
    return (target.attribute.empty() && target.name == name) ||
           std::any_of(target.several.begin(), target.several.end(),
                       [&](const Target& one) { return assigns(one, name); });
  }

  StatementPtr jump(int line, Flow flow, const char* name) {
    if (loops_ == 0) throw TemplateError(fmt::format("'{}' outside loop", name), line);
    return std::make_unique<Jump>(line, flow);
  }
  StatementPtr parse_break(int line) { return jump(line, Flow::leave_loop, "break"); }
  StatementPtr parse_continue(int line) { return jump(line, Flow::next_turn, "continue"); }

  // A part that is a function of its own in Jinja: a loop around it is not its loop.
  template <class Parse>
  Body apart(const Parse& parse) {
    const int loops = std::exchange(loops_, 0);
    Body body = parse();
    loops_ = loops;
    return body;
  }

  StatementPtr parse_generation(int line) {
    parsed_.marks_generations = true;
    if (buffers_ > 0) parsed_.generations_are_placed = false;
    auto made = std::make_unique<Generation>(line);
    made->body = apart([&] { return parse_scope("endgeneration"); });
    return made;
  }

  void parse_parameters(MacroSource& source) {
    tokens_.expect_sign("(");
    bool has_defaults = false;
    while (!tokens_.at_sign(")")) {
      if (!source.parameters.empty()) tokens_.expect_sign(",");
      std::string name = parse_one_target(false).name;
      ExpressionPtr otherwise;
      if (tokens_.skip_sign("=")) {
        otherwise = expressions_.parse();
        has_defaults = true;
      } else if (has_defaults) {
        tokens_.fail("non-default argument follows default argument");
      }
      source.parameters.emplace_back(std::move(name), std::move(otherwise));
    }
    tokens_.expect_sign(")");
  }
  void parse_macro_body(MacroSource& source, std::string_view end) {
    const std::size_t begin = expressions_.log().size();
    source.body = apart([&] { return parse_buffered(end); });
    const auto& log = expressions_.log();
    const auto reads = [&](std::string_view name) {
      const auto declared = [&](const auto& parameter) { return parameter.first == name; };
      return std::find(log.begin() + static_cast<std::ptrdiff_t>(begin), log.end(), name) !=
                 log.end() &&
             std::none_of(source.parameters.begin(), source.parameters.end(), declared);
    };
    source.reads_caller = reads("caller");
    for (const std::string_view rest : {"kwargs", "varargs"}) {
      if (reads(rest)) tokens_.fail(fmt::format("'{}' of macros is not supported", rest));
    }
  }
  StatementPtr parse_macro(int line) {
    auto made = std::make_unique<MacroDefinition>(line);
    made->source.name = parse_one_target(false).name;
    parse_parameters(made->source);
    parse_macro_body(made->source, "endmacro");
    return made;
  }
  StatementPtr parse_call_block(int line) {
    auto made = std::make_unique<CallBlock>(line);
    if (tokens_.at_sign("(")) parse_parameters(made->source);
    ExpressionPtr call = expressions_.parse();
    if (dynamic_cast<const Call*>(call.get()) == nullptr) tokens_.fail("expected call");
    made->call.reset(static_cast<const Call*>(call.release()));
    parse_macro_body(made->source, "endcall");
    return made;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  Parsed parsed_;
  int loops_ = 0;    // around what is parsed, in its function
  int buffers_ = 0;  // the text of which is written later
};

}  // namespace

Parsed parse(std::string_view source) { return Parser(source).run(); }

}  // namespace tapegrad::data::jinja
