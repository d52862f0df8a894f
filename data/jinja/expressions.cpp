#include "tapegrad/data/jinja/internal/expressions.h"

#include <functional>

#include "tapegrad/data/jinja/internal/python_text.h"

namespace tapegrad::data::jinja {

Value Name::compute(const Frame& frame) const {
  if (const Value* value = frame.scope->find(name)) return *value;
  if (const Function global = find_global(name)) return function_value(name, global);
  return Value::undefined(described("'{}' is undefined", name), true);
}

ListOf::ListOf(int line, ListKind kind_, std::vector<ExpressionPtr> items_)
    : Expression(line), kind(kind_), items(std::move(items_)) {
  for (const auto& item : items) cover(item);
}
Value ListOf::compute(const Frame& frame) const {
  Values values;
  for (const auto& item : items) values.push_back(item->evaluate(frame));
  return kind == ListKind::list ? list_of(std::move(values)) : tuple_of(std::move(values));
}

DictOf::DictOf(int line, std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members_)
    : Expression(line), members(std::move(members_)) {
  for (const auto& [key, value] : members) {
    cover(key);
    cover(value);
  }
}
Value DictOf::compute(const Frame& frame) const {
  auto dict = make_counted<Dict>();
  for (const auto& [key, value] : members) {
    Value name = key->evaluate(frame);
    dict->set(std::move(name), value->evaluate(frame));
  }
  return Value(DictRef(std::move(dict)));
}

Attribute::Attribute(int line, ExpressionPtr of_, std::string name_)
    : Expression(line), of(std::move(of_)), name(std::move(name_)) {
  cover(of);
}
Value Attribute::compute(const Frame& frame) const {
  return attribute_of(of->evaluate(frame), name);
}

Item::Item(int line, ExpressionPtr of_, ExpressionPtr key_)
    : Expression(line), of(std::move(of_)), key(std::move(key_)) {
  cover(of);
  cover(key);
}
Value Item::compute(const Frame& frame) const {
  const Value value = of->evaluate(frame);
  return item_of(frame.run, value, key->evaluate(frame));
}

Slice::Slice(int line, ExpressionPtr of_, ExpressionPtr begin_, ExpressionPtr end_,
             ExpressionPtr step_)
    : Expression(line),
      of(std::move(of_)),
      begin(std::move(begin_)),
      end(std::move(end_)),
      step(std::move(step_)) {
  for (const auto* part : {&of, &begin, &end, &step}) cover(*part);
}
Value Slice::compute(const Frame& frame) const {
  const auto bound = [&](const ExpressionPtr& given) {
    return given ? given->evaluate(frame) : Value();
  };
  const Value value = of->evaluate(frame), from = bound(begin), to = bound(end);
  return sliced(value, from, to, bound(step));
}

Arguments CallArguments::evaluate(const Frame& frame) const {
  Arguments made;
  for (const auto& argument : positional) made.positional.push_back(argument->evaluate(frame));
  for (const auto& [name, argument] : named) {
    made.named.emplace_back(name, argument->evaluate(frame));
  }
  return made;
}

namespace {
const CallArguments& covered(const CallArguments& arguments,
                             const std::function<void(const ExpressionPtr&)>& cover) {
  for (const auto& argument : arguments.positional) cover(argument);
  for (const auto& [name, argument] : arguments.named) cover(argument);
  return arguments;
}
}  // namespace

Call::Call(int line, ExpressionPtr callee_, CallArguments arguments_)
    : Expression(line), callee(std::move(callee_)), arguments(std::move(arguments_)) {
  cover(callee);
  covered(arguments, [this](const ExpressionPtr& part) { cover(part); });
}
Value Call::call_with(const Frame& frame, const Value* caller) const {
  const Value function = callee->evaluate(frame);
  Arguments values = arguments.evaluate(frame);
  if (caller != nullptr) values.named.emplace_back("caller", *caller);
  return call(frame.run, function, values);
}

Applied::Applied(int line, const char* what_, std::string name_, Function function_,
                 ExpressionPtr to_, CallArguments arguments_)
    : Expression(line),
      what(what_),
      name(std::move(name_)),
      function(function_),
      to(std::move(to_)),
      arguments(std::move(arguments_)) {
  cover(to);
  covered(arguments, [this](const ExpressionPtr& part) { cover(part); });
}
Value Applied::apply(const Frame& frame, const Value& value) const {
  if (function == nullptr) raise("No {} named '{}' found.", what, name);
  return invoke(frame.run, function, value, arguments.evaluate(frame));
}

Binary::Binary(int line, Operator op_, ExpressionPtr left_, ExpressionPtr right_)
    : Expression(line), op(op_), left(std::move(left_)), right(std::move(right_)) {
  cover(left);
  cover(right);
}
Value Binary::compute(const Frame& frame) const {
  const Value a = left->evaluate(frame);
  return binary(frame.run, op, a, right->evaluate(frame));
}

UnaryOf::UnaryOf(int line, Unary op_, ExpressionPtr of_)
    : Expression(line), op(op_), of(std::move(of_)) {
  cover(of);
}
Value UnaryOf::compute(const Frame& frame) const {
  const Value value = of->evaluate(frame);
  if (op == Unary::negation) return Value(!truth(value));
  return negated(value);
}

Either::Either(int line, bool is_and_, ExpressionPtr left_, ExpressionPtr right_)
    : Expression(line), is_and(is_and_), left(std::move(left_)), right(std::move(right_)) {
  cover(left);
  cover(right);
}
Value Either::compute(const Frame& frame) const {
  Value value = left->evaluate(frame);
  return truth(value) == is_and ? right->evaluate(frame) : value;
}

Compared::Compared(int line, Comparison comparison_, ExpressionPtr left_, ExpressionPtr right_)
    : Expression(line), comparison(comparison_), left(std::move(left_)), right(std::move(right_)) {
  cover(left);
  cover(right);
}
Value Compared::compute(const Frame& frame) const {
  const Value a = left->evaluate(frame);
  return Value(compare(frame.run, comparison, a, right->evaluate(frame)));
}

Concatenation::Concatenation(int line, std::vector<ExpressionPtr> parts_)
    : Expression(line), parts(std::move(parts_)) {
  for (const auto& part : parts) cover(part);
}
Value Concatenation::compute(const Frame& frame) const {
  String made;
  for (const auto& part : parts) {
    const String text = str(frame.run, part->evaluate(frame));
    made += text;
  }
  return Value(std::move(made));
}

Conditional::Conditional(int line, ExpressionPtr condition_, ExpressionPtr yes_, ExpressionPtr no_)
    : Expression(line), condition(std::move(condition_)), yes(std::move(yes_)), no(std::move(no_)) {
  for (const auto* part : {&condition, &yes, &no}) cover(*part);
}
Value Conditional::compute(const Frame& frame) const {
  if (truth(condition->evaluate(frame))) return yes->evaluate(frame);
  if (no) return no->evaluate(frame);
  return Value::undefined(
      formatted("the inline if-expression on line {} evaluated to false and no else section was "
                "defined.",
                line()));
}

}  // namespace tapegrad::data::jinja
