#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

// The names of a run's checkpoints; others go by the number of their step.
inline constexpr std::string_view kBest = "best", kLast = "last";

// The rule of --keep: the weights that a run keeps beside its last checkpoint.
struct KeepRule {
  bool best = true;
  std::int64_t checkpoints = 0;  // the latest so many
};
// "best,last", "last", "best,3" or "3". The last checkpoint is always kept, whether it is named or
// not. Error for any other text.
KeepRule keep_rule(const std::string& text);

}  // namespace tapegrad::run
