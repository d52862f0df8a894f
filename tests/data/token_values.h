#pragma once

#include <vector>

#include "tapegrad/data/tokens.h"

// All tokens, wherever they are.
inline std::vector<tapegrad::data::Token> values_of(const tapegrad::data::TokenSource& tokens) {
  std::vector<tapegrad::data::Token> values(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, values);
  return values;
}
