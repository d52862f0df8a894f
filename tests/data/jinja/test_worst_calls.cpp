// A new function of templates needs a call here: the worst that a template can ask of it.

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/tests/catch.h"

namespace tapegrad::data::jinja {

TEST_CASE("each function of templates ends at a bound when it is given the worst", "[jinja]") {
  const auto text = [](std::size_t times, std::string_view of) {
    std::string made;
    for (std::size_t i = 0; i < times; ++i) made += of;
    return Value(made);
  };
  const std::size_t letters = 400'000, items = 20'000;
  const Value t = text(letters, "a"), u = text(letters, "a"), blanks = text(letters, " "), none;
  Values numbers;
  auto members = std::make_shared<Dict>();
  Arguments names;
  const Value a("a"), one(std::int64_t{1}), many(std::int64_t{1'000'000'000});
  for (std::size_t i = 0; i < items; ++i) {
    numbers.emplace_back(static_cast<std::int64_t>(i));
    members->members.emplace_back(Value(std::to_string(i)), Value("b"));
    names.named.emplace_back(std::to_string(i), one);
  }
  const Value l = list_of(std::move(numbers)), d{DictRef(std::move(members))};
  struct Call {
    Value self;
    Arguments arguments = {};
    bool is_short = false;  // looks at nothing but the kind of what it is given
  };
  const auto on = [](const Value& self, Values arguments = {}) {
    return Call{self, {.positional = std::move(arguments)}};
  };
  const auto is_short = [](const Value& self, Values arguments = {}) {
    return Call{self, {.positional = std::move(arguments)}, true};
  };
  using Calls = std::map<std::string_view, Call>;
  const Calls filters = {{"trim", on(blanks)},
                         {"replace", on(t, {a, t})},
                         {"join", on(l, {t})},
                         {"indent", on(text(9, "\n"), {many})},
                         {"tojson", Call{l, {.named = {{String("indent"), many}}}}},
                         {"upper", on(t)},
                         {"lower", on(t)},
                         {"capitalize", on(t)},
                         {"title", on(t)},
                         {"string", on(l)},
                         {"safe", on(l)},
                         {"first", on(t)},
                         {"last", on(t)},
                         {"length", on(t)},
                         {"count", on(t)},
                         {"list", on(t)},
                         {"sort", on(l)},
                         {"dictsort", on(d)},
                         {"min", on(l)},
                         {"max", on(l)},
                         {"items", on(d)},
                         {"default", is_short(l)},
                         {"d", is_short(l)},
                         {"map", on(l, {Value("string")})},
                         {"select", on(l, {Value("equalto"), t})},
                         {"reject", on(l, {Value("equalto"), t})},
                         {"selectattr", on(l, {a})},
                         {"rejectattr", on(l, {a})},
                         {"int", on(t)},
                         {"float", on(t)}};
  Calls tests = {{"sameas", on(t, {u})}, {"in", on(t, {l})}};
  for (const char* name : {"defined", "undefined", "none", "boolean", "true", "false", "integer",
                           "float", "number", "string", "mapping", "sequence", "iterable"}) {
    tests.emplace(name, is_short(l));
  }
  for (const char* name : {"==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", ">=", "ge",
                           "<", "lt", "lessthan", "<=", "le"}) {
    tests.emplace(name, on(t, {u}));
  }
  const Calls methods = {{"strip", on(blanks)},
                         {"lstrip", on(blanks)},
                         {"rstrip", on(blanks)},
                         {"startswith", on(t, {u})},
                         {"endswith", on(t, {u})},
                         {"replace", on(t, {a, t})},
                         {"upper", on(t)},
                         {"lower", on(t)},
                         {"capitalize", on(t)},
                         {"title", on(t)},
                         {"split", on(t, {a})},
                         {"format", on(Value("{}{}"), {t, u})},
                         {"find", on(t, {Value("b")})},
                         {"count", on(t, {a})}};
  const Calls of_dicts = {
      {"items", on(d)}, {"keys", on(d)}, {"values", on(d)}, {"get", on(d, {text(1000, "b")})}};
  const Calls globals = {{"range", on(none, {many})},
                         {"namespace", Call{none, names}},  // the call itself takes the steps
                         {"raise_exception", on(none, {l})},
                         {"strftime_now", is_short(none, {text(500, "%U")})}};  // the longest

  const auto each = [](std::span<const NamedFunction> table, const Calls& calls) {
    for (const auto& [name, function] : table) {
      INFO(name << ": a function needs a call here that works long");
      CHECK(calls.contains(name));
      if (!calls.contains(name)) continue;
      const Call& call = calls.at(name);
      std::string error;
      Run run({.steps = 6000});
      try {
        invoke(run, function, call.self, call.arguments);
      } catch (const TemplateError& failed) {
        error = failed.message();
      }
      INFO(run.steps() << " steps; " << error);
      const bool ended = error.find("the template takes more than") != error.npos ||
                         error.find("values of more than") != error.npos;
      CHECK(ended == !call.is_short);
    }
  };
  for (const auto table : {text_filters(), item_filters(), selection_filters(), number_filters()}) {
    each(table, filters);
  }
  each(value_tests(), tests);
  each(text_methods(), methods);
  each(dict_methods(), of_dicts);
  each(global_functions(), globals);
}

}  // namespace tapegrad::data::jinja
