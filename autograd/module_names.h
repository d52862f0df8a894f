#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

// A parameter's module is its name without the last part; a name of one part is its own module.
std::string module_of(std::string_view parameter);
// {"h.3", "attn", "c_attn"} of "h.3.attn.c_attn": a number belongs to the name before it.
std::vector<std::string> module_parts(std::string_view module);
// The block that a parameter belongs to: its name up to the first number, "h.3" of
// "h.3.attn.c_attn.weight". Empty for a name without a number, as of embeddings and a head.
std::string block_of(std::string_view parameter);

// Which module an op belongs to, told by the parameters that it works on, for timelines and
// pictures of tapes.
class ModuleNames {
 public:
  ModuleNames() = default;
  explicit ModuleNames(std::span<const std::pair<std::string, Tensor>> parameters) {
    for (const auto& [name, tensor] : parameters) {
      modules_[tensor.id()] = module_of(name);
    }
  }

  struct Module {
    std::string name = {};       // empty: none so far
    bool has_parameter = false;  // otherwise the name is the op's before, which had one
  };
  // The module of the op with these inputs (0: undefined). Ops must come in the order of their run.
  Module next(std::span<const std::uint64_t> inputs) {
    for (const std::uint64_t id : inputs) {
      const auto module = modules_.find(id);
      if (module != modules_.end()) return {last_ = module->second, true};
    }
    return {last_, false};
  }
  // Another computation begins, such as the next step's forward.
  void begin() { last_.clear(); }

 private:
  std::unordered_map<std::uint64_t, std::string> modules_;
  std::string last_;
};

}  // namespace tapegrad
