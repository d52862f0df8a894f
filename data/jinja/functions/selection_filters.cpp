#include <algorithm>
#include <string>

#include "tapegrad/data/jinja/internal/arguments.h"

// Filters that apply another filter or a test to each item. Jinja's give their items when they are
// asked for; these make all at once, which shows only if an item fails that nobody asks for.

namespace tapegrad::data::jinja {
namespace {

// The arguments behind the first `count`.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments rest{.positional = {}, .named = arguments.named};
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  return rest;
}

const String& name_at(const Arguments& arguments, std::size_t i, const char* what) {
  const String* name = arguments.positional[i].text();
  if (name == nullptr) raise("the name of a {} must be a text", what);
  return *name;
}

Value map(Run& run, const Value& self, const Arguments& arguments) {
  Values made;
  const bool nothing = !truth(self);
  const SequenceRef items = nothing ? nullptr : items_of(self);
  if (arguments.positional.empty()) {
    const Value* path = nullptr;
    for (const auto& [name, value] : arguments.named) {
      if (name != "attribute") raise("Unexpected keyword argument '{}'", name);
      path = &value;
    }
    if (nothing) return iterator_of({});
    if (path == nullptr) raise("map requires a filter argument");
    for (const Value& item : items->items) made.push_back(attribute_path(run, item, *path));
    return iterator_of(std::move(made));
  }
  if (nothing) return iterator_of({});
  const String& name = name_at(arguments, 0, "filter");
  const Function filter = find_filter(name);
  if (filter == nullptr) raise("No filter named '{}' found.", name);
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& item : items->items) {
    made.push_back(invoke(run, filter, item, rest));
  }
  return iterator_of(std::move(made));
}

Value chosen(Run& run, const Value& self, const Arguments& arguments, bool wanted, bool by_path) {
  if (!truth(self)) return iterator_of({});
  const std::size_t before = by_path ? 1 : 0;
  if (arguments.positional.size() < before) raise("Missing parameter for attribute name");
  Function test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > before) {
    const String& name = name_at(arguments, before, "test");
    test = find_test(name);
    if (test == nullptr) raise("No test named '{}' found.", name);
    rest = rest_of(arguments, before + 1);
  }
  Values kept;
  const SequenceRef items = items_of(self);
  for (const Value& item : items->items) {
    run.step();
    const Value asked = by_path ? attribute_path(run, item, arguments.positional[0]) : item;
    if (truth(test == nullptr ? asked : invoke(run, test, asked, rest)) == wanted)
      kept.push_back(item);
  }
  return iterator_of(std::move(kept));
}
Value select(Run& run, const Value& self, const Arguments& arguments) {
  return chosen(run, self, arguments, true, false);
}
Value reject(Run& run, const Value& self, const Arguments& arguments) {
  return chosen(run, self, arguments, false, false);
}
Value select_by_path(Run& run, const Value& self, const Arguments& arguments) {
  return chosen(run, self, arguments, true, true);
}
Value reject_by_path(Run& run, const Value& self, const Arguments& arguments) {
  return chosen(run, self, arguments, false, true);
}

constexpr NamedFunction kSelectionFilters[] = {{"map", map},
                                               {"select", select},
                                               {"reject", reject},
                                               {"selectattr", select_by_path},
                                               {"rejectattr", reject_by_path}};

}  // namespace

std::span<const NamedFunction> selection_filters() { return kSelectionFilters; }

}  // namespace tapegrad::data::jinja
