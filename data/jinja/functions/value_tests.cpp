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
Value is_same(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "sameas", {"other"}, 1);
  return Value(self.same(given[0]));
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
                                    {"sameas", is_same},
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
