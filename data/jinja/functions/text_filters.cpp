#include <algorithm>
#include <string>

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/data/jinja/internal/operators.h"
#include "tapegrad/data/jinja/internal/python_text.h"

// Jinja's filters that make texts.

namespace tapegrad::data::jinja {
namespace {

// A str method as a filter: other values are made texts first.
template <String (*F)(std::string_view)>
Value map_as_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "filter", {});
  const String text = str(run, self);
  return Value(F(text), self.is_markup());
}

Value trim(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "trim", {"chars"});
  const String text = str(run, self);
  const std::string_view kept =
      given[0].is_none() ? stripped(text, true, true) : stripped(text, given.text(0), true, true);
  return Value(String(kept), self.is_markup());
}

Value replace_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"}, 2);
  const std::int64_t most = given[2].is_none() ? -1 : given.integer(2, -1);
  return replaced(str(run, self), str(run, given[0]), str(run, given[1]), most);
}

String jinja_title(std::string_view text) {
  String made;
  bool begins = true;  // a word
  for (const std::string_view c : characters_of(text)) {
    const bool separates = std::string_view("-({[<").find(c) != std::string_view::npos ||
                           is_space(first_char(c).code_point);
    made += separates ? String(c) : begins ? upper(c) : lower(c);
    begins = separates;
  }
  return made;
}

Value title_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "title", {});
  const String text = str(run, self);
  return Value(jinja_title(text));
}

Value join_items(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "join", {"d", "attribute"});
  const String separator = given.has(0) ? str(run, given[0]) : "";
  String made;
  const SequenceRef items = items_of(self);
  bool first = true;
  for (const Value& item : items->items) {
    const String part = str(run, given[1].is_none() ? item : attribute_path(run, item, given[1]));
    if (!first) made += separator;
    first = false;
    made += part;
  }
  return Value(std::move(made));
}

// Error, as for ' ' * width, if there is no room for them.
String blanks(Run& run, std::int64_t width) {
  return *binary(run, Operator::multiply, Value(" "), Value(width)).text();
}

Value indent(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "indent", {"width", "first", "blank"});
  if (!self.is_text()) {
    binary(run, Operator::add, self, Value("\n"));  // fails with Python's words
  }
  const String* width_text = given[0].text();
  const String indention = width_text != nullptr ? *width_text : blanks(run, given.integer(0, 4));
  const String text = *self.text() + "\n";
  const auto lines = lines_of(text);
  String made = given.flag(1, false) ? indention : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) made += '\n';
    if (i > 0 && (given.flag(2, false) || !lines[i].empty())) made += indention;
    made += lines[i];
  }
  return Value(std::move(made), self.is_markup());
}

Value to_json(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "tojson",
                         {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ascii = given.flag(0, false), .sort_keys = given.flag(3, false)};
  if (const String* text = given[1].text()) {
    style.indent = *text;
  } else if (!given[1].is_none()) {
    style.indent = blanks(run, given.integer(1, 0));
  }
  if (style.indent) style.item_separator = ",";
  if (!given[2].is_none()) {
    const SequenceRef pair = items_of(given[2]);
    const bool texts =
        pair->items.size() == 2 && pair->items[0].is_text() && pair->items[1].is_text();
    if (!texts) raise("tojson() expects two texts as separators");
    style.item_separator = *pair->items[0].text();
    style.key_separator = *pair->items[1].text();
  }
  return Value(json_dumps(run, self, style));
}

Value safe(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "safe", {});
  return Value(str(run, self), true);
}

Value as_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "string", {});
  return Value(str(run, self), self.is_markup());
}

constexpr NamedFunction kTextFilters[] = {{"trim", trim},
                                          {"replace", replace_text},
                                          {"join", join_items},
                                          {"indent", indent},
                                          {"tojson", to_json},
                                          {"upper", map_as_text<upper>},
                                          {"lower", map_as_text<lower>},
                                          {"capitalize", map_as_text<capitalize>},
                                          {"title", title_filter},
                                          {"string", as_text},
                                          {"safe", safe}};

}  // namespace

std::span<const NamedFunction> text_filters() { return kTextFilters; }

}  // namespace tapegrad::data::jinja
