#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tapegrad/data/jinja/internal/run.h"
#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {

enum class Operator { add, subtract, multiply, modulo };
Value binary(Run& run, Operator op, const Value& a, const Value& b);
Value negated(const Value& value);

enum class Comparison { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };
bool compare(Run& run, Comparison comparison, const Value& a, const Value& b);
// a < b of Python's. Error for types without an order.
bool less(Run& run, const Value& a, const Value& b);

Value sliced(const Value& value, const Value& begin, const Value& end, const Value& step);

// str.strip(), of white space, or of the characters in `chars`.
std::string_view stripped(std::string_view text, bool left, bool right);
std::string_view stripped(std::string_view text, std::string_view chars, bool left, bool right);
// str.replace(); most < 0: all.
Value replaced(std::string_view text, std::string_view old, std::string_view with,
               std::int64_t most);
}  // namespace tapegrad::data::jinja
