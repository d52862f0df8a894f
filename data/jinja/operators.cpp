#include "tapegrad/data/jinja/internal/operators.h"

#include <algorithm>

#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/data/jinja/internal/python_text.h"

namespace tapegrad::data::jinja {
namespace {

constexpr const char* kSigns[] = {"+", "-", "*", "%"};

[[noreturn]] void fail_operands(Operator op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (const Undefined* undefined = value->undefined()) raise(*undefined);
  }
  const Sequence* items = a.sequence();
  const bool list = items != nullptr && items->kind == SequenceKind::list;
  if (op == Operator::add && a.is_text()) {
    raise("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  if (op == Operator::add && list) {
    raise("can only concatenate list (not \"{}\") to list", type_name(b));
  }
  raise("unsupported operand type(s) for {}: '{}' and '{}'", kSigns[static_cast<int>(op)],
        type_name(a), type_name(b));
}

[[noreturn]] void fail_overflow() { raise("an integer needs more than 64 bits"); }

Value of_integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::subtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::multiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::modulo:
      if (b == 0) raise("integer modulo by zero");
      result = b == -1 ? 0 : a % b;
      if (result != 0 && (result < 0) != (b < 0)) result += b;
      break;
  }
  if (overflow) fail_overflow();
  return Value(result);
}

Value of_reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value(a + b);
    case Operator::subtract:
      return Value(a - b);
    case Operator::multiply:
      return Value(a * b);
    default:
      raise("'%' of floats is not supported");
  }
}

Value joined(const Sequence& a, const Sequence& b) {
  Values items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return a.kind == SequenceKind::tuple ? tuple_of(std::move(items)) : list_of(std::move(items));
}

// Of so many things that are made at once. Error, as if they were made, for what no number holds.
std::size_t bytes_of(std::size_t times, std::size_t each) {
  constexpr std::size_t kMost = SIZE_MAX / 4;
  if (times > kMost / each) count_bytes(kMost);
  return times * each;
}

// A text or list so many times.
Value repeated(const Value& value, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  if (const String* text = value.text()) {
    if (text->empty()) return value;
    String made;
    made.reserve(bytes_of(times, text->size()));
    for (std::size_t i = 0; i < times; ++i) made += *text;
    return Value(std::move(made), value.is_markup());
  }
  const Sequence& items = *value.sequence();
  Values made;
  if (!items.items.empty()) {
    made.reserve(bytes_of(times, items.items.size() * sizeof(Value)) / sizeof(Value));
    for (std::size_t i = 0; i < times; ++i) {
      made.insert(made.end(), items.items.begin(), items.items.end());
    }
  }
  return items.kind == SequenceKind::tuple ? tuple_of(std::move(made)) : list_of(std::move(made));
}

bool repeats(const Value& value) {
  const Sequence* items = value.sequence();
  return value.is_text() || (items != nullptr && items->kind <= SequenceKind::tuple);
}

bool contains(const Value& container, const Value& value) {
  if (const String* text = container.text()) {
    if (value.is_undefined() || !value.is_text()) {
      raise("'in <string>' requires string as left operand, not {}", type_name(value));
    }
    count_search(*text, *value.text());
    return text->find(*value.text()) != text->npos;
  }
  if (const Dict* dict = container.dict()) {
    return dict->find(value) != nullptr;
  }
  const bool has_items = container.sequence() != nullptr || container.is_undefined();
  if (!has_items)
    raise("argument of type '{}' is not a container or iterable", type_name(container));
  const SequenceRef items = items_of(container);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& item) { return equal(item, value); });
}

}  // namespace

Value binary(Run& run, Operator op, const Value& a, const Value& b) {
  const auto x = integer_of(a), y = integer_of(b);
  if (x && y) return of_integers(op, *x, *y);
  const auto u = real_of(a), v = real_of(b);
  if (u && v) return of_reals(op, *u, *v);
  if (op == Operator::add && a.is_text() && b.is_text()) {
    const bool markup = a.is_markup() || b.is_markup();
    if (markup) return Value(escaped(run, a) + escaped(run, b), true);
    return Value(*a.text() + *b.text());
  }
  if (op == Operator::add && repeats(a) && repeats(b) && a.sequence() && b.sequence() &&
      a.sequence()->kind == b.sequence()->kind) {
    return joined(*a.sequence(), *b.sequence());
  }
  if (op == Operator::multiply && repeats(a) && y) return repeated(a, *y);
  if (op == Operator::multiply && repeats(b) && x) return repeated(b, *x);
  if (op == Operator::modulo && a.is_text() && !b.is_undefined()) {
    raise("texts have no % here: write ~ or +");
  }
  fail_operands(op, a, b);
}

Value negated(const Value& value) {
  if (const double* number = value.real()) return Value(-*number);
  if (const auto number = integer_of(value)) return of_integers(Operator::subtract, 0, *number);
  if (const Undefined* undefined = value.undefined()) raise(*undefined);
  raise("bad operand type for unary -: '{}'", type_name(value));
}

namespace {

bool ordered(Run& run, const Value& a, const Value& b, const char* sign, bool greater,
             bool or_equal) {
  run.step();
  const Value &low = greater ? b : a, &high = greater ? a : b;
  const auto x = integer_of(low), y = integer_of(high);
  if (x && y) return or_equal ? *x <= *y : *x < *y;
  const auto u = real_of(low), v = real_of(high);
  if (u && v) return or_equal ? *u <= *v : *u < *v;
  // UTF-8 has the order of code points.
  if (a.is_text() && b.is_text()) {
    run.step(std::min(a.weight(), b.weight()));
    return or_equal ? *low.text() <= *high.text() : *low.text() < *high.text();
  }
  const Sequence *s = low.sequence(), *t = high.sequence();
  if (s && t && repeats(low) && repeats(high) && s->kind == t->kind) {
    const std::size_t both = std::min(s->items.size(), t->items.size());
    for (std::size_t i = 0; i < both; ++i) {
      if (equal(s->items[i], t->items[i])) continue;
      return greater ? ordered(run, t->items[i], s->items[i], sign, true, or_equal)
                     : ordered(run, s->items[i], t->items[i], sign, false, or_equal);
    }
    return or_equal ? s->items.size() <= t->items.size() : s->items.size() < t->items.size();
  }
  for (const Value* value : {&a, &b}) {
    if (const Undefined* undefined = value->undefined()) raise(*undefined);
  }
  raise("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b));
}

}  // namespace

bool less(Run& run, const Value& a, const Value& b) {
  return ordered(run, a, b, "<", false, false);
}

bool compare(Run& run, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::equal:
      return equal(a, b);
    case Comparison::unequal:
      return !equal(a, b);
    case Comparison::less:
      return less(run, a, b);
    case Comparison::less_equal:
      return ordered(run, a, b, "<=", false, true);
    case Comparison::greater:
      return ordered(run, a, b, ">", true, false);
    case Comparison::greater_equal:
      return ordered(run, a, b, ">=", true, true);
    case Comparison::in:
      return contains(b, a);
    case Comparison::not_in:
      return !contains(b, a);
  }
  return false;
}

Value sliced(const Value& value, const Value& begin, const Value& end, const Value& step_value) {
  const Sequence* items = value.sequence();
  const bool has_slices =
      value.is_text() ||
      (items != nullptr && (repeats(value) || items->kind == SequenceKind::range));
  if (!has_slices) {
    if (const Undefined* undefined = value.undefined()) raise(*undefined);
    return Value::undefined(described("{} has no element slice", owner_name(value)));
  }
  const auto bound = [](const Value& given, std::int64_t otherwise) {
    if (given.is_none()) return otherwise;
    const auto number = integer_of(given);
    if (!number) raise("slice indices must be integers or None or have an __index__ method");
    return *number;
  };
  const std::int64_t step = bound(step_value, 1);
  if (step == 0) raise("slice step cannot be zero");
  const String* text = value.text();
  const auto count = static_cast<std::int64_t>(text ? character_count(*text) : items->items.size());
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
  const auto clipped = [&](std::int64_t at) {
    return std::clamp(at < 0 ? std::max(at, -count - 1) + count : at, low, high);
  };
  const std::int64_t first = begin.is_none() ? (step > 0 ? low : high) : clipped(bound(begin, 0));
  const std::int64_t last = end.is_none() ? (step > 0 ? high : low) : clipped(bound(end, 0));
  if (text && step == 1) {
    const std::string_view rest =
        std::string_view(*text).substr(byte_of(*text, static_cast<std::size_t>(first)));
    const auto length = static_cast<std::size_t>(std::max<std::int64_t>(last - first, 0));
    return Value(String(rest.substr(0, byte_of(rest, length))), value.is_markup());
  }
  const auto characters = text ? characters_of(*text) : Vector<std::string_view>();
  String made;
  Values chosen;
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    if (text) {
      made += characters[static_cast<std::size_t>(i)];
    } else {
      chosen.push_back(items->items[static_cast<std::size_t>(i)]);
    }
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (text) return Value(std::move(made), value.is_markup());
  if (items->kind == SequenceKind::tuple) return tuple_of(std::move(chosen));
  if (items->kind == SequenceKind::range) {
    return Value(make_counted<const Sequence>(SequenceKind::range, std::move(chosen)));
  }
  return list_of(std::move(chosen));
}

}  // namespace tapegrad::data::jinja
