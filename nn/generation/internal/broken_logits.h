#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "tapegrad/base/error.h"

namespace tapegrad::nn {

// A model gives logits that are NaN, or whose largest is infinite. Who knows the model's file adds
// it to the message: see naming_model().
struct BrokenLogits : Error {
  BrokenLogits()
      : Error(
            "the model's logits are NaN or infinite: its weights are broken, or so large that they "
            "overflow (--cache f32 holds keys and values beyond 65504, which f16 does not)") {}
};

// BrokenLogits if that is so. Infinite ones have no differences, and of logits that are all −∞ no
// token can be drawn.
inline void check_logits(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) {
    if (std::isnan(logit)) throw BrokenLogits();
    largest = std::max(largest, logit);
  }
  if (!std::isfinite(largest)) throw BrokenLogits();
}

// The value that `call` returns. A BrokenLogits becomes an Error that begins with the model's name.
template <class Call>
decltype(auto) naming_model(const std::string& model, const Call& call) {
  try {
    return call();
  } catch (const BrokenLogits& error) {
    fail("{}: {}", model, error.what());
  }
}

}  // namespace tapegrad::nn
