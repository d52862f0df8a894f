#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/data/jinja/internal/run.h"
#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {

// str() and repr() of Python's.
String str(Run& run, const Value& value);
String repr(Run& run, const Value& value);
String repr_text(std::string_view text);
String repr_real(double number);

// &, <, >, ' and " as HTML writes them, unless the value is markup already.
String escaped(Run& run, const Value& value);

// json.dumps() of Python's.
struct JsonStyle {
  bool ascii = false;
  std::optional<String> indent = {};  // of each level; members on lines of their own
  String item_separator = ", ", key_separator = ": ";
  bool sort_keys = false;
};
String json_dumps(Run& run, const Value& value, const JsonStyle& style);

}  // namespace tapegrad::data::jinja
