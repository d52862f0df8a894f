#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/operators.h"
#include "tapegrad/data/jinja/internal/run.h"
#include "tapegrad/data/jinja/internal/scope.h"
#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {

// Where execution stands: the innermost scope, and where text goes.
struct Frame {
  Run& run;
  std::shared_ptr<Scope> scope;
  String* out;
  // The whole text, and the parts of it that {% generation %} blocks made.
  struct Whole {
    String text = {};
    Vector<std::pair<std::size_t, std::size_t>> generated = {};
  } * whole;

  void write(std::string_view text) const {
    run.will_write(text.size(), out->size());
    *out += text;
  }
  // The same with a new scope inside, and perhaps other text.
  Frame inside(String* other = nullptr) const {
    return {run, make_counted<Scope>(Scope{.around = scope}), other ? other : out, whole};
  }
};

class Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

// A part of a template that has a value.
class Expression {
 public:
  explicit Expression(int line) : line_(line) {}
  virtual ~Expression() = default;

  Value evaluate(const Frame& frame) const {
    const Run::Deeper deeper(frame.run);
    frame.run.step();
    return compute(frame);
  }
  int line() const { return line_; }
  int height() const { return height_; }

  // Higher trees are an error: they are walked and taken apart by functions that call themselves.
  static constexpr int kMostHeight = 400;

 protected:
  virtual Value compute(const Frame& frame) const = 0;
  void cover(const ExpressionPtr& part) {
    if (part) height_ = std::max(height_, part->height() + 1);
    if (height_ > kMostHeight) {
      throw TemplateError(fmt::format("an expression is nested more than {} deep", kMostHeight),
                          line_);
    }
  }

 private:
  int line_, height_ = 1;
};

struct Constant : Expression {
  Constant(int line, Value value_) : Expression(line), value(std::move(value_)) {}
  Value compute(const Frame&) const override { return value; }
  Value value;
};

struct Name : Expression {
  Name(int line, std::string name_) : Expression(line), name(std::move(name_)) {}
  Value compute(const Frame& frame) const override;
  std::string name;
};

enum class ListKind { list, tuple };
struct ListOf : Expression {
  ListOf(int line, ListKind kind_, std::vector<ExpressionPtr> items_);
  Value compute(const Frame& frame) const override;
  ListKind kind;
  std::vector<ExpressionPtr> items;
};

struct DictOf : Expression {
  DictOf(int line, std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members_);
  Value compute(const Frame& frame) const override;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
};

struct Attribute : Expression {
  Attribute(int line, ExpressionPtr of_, std::string name_);
  Value compute(const Frame& frame) const override;
  ExpressionPtr of;
  std::string name;
};

struct Item : Expression {
  Item(int line, ExpressionPtr of_, ExpressionPtr key_);
  Value compute(const Frame& frame) const override;
  ExpressionPtr of, key;
};

struct Slice : Expression {
  Slice(int line, ExpressionPtr of_, ExpressionPtr begin_, ExpressionPtr end_, ExpressionPtr step_);
  Value compute(const Frame& frame) const override;
  ExpressionPtr of, begin, end, step;  // null: not given
};

// The contents of a call's brackets: a, name=b.
struct CallArguments {
  std::vector<ExpressionPtr> positional = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};

  Arguments evaluate(const Frame& frame) const;
};

struct Call : Expression {
  Call(int line, ExpressionPtr callee_, CallArguments arguments_);
  Value compute(const Frame& frame) const override { return call_with(frame, nullptr); }
  // `caller`: what a {% call %} block passes on.
  Value call_with(const Frame& frame, const Value* caller) const;
  ExpressionPtr callee;
  CallArguments arguments;
};

// A filter or test: a function known by name, applied to a value.
struct Applied : Expression {
  // `function` is null if there is none of this name, which is an error when it is computed.
  Applied(int line, const char* what_, std::string name_, Function function_, ExpressionPtr to_,
          CallArguments arguments_);
  Value compute(const Frame& frame) const override { return apply(frame, to->evaluate(frame)); }
  Value apply(const Frame& frame, const Value& value) const;
  const char* what;  // "filter" or "test"
  std::string name;
  Function function;
  ExpressionPtr to;  // null: the text of a block
  CallArguments arguments;
};

struct Binary : Expression {
  Binary(int line, Operator op_, ExpressionPtr left_, ExpressionPtr right_);
  Value compute(const Frame& frame) const override;
  Operator op;
  ExpressionPtr left, right;
};

enum class Unary { negative, negation };
struct UnaryOf : Expression {
  UnaryOf(int line, Unary op_, ExpressionPtr of_);
  Value compute(const Frame& frame) const override;
  Unary op;
  ExpressionPtr of;
};

// a and b, a or b: one of the two values.
struct Either : Expression {
  Either(int line, bool is_and_, ExpressionPtr left_, ExpressionPtr right_);
  Value compute(const Frame& frame) const override;
  bool is_and;
  ExpressionPtr left, right;
};

// a < b
struct Compared : Expression {
  Compared(int line, Comparison comparison_, ExpressionPtr left_, ExpressionPtr right_);
  Value compute(const Frame& frame) const override;
  Comparison comparison;
  ExpressionPtr left, right;
};

// a ~ b ~ c
struct Concatenation : Expression {
  Concatenation(int line, std::vector<ExpressionPtr> parts_);
  Value compute(const Frame& frame) const override;
  std::vector<ExpressionPtr> parts;
};

// a if condition else b
struct Conditional : Expression {
  Conditional(int line, ExpressionPtr condition_, ExpressionPtr yes_, ExpressionPtr no_);
  Value compute(const Frame& frame) const override;
  ExpressionPtr condition, yes, no;  // no: null if there is no else
};

}  // namespace tapegrad::data::jinja
