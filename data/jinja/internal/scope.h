#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {

// The variables of a template, a macro or one turn of a loop. What is not there is looked for in
// the scope around it, as that is when it is looked for.
struct Scope {
  std::shared_ptr<Scope> around;  // null: the outermost one
  Vector<std::pair<String, Value>> variables = {};

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->around.get()) {
      count_steps((1 + scope->variables.size()) / 4 + reading_names(*scope, name));
      for (const auto& [known, value] : scope->variables) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    count_steps(variables.size() / 8 + reading_names(*this, name));
    for (auto& [known, old] : variables) {
      if (known != name) continue;
      old = std::move(value);
      return;
    }
    variables.emplace_back(name, std::move(value));
  }
  // Of names as long as this one, which may differ at their ends.
  static std::size_t reading_names(const Scope& scope, std::string_view name) {
    return (1 + scope.variables.size()) * (name.size() / 64);
  }
};

}  // namespace tapegrad::data::jinja
