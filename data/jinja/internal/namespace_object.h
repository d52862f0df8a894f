#pragma once

#include <string>
#include <string_view>

#include "tapegrad/data/jinja/internal/value.h"

namespace tapegrad::data::jinja {

// namespace(): the one value that a template may change. It keeps what a loop finds out.
class NamespaceObject : public Object {
 public:
  std::string_view type() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name) override {
    const Value* found = variables_.find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  void set(std::string_view name, Value value) { variables_.set(Value(name), std::move(value)); }
  void release() override { variables_ = {}; }

 private:
  Dict variables_;
};

}  // namespace tapegrad::data::jinja
