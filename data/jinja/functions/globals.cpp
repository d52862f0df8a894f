#include <array>
#include <ctime>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/namespace_object.h"
#include "tapegrad/data/jinja/internal/python_text.h"

// The functions that every template knows: Jinja's, and those that transformers adds.

namespace tapegrad::data::jinja {
namespace {

constexpr std::int64_t kMostOfRange = 100'000;  // of Jinja's sandbox

Value range(Run&, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    raise("range expected at least 1 argument, got 0");
  }
  const Parameters given(arguments, "range", {"start", "stop", "step"}, 1);
  const bool alone = arguments.positional.size() == 1;
  const std::int64_t begin = alone ? 0 : given.integer(0, 0), end = given.integer(alone ? 0 : 1, 0);
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  Values items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(items.size()) == kMostOfRange) {
      raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMostOfRange);
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value(make_counted<const Sequence>(SequenceKind::range, std::move(items)));
}

Value make_namespace(Run& run, const Value&, const Arguments& arguments) {
  if (!arguments.positional.empty()) raise("namespace() takes named arguments alone");
  auto made = make_counted<NamespaceObject>();
  for (const auto& [name, value] : arguments.named) made->set(name, value);
  run.keep(made);
  return Value(ObjectRef(std::move(made)));
}

Value raise_exception(Run& run, const Value&, const Arguments& arguments) {
  const Parameters given(arguments, "raise_exception", {"message"}, 1);
  throw TemplateError(str(run, given[0]));
}

Value strftime_now(Run&, const Value&, const Arguments& arguments) {
  const Parameters given(arguments, "strftime_now", {"format"}, 1);
  const String format(given.text(0));
  if (format.empty()) return Value("");
  if (format.size() > 1000) raise("strftime_now() expects a shorter format");
  count_steps(16 + format.size());  // a conversion takes far longer than a letter
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 65536> made{};  // the longest conversion makes some dozen bytes
  const std::size_t size = std::strftime(made.data(), made.size(), format.c_str(), &local);
  return Value(String(made.data(), size));
}

constexpr NamedFunction kGlobals[] = {{"range", range},
                                      {"namespace", make_namespace},
                                      {"raise_exception", raise_exception},
                                      {"strftime_now", strftime_now}};

}  // namespace

std::span<const NamedFunction> global_functions() { return kGlobals; }

Function find_global(std::string_view name) {
  const NamedFunction* global = find_in(kGlobals, name);
  return global == nullptr ? nullptr : global->function;
}

}  // namespace tapegrad::data::jinja
