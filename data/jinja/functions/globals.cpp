#include <array>
#include <ctime>

#include "tapegrad/data/jinja/arguments.h"
#include "tapegrad/data/jinja/namespace_object.h"
#include "tapegrad/data/jinja/python_text.h"

// The functions that every template knows: Jinja's, and those that transformers adds.

namespace tapegrad::data::jinja {
namespace {

constexpr std::int64_t kMostOfRange = 100'000;  // of Jinja's sandbox

Value range(Run& run, const Value&, const Arguments& arguments) {
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
  run.will_make(items.size() * sizeof(Value));
  return Value(std::make_shared<const Sequence>(SequenceKind::range, std::move(items)));
}

// Members of a dict, pairs of a list, and then named arguments, of dict() and namespace().
template <class Put>
void each_member(Run& run, const Arguments& arguments, std::string_view function, const Put& put) {
  if (arguments.positional.size() > 1) {
    raise("{} expected at most 1 argument, got {}", function, arguments.positional.size());
  }
  for (const Value& from : arguments.positional) {
    if (const Dict* members = from.dict()) {
      for (const auto& [key, value] : members->members) put(key, value);
      continue;
    }
    const SequenceRef pairs = items_of(run, from);
    for (const Value& pair : pairs->items) {
      const SequenceRef two = items_of(run, pair);
      if (two->items.size() != 2) raise("dictionary update sequence element needs length 2");
      put(two->items[0], two->items[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) put(Value(name), value);
}

Value make_dict(Run& run, const Value&, const Arguments& arguments) {
  auto dict = std::make_shared<Dict>();
  each_member(run, arguments, "dict", [&](const Value& key, const Value& value) {
    run.step(dict->members.size() / 8);
    run.will_make(2 * sizeof(Value));
    dict->set(key, value);
  });
  return Value(DictRef(std::move(dict)));
}

Value make_namespace(Run& run, const Value&, const Arguments& arguments) {
  auto made = std::make_shared<NamespaceObject>();
  each_member(run, arguments, "namespace", [&](const Value& key, const Value& value) {
    run.step();
    if (key.is_text()) made->set(*key.text(), value);
  });
  run.keep(made);
  return Value(ObjectRef(std::move(made)));
}

// cycler(a, b): next() gives them in turn.
class CyclerObject : public Object {
 public:
  explicit CyclerObject(Values items) : items_(std::move(items)) {
    for (const Value& item : items_) extent.cover(item);
  }
  std::string_view type() const override { return "Cycler"; }
  std::optional<Value> attribute(std::string_view name) override {
    if (name == "current") return items_[at_];
    if (name == "next") return function_value("next", next, Value(self.lock()));
    if (name == "reset") return function_value("reset", reset, Value(self.lock()));
    return std::nullopt;
  }
  std::weak_ptr<Object> self;

 private:
  static Value next(Run&, const Value& value, const Arguments&) {
    auto& cycler = static_cast<CyclerObject&>(*value.object());
    const std::size_t at = cycler.at_;
    cycler.at_ = (at + 1) % cycler.items_.size();
    return cycler.items_[at];
  }
  static Value reset(Run&, const Value& value, const Arguments&) {
    static_cast<CyclerObject&>(*value.object()).at_ = 0;
    return {};
  }
  Values items_;
  std::size_t at_ = 0;
};

Value make_cycler(Run&, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) raise("at least one item has to be provided");
  auto made = std::make_shared<CyclerObject>(arguments.positional);
  made->self = made;
  return Value(ObjectRef(std::move(made)));
}

// joiner(", "): nothing when it is called first, the separator then.
class JoinerObject : public Object {
 public:
  explicit JoinerObject(std::string separator) : separator_(std::move(separator)) {}
  std::string_view type() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Run&, const Arguments&) override {
    const bool first = !used_;
    used_ = true;
    return Value(first ? std::string() : separator_);
  }

 private:
  std::string separator_;
  bool used_ = false;
};

Value make_joiner(Run& run, const Value&, const Arguments& arguments) {
  const Parameters given(arguments, "joiner", {"sep"});
  const std::string separator = given.has(0) ? str(run, given[0]) : ", ";
  return Value(ObjectRef(std::make_shared<JoinerObject>(separator)));
}

Value raise_exception(Run& run, const Value&, const Arguments& arguments) {
  const Parameters given(arguments, "raise_exception", {"message"}, 1);
  throw TemplateError(str(run, given[0]));
}

Value strftime_now(Run& run, const Value&, const Arguments& arguments) {
  const Parameters given(arguments, "strftime_now", {"format"}, 1);
  const std::string format(given.text(0));
  if (format.empty()) return Value("");
  if (format.size() > 1000) raise("strftime_now() expects a shorter format");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 65536> made{};  // the longest conversion makes some dozen bytes
  const std::size_t size = std::strftime(made.data(), made.size(), format.c_str(), &local);
  return run.text(std::string(made.data(), size));
}

constexpr NamedFunction kGlobals[] = {{"range", range},
                                      {"dict", make_dict},
                                      {"namespace", make_namespace},
                                      {"cycler", make_cycler},
                                      {"joiner", make_joiner},
                                      {"raise_exception", raise_exception},
                                      {"strftime_now", strftime_now}};

}  // namespace

Function find_global(std::string_view name) { return find_in(kGlobals, name); }

}  // namespace tapegrad::data::jinja
