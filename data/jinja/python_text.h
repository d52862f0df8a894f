#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/data/jinja/run.h"
#include "tapegrad/data/jinja/value.h"

namespace tapegrad::data::jinja {

// str() and repr() of Python's.
std::string str(Run& run, const Value& value);
std::string repr(Run& run, const Value& value);
std::string repr_text(std::string_view text);
std::string repr_real(double number);

// &, <, >, ' and " as HTML writes them, unless the value is markup already.
std::string escaped(Run& run, const Value& value);

// json.dumps() of Python's.
struct JsonStyle {
  bool ascii = false;
  std::optional<std::string> indent = {};  // of each level; members on lines of their own
  std::string item_separator = ", ", key_separator = ": ";
  bool sort_keys = false;
};
std::string json_dumps(Run& run, const Value& value, const JsonStyle& style);

}  // namespace tapegrad::data::jinja
