#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/data/jinja/internal/expressions.h"

namespace tapegrad::data::jinja {

enum class Flow { next, leave_loop, next_turn };

// A part of a template that does something.
class Statement {
 public:
  explicit Statement(int line) : line_(line) {}
  virtual ~Statement() = default;
  virtual Flow execute(const Frame& frame) const = 0;
  int line() const { return line_; }

 private:
  int line_;
};

// Executes its statements; an error that has no line gets that of its statement.
struct Body {
  std::vector<std::unique_ptr<const Statement>> statements = {};
  Flow execute(const Frame& frame) const;
};

// The target of {% set %} and of loops: a name, an attribute of a namespace, or several of these.
struct Target {
  std::string name = {}, attribute = {};
  std::vector<Target> several = {};
  bool is_tuple = false;
  void assign(const Frame& frame, const Value& value) const;
};

struct Data : Statement {
  Data(int line, std::string text_) : Statement(line), text(std::move(text_)) {}
  Flow execute(const Frame& frame) const override;
  std::string text;
};

struct Print : Statement {
  Print(int line, ExpressionPtr value_) : Statement(line), value(std::move(value_)) {}
  Flow execute(const Frame& frame) const override;
  ExpressionPtr value;
};

struct Set : Statement {
  using Statement::Statement;
  Flow execute(const Frame& frame) const override;
  Target target;
  ExpressionPtr value;
};

// {% set x %}…{% endset %}, and {% filter f %}…{% endfilter %}, which has no target.
struct TextBlock : Statement {
  using Statement::Statement;
  Flow execute(const Frame& frame) const override;
  std::unique_ptr<Target> target = {};
  ExpressionPtr filter = {};  // a chain of Applied; null: none
  Body body = {};
};

struct If : Statement {
  using Statement::Statement;
  Flow execute(const Frame& frame) const override;
  std::vector<std::pair<ExpressionPtr, Body>> branches = {};
  Body otherwise = {};
};

struct For : Statement {
  using Statement::Statement;
  Flow execute(const Frame& frame) const override;
  Target target = {};
  ExpressionPtr items = {}, test = {};  // test: null if there is none
  Body body = {}, otherwise = {};
};

struct Jump : Statement {
  Jump(int line, Flow flow_) : Statement(line), flow(flow_) {}
  Flow execute(const Frame&) const override { return flow; }
  Flow flow;
};

// {% generation %}: what the model writes.
struct Generation : Statement {
  using Statement::Statement;
  Flow execute(const Frame& frame) const override;
  Body body = {};
};

// The part that macros and call blocks share: parameters and a body.
struct MacroSource {
  std::string name = {};
  std::vector<std::pair<std::string, ExpressionPtr>> parameters = {};  // null: no default
  Body body = {};
  bool reads_caller = false;
};

struct MacroDefinition : Statement {
  using Statement::Statement;
  Flow execute(const Frame& frame) const override;
  MacroSource source = {};
};

struct CallBlock : Statement {
  using Statement::Statement;
  Flow execute(const Frame& frame) const override;
  MacroSource source = {};
  std::unique_ptr<const Call> call = {};
};

Value macro_value(const Frame& frame, const MacroSource& source);

}  // namespace tapegrad::data::jinja
