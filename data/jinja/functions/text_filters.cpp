#include <algorithm>
#include <string>

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
  return run.text(F(str(run, self)), self.is_markup());
}

Value trim(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "trim", {"chars"});
  const std::string text = str(run, self);
  run.step(text.size() / 64);
  const std::string_view kept = given[0].is_none()
                                    ? strip_left(strip_right(text))
                                    : strip_left(strip_right(text, given.text(0)), given.text(0));
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
                           all_are(c, CharacterTest::space);
    made += separates ? std::string(c) : begins ? upper(c) : lower(c);
    begins = separates;
  }
  return made;
}

Value title_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "title", {});
  return run.text(jinja_title(str(run, self)));
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
  return run.text(escaped(run, self), true);
}
Value safe(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "safe", {});
  return run.text(str(run, self), true);
}

Value as_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "string", {});
  return run.text(str(run, self), self.is_markup());
}

Value center(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "center", {"width"});
  const Value text(str(run, self));
  return call(run, *method_of(text, "center"), {.positional = {Value(given.integer(0, 80))}});
}

Value format_filter(Run& run, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty()) {
    return run.text(percent_format(run, str(run, self), tuple_of(arguments.positional)));
  }
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.named) dict->set(Value(name), value);
  return run.text(percent_format(run, str(run, self), Value(DictRef(std::move(dict)))));
}

Value truncate(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "truncate", {"length", "killwords", "end", "leeway"});
  if (!self.is_text()) raise("object of type '{}' has no len()", type_name(self));
  const std::string& text = *self.text();
  const std::int64_t length = given.integer(0, 255);
  const std::int64_t leeway = given[3].is_none() ? 5 : given.integer(3, 5);
  const std::string_view end = given.text(2, "...");
  const auto end_size = static_cast<std::int64_t>(character_count(end));
  if (length < end_size) raise("expected length >= {}, got {}", end_size, length);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  const auto size = static_cast<std::int64_t>(character_count(text));
  if (size - leeway <= length) return self;
  std::string cut = text.substr(0, byte_of(text, static_cast<std::size_t>(length - end_size)));
  if (!given.flag(1, false)) cut = cut.substr(0, cut.rfind(' '));
  return run.text(cut + std::string(end));
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
                                          {"escape", escape},
                                          {"center", center},
                                          {"format", format_filter},
                                          {"truncate", truncate}};

}  // namespace

std::span<const NamedFunction> text_filters() { return kTextFilters; }

}  // namespace tapegrad::data::jinja
