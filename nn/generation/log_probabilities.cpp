#include "tapegrad/nn/generation/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad::nn {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

LogProbabilities::LogProbabilities(std::span<const float> logits)
    : logits_(logits), top_(static_cast<double>(*std::max_element(logits.begin(), logits.end()))) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top_);
  log_sum_ = std::log(sum);
  if (std::isnan(log_sum_)) throw BrokenLogits();
}

double LogProbabilities::operator[](std::int32_t token) const {
  return static_cast<double>(logits_[static_cast<std::size_t>(token)]) - top_ - log_sum_;
}

std::int64_t LogProbabilities::rank(std::int32_t token) const {
  const auto at = logits_.begin() + token;
  const auto is_likelier = [&](float logit) { return logit > *at; };
  return 1 + std::count_if(logits_.begin(), logits_.end(), is_likelier) +
         std::count(logits_.begin(), at, *at);
}

std::vector<TokenLogprob> LogProbabilities::likeliest(std::int64_t count) const {
  std::vector<std::int32_t> order(logits_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto last = order.begin() + std::min<std::int64_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), last, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float of_a = logits_[static_cast<std::size_t>(a)];
    const float of_b = logits_[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  std::vector<TokenLogprob> tokens;
  for (auto at = order.begin(); at != last; ++at) {
    const bool ruled_out = logits_[static_cast<std::size_t>(*at)] == kNever;
    if (!ruled_out) tokens.push_back({*at, (*this)[*at]});
  }
  return tokens;
}

}  // namespace tapegrad::nn
