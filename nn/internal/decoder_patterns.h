#pragma once

#include <string_view>
#include <vector>

#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/nn/decoder_config.h"

namespace tapegrad::nn {

// True if has(block) of some block of so many.
template <class Has>
bool any_block(const Has& has, int blocks) {
  for (int i = 0; i < blocks; ++i) {
    if (has(i)) return true;
  }
  return false;
}

// The numbers of "1,1.25,2". Error, naming the option, for another text.
inline std::vector<double> numbers_in(std::string_view option, std::string_view text) {
  std::vector<double> numbers;
  for (std::string_view rest = text; numbers.empty() || rest.starts_with(',');) {
    if (!numbers.empty()) rest.remove_prefix(1);
    const auto number = take_number<double>(rest);
    check(number && (rest.empty() || rest.starts_with(',')),
          "{} must be numbers with commas between them, as 1,1.25,2, not '{}'", option, text);
    check(*number >= 1e-6 && *number <= 1e6, "{} are from 1e-6 to 1e6, not {}", option, *number);
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace tapegrad::nn
