#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::nn {

struct TokenLogprob {
  std::int32_t token;
  double logprob;
};

// The log probabilities of tokens under logits (V), which must outlive it: no temperature, no
// penalty, no choice.
class LogProbabilities {
 public:
  explicit LogProbabilities(std::span<const float> logits);

  double operator[](std::int32_t token) const;
  // The place of a token among all, the likeliest first: 1 and more, in the order of likeliest().
  std::int64_t rank(std::int32_t token) const;
  // The `count` likeliest tokens, or all if there are fewer; the likeliest first, of equal ones
  // that of the smaller id. Those of a logit of −∞ are not among them.
  std::vector<TokenLogprob> likeliest(std::int64_t count) const;

 private:
  std::span<const float> logits_;
  double top_, log_sum_;
};

}  // namespace tapegrad::nn
