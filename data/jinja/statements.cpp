#include "tapegrad/data/jinja/internal/statements.h"

#include "tapegrad/data/jinja/internal/namespace_object.h"
#include "tapegrad/data/jinja/internal/python_text.h"

namespace tapegrad::data::jinja {

Flow Body::execute(const Frame& frame) const {
  for (const auto& statement : statements) {
    try {
      const Run::Deeper deeper(frame.run);
      frame.run.step();
      const Flow flow = statement->execute(frame);
      if (flow != Flow::next) return flow;
    } catch (const TemplateError& error) {
      if (error.line() != 0) throw;
      throw TemplateError(error.message(), statement->line(), error.names_nothing());
    }
  }
  return Flow::next;
}

void Target::assign(const Frame& frame, const Value& value) const {
  if (!attribute.empty()) {
    const Value* held = frame.scope->find(name);
    auto* space = held == nullptr ? nullptr : dynamic_cast<NamespaceObject*>(held->object());
    if (space == nullptr) raise("cannot assign attribute on non-namespace object");
    return space->set(attribute, value);
  }
  if (!is_tuple) return frame.scope->set(name, value);
  const SequenceRef items = items_of(value);
  const std::size_t size = items->items.size(), wanted = several.size();
  if (size < wanted) raise("not enough values to unpack (expected {}, got {})", wanted, size);
  if (size > wanted) raise("too many values to unpack (expected {})", wanted);
  for (std::size_t i = 0; i < wanted; ++i) several[i].assign(frame, items->items[i]);
}

Flow Data::execute(const Frame& frame) const {
  frame.write(text);
  return Flow::next;
}

Flow Print::execute(const Frame& frame) const {
  const Value made = value->evaluate(frame);
  const String* text = made.text();
  frame.write(text != nullptr ? *text : str(frame.run, made));
  return Flow::next;
}

Flow Set::execute(const Frame& frame) const {
  target.assign(frame, value->evaluate(frame));
  return Flow::next;
}

namespace {

// A chain of filters, the innermost of which has the text of a block.
Value filtered(const Frame& frame, const Expression& filter, const Value& text) {
  const auto& applied = static_cast<const Applied&>(filter);
  return applied.apply(frame, applied.to ? filtered(frame, *applied.to, text) : text);
}

}  // namespace

Flow TextBlock::execute(const Frame& frame) const {
  String text;
  const Frame inner = frame.inside(&text);
  const Flow flow = body.execute(inner);
  if (flow != Flow::next) return flow;
  Value value(std::move(text));
  if (filter) value = filtered(inner, *filter, value);
  if (target) {
    target->assign(frame, value);
  } else {
    frame.write(str(frame.run, value));
  }
  return Flow::next;
}

Flow If::execute(const Frame& frame) const {
  for (const auto& [condition, body] : branches) {
    if (truth(condition->evaluate(frame))) return body.execute(frame);
  }
  return otherwise.execute(frame);
}

Flow Generation::execute(const Frame& frame) const {
  const std::size_t begin = frame.out->size();
  const Flow flow = body.execute(frame.inside());
  if (frame.out == &frame.whole->text) {
    auto& generated = frame.whole->generated;
    // A block inside of this one is a part of it.
    while (!generated.empty() && generated.back().first >= begin) generated.pop_back();
    generated.emplace_back(begin, frame.out->size());
  }
  return flow;
}

Flow MacroDefinition::execute(const Frame& frame) const {
  frame.scope->set(source.name, macro_value(frame, source));
  return Flow::next;
}

Flow CallBlock::execute(const Frame& frame) const {
  const Value caller = macro_value(frame, source);
  frame.write(str(frame.run, call->call_with(frame, &caller)));
  return Flow::next;
}

}  // namespace tapegrad::data::jinja
