#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "tapegrad/data/loader.h"

namespace tapegrad::testing {

// 0, 1, 2, …
inline std::vector<data::Token> counting(std::int64_t n) {
  std::vector<data::Token> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

// Where the rows of a batch of counting tokens begin.
inline std::vector<data::Token> starts(const data::Batch& batch) {
  std::vector<data::Token> firsts;
  for (std::int64_t row = 0; row < batch.B; ++row) {
    firsts.push_back(batch.inputs[static_cast<std::size_t>(row * batch.T)]);
  }
  return firsts;
}

}  // namespace tapegrad::testing
