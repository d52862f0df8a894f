#include <algorithm>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/operators.h"

// Jinja's tests: {{ value is NAME }}.

namespace tapegrad::data::jinja {
namespace {

template <Comparison comparison>
Value compares(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "test", {"other"}, 1);
  return Value(compare(run, comparison, self, given[0]));
}

Value is_defined(Run&, const Value& self, const Arguments&) { return Value(!self.is_undefined()); }
Value is_undefined(Run&, const Value& self, const Arguments&) { return Value(self.is_undefined()); }
Value is_none(Run&, const Value& self, const Arguments&) { return Value(self.is_none()); }
Value is_boolean(Run&, const Value& self, const Arguments&) {
  return Value(self.boolean() != nullptr);
}
Value is_true(Run&, const Value& self, const Arguments&) {
  return Value(self.boolean() != nullptr && *self.boolean());
}
Value is_false(Run&, const Value& self, const Arguments&) {
  return Value(self.boolean() != nullptr && !*self.boolean());
}
Value is_int(Run&, const Value& self, const Arguments&) { return Value(self.integer() != nullptr); }
Value is_float(Run&, const Value& self, const Arguments&) { return Value(self.real() != nullptr); }
Value is_number(Run&, const Value& self, const Arguments&) {
  return Value(real_of(self).has_value());
}
Value is_string(Run&, const Value& self, const Arguments&) { return Value(self.is_text()); }
Value is_mapping(Run&, const Value& self, const Arguments&) {
  return Value(self.dict() != nullptr);
}
Value is_sequence(Run&, const Value& self, const Arguments&) {
  const Sequence* items = self.sequence();
  return Value(self.is_text() || self.dict() != nullptr || self.is_undefined() ||
               (items != nullptr && items->kind <= SequenceKind::range));
}
Value is_iterable(Run&, const Value& self, const Arguments&) {
  return Value(self.is_text() || self.dict() != nullptr || self.sequence() != nullptr ||
               self.is_undefined());
}
Value is_callable(Run&, const Value& self, const Arguments&) {
  return Value(self.is_undefined() || (self.object() != nullptr && self.object()->callable()));
}
Value is_same(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "sameas", {"other"}, 1);
  return Value(self.same(given[0]));
}
bool leaves(Run& run, const Value& self, std::int64_t divisor, std::int64_t rest) {
  return equal(binary(run, Operator::modulo, self, Value(divisor)), Value(rest));
}
Value is_odd(Run& run, const Value& self, const Arguments&) {
  return Value(leaves(run, self, 2, 1));
}
Value is_even(Run& run, const Value& self, const Arguments&) {
  return Value(leaves(run, self, 2, 0));
}
Value is_divisible(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "divisibleby", {"num"}, 1);
  return Value(equal(binary(run, Operator::modulo, self, given[0]), Value(std::int64_t{0})));
}
Value is_filter(Run&, const Value& self, const Arguments&) {
  return Value(self.is_text() && find_filter(*self.text()) != nullptr);
}
Value is_test(Run&, const Value& self, const Arguments&) {
  return Value(self.is_text() && find_test(*self.text()) != nullptr);
}

constexpr Function kEqual = compares<Comparison::equal>, kUnequal = compares<Comparison::unequal>,
                   kLess = compares<Comparison::less>, kGreater = compares<Comparison::greater>,
                   kLessEqual = compares<Comparison::less_equal>,
                   kGreaterEqual = compares<Comparison::greater_equal>;

constexpr NamedFunction kTests[] = {{"defined", is_defined},
                                    {"undefined", is_undefined},
                                    {"none", is_none},
                                    {"boolean", is_boolean},
                                    {"true", is_true},
                                    {"false", is_false},
                                    {"integer", is_int},
                                    {"float", is_float},
                                    {"number", is_number},
                                    {"string", is_string},
                                    {"mapping", is_mapping},
                                    {"sequence", is_sequence},
                                    {"iterable", is_iterable},
                                    {"callable", is_callable},
                                    {"sameas", is_same},
                                    {"odd", is_odd},
                                    {"even", is_even},
                                    {"divisibleby", is_divisible},
                                    {"filter", is_filter},
                                    {"test", is_test},
                                    {"in", compares<Comparison::in>},
                                    {"==", kEqual},
                                    {"eq", kEqual},
                                    {"equalto", kEqual},
                                    {"!=", kUnequal},
                                    {"ne", kUnequal},
                                    {">", kGreater},
                                    {"gt", kGreater},
                                    {"greaterthan", kGreater},
                                    {">=", kGreaterEqual},
                                    {"ge", kGreaterEqual},
                                    {"<", kLess},
                                    {"lt", kLess},
                                    {"lessthan", kLess},
                                    {"<=", kLessEqual},
                                    {"le", kLessEqual}};

}  // namespace

std::span<const NamedFunction> value_tests() { return kTests; }

}  // namespace tapegrad::data::jinja
