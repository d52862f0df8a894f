#include <algorithm>
#include <string>

#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/arguments.h"
#include "tapegrad/data/jinja/characters.h"
#include "tapegrad/data/jinja/operators.h"
#include "tapegrad/data/jinja/python_text.h"

// Jinja's filters that make texts.

namespace tapegrad::data::jinja {
namespace {

// A str method as a filter: other values are made texts first.
template <std::string (*F)(std::string_view)>
Value map_as_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "filter", {});
  const std::string text = str(run, self);
  run.will_read(text);
  return run.text(F(text), self.is_markup());
}

Value trim(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "trim", {"chars"});
  const std::string text = str(run, self);
  const std::string_view kept = given[0].is_none() ? stripped(run, text, true, true)
                                                   : stripped(run, text, given.text(0), true, true);
  return run.text(std::string(kept), self.is_markup());
}

Value replace_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"}, 2);
  const std::int64_t most = given[2].is_none() ? -1 : given.integer(2, -1);
  return replaced(run, str(run, self), str(run, given[0]), str(run, given[1]), most);
}

std::string jinja_title(std::string_view text) {
  std::string made;
  bool begins = true;  // a word
  for (const std::string_view c : characters_of(text)) {
    const bool separates = std::string_view("-({[<").find(c) != std::string_view::npos ||
                           is_space(first_char(c).code_point);
    made += separates ? std::string(c) : begins ? upper(c) : lower(c);
    begins = separates;
  }
  return made;
}

Value title_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "title", {});
  const std::string text = str(run, self);
  run.will_read(text);
  run.will_make(text.size() * kMostOfParts);
  return run.text(jinja_title(text));
}

Value join_items(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "join", {"d", "attribute"});
  const std::string separator = given.has(0) ? str(run, given[0]) : "";
  std::string made;
  const SequenceRef items = items_of(run, self);
  bool first = true;
  for (const Value& item : items->items) {
    const std::string part =
        str(run, given[1].is_none() ? item : attribute_path(run, item, given[1]));
    run.will_make(part.size() + separator.size());
    if (!first) made += separator;
    first = false;
    made += part;
  }
  return Value(std::move(made));
}

Value indent(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "indent", {"width", "first", "blank"});
  if (!self.is_text()) {
    binary(run, Operator::add, self, Value("\n"));  // fails with Python's words
  }
  const std::string* width_text = given[0].text();
  const std::int64_t width = width_text != nullptr ? 0 : given.integer(0, 4);
  run.will_make(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)));
  const std::string indention =
      width_text != nullptr
          ? *width_text
          : std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  const std::string text = *self.text() + "\n";
  run.will_read(text);
  run.will_make(text.size() * kMostOfParts);
  const auto lines = lines_of(text);
  run.will_make(text.size() + lines.size() * (indention.size() + 1));
  std::string made = given.flag(1, false) ? indention : "";
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
  if (const std::string* text = given[1].text()) {
    style.indent = *text;
  } else if (!given[1].is_none()) {
    const std::int64_t width = std::max<std::int64_t>(given.integer(1, 0), 0);
    run.will_make(static_cast<std::size_t>(width));
    style.indent = std::string(static_cast<std::size_t>(width), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (!given[2].is_none()) {
    const SequenceRef pair = items_of(run, given[2]);
    const bool texts =
        pair->items.size() == 2 && pair->items[0].is_text() && pair->items[1].is_text();
    if (!texts) raise("tojson() expects two texts as separators");
    style.item_separator = *pair->items[0].text();
    style.key_separator = *pair->items[1].text();
  }
  return Value(json_dumps(run, self, style));
}

Value escape(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "escape", {});
  return Value(escaped(run, self), true);
}
Value safe(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "safe", {});
  return run.text(str(run, self), true);
}

Value as_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "string", {});
  return run.text(str(run, self), self.is_markup());
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
                                          {"safe", safe},
                                          {"e", escape},
                                          {"escape", escape}};

}  // namespace

std::span<const NamedFunction> text_filters() { return kTextFilters; }

}  // namespace tapegrad::data::jinja
