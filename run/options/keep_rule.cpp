#include "tapegrad/run/options/keep_rule.h"

#include <algorithm>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::run {

KeepRule keep_rule(const std::string& text) {
  KeepRule rule{.best = false, .checkpoints = 0};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const auto number = whole_number_of<std::int64_t>(word);
    check(word == kBest || word == kLast || (number && *number >= 1),
          "'{}' is not best, last, or a number of checkpoints, or several of them with commas",
          text);
    if (word == kBest) rule.best = true;
    if (number) rule.checkpoints = *number;
    begin = end + 1;
  }
  return rule;
}

}  // namespace tapegrad::run
