#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::nn {

// One row of a table of names. It holds for names of the model that begin with `prefix`, in which
// '#' stands for any number. The source has `source_prefix` in place of the prefix, with the same
// numbers, and `suffixes` says what the rest of the name is there. With no suffixes, the rest
// stays.
struct NameRule {
  std::string prefix, source_prefix;
  std::vector<std::pair<std::string, std::string>> suffixes = {};
};

// Finds what a foreign source of tensors calls a tensor of the model. A map without rules changes
// no name.
class NameMap {
 public:
  NameMap() = default;
  explicit NameMap(std::vector<NameRule> rules) : rules_(std::move(rules)) {}

  // The source's name of the model's tensor `name`. The first rule that holds is used; where none
  // holds, the name is the same.
  std::string operator()(const std::string& name) const;

 private:
  std::vector<NameRule> rules_;
};

}  // namespace tapegrad::nn
