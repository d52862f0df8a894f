#include <algorithm>

#include "tapegrad/data/jinja/internal/python_text.h"
#include "tapegrad/data/jinja/internal/statements.h"

// Macros: functions that a template defines.

namespace tapegrad::data::jinja {
namespace {

class MacroObject : public Object {
 public:
  MacroObject(const Frame& frame, const MacroSource& source)
      : scope_(frame.scope), whole_(frame.whole), source_(source) {}

  std::string_view type() const override { return "Macro"; }
  String repr() const override {
    return source_.name.empty() ? "<Macro anonymous>"
                                : formatted("<Macro {}>", repr_text(source_.name));
  }
  std::optional<Value> attribute(std::string_view name) override {
    raise("'{}' of macros is not supported", name);
  }

  Value call(Run& run, const Arguments& arguments) override {
    const Run::Deeper deeper(run);
    String text;
    const Frame outer{run, scope_, &text, whole_};
    const Frame frame = outer.inside();
    bind(frame, arguments);
    source_.body.execute(frame);
    return Value(std::move(text));
  }

 private:
  void bind(const Frame& frame, const Arguments& arguments) const {
    const auto& parameters = source_.parameters;
    const std::size_t given = std::min(arguments.positional.size(), parameters.size());
    Vector<bool> used(arguments.named.size(), false);
    const auto take = [&](std::string_view name) -> const Value* {
      count_steps(arguments.named.size() / 8);
      for (std::size_t i = 0; i < arguments.named.size(); ++i) {
        if (used[i] || arguments.named[i].first != name) continue;
        used[i] = true;
        return &arguments.named[i].second;
      }
      return nullptr;
    };
    Vector<std::size_t> missing;
    bool found_caller = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& name = parameters[i].first;
      found_caller = found_caller || name == "caller";
      const Value* value = i < given ? &arguments.positional[i] : take(name);
      if (value == nullptr) {
        missing.push_back(i);
      } else {
        frame.scope->set(name, *value);
      }
    }
    if (source_.reads_caller && !found_caller) {
      const Value* caller = take("caller");
      frame.scope->set("caller", caller != nullptr && !caller->is_none()
                                     ? *caller
                                     : Value::undefined("No caller defined"));
    }
    check_all_used(frame.run, arguments, used);
    // Defaults may read the parameters before them.
    for (const std::size_t i : missing) {
      const auto& [name, otherwise] = parameters[i];
      frame.scope->set(
          name, otherwise ? otherwise->evaluate(frame)
                          : Value::undefined(described("parameter '{}' was not provided", name)));
    }
  }

  // Error for arguments that no parameter takes.
  void check_all_used(Run& run, const Arguments& arguments, const Vector<bool>& used) const {
    const auto left = std::find(used.begin(), used.end(), false);
    if (left != used.end()) {
      const auto& name = arguments.named[static_cast<std::size_t>(left - used.begin())].first;
      if (name == "caller") {
        raise(
            "macro {} was invoked with two values for the special caller argument. This is most "
            "likely a bug.",
            repr_text(source_.name));
      }
      raise("macro {} takes no keyword argument {}", repr_text(source_.name),
            jinja::repr(run, Value(name)));
    }
    const std::size_t wanted = source_.parameters.size();
    if (arguments.positional.size() > wanted) {
      raise("macro {} takes not more than {} argument(s)", repr_text(source_.name), wanted);
    }
  }

  std::shared_ptr<Scope> scope_;  // around the definition
  Frame::Whole* whole_;
  const MacroSource& source_;
};

}  // namespace

Value macro_value(const Frame& frame, const MacroSource& source) {
  frame.run.keep(frame.scope);
  return Value(ObjectRef(make_counted<MacroObject>(frame, source)));
}

}  // namespace tapegrad::data::jinja
