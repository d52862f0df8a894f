#include "tapegrad/nn/generation/pick_token.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/nn/generation/internal/broken_logits.h"

namespace tapegrad::nn {
namespace {

constexpr double kMostLogit = std::numeric_limits<float>::max();

}  // namespace

void GenerateOptions::validate() const {
  check(max_new_tokens >= 0, "max_new_tokens must not be negative, as {} is", max_new_tokens);
  check(temperature > 0 && std::isfinite(temperature),
        "temperature must be above 0, not {}; for the likeliest token each time, use greedy",
        temperature);
  check(!top_k || *top_k >= 1, "top_k must be at least 1, not {}", top_k.value_or(0));
  check(top_p > 0 && top_p <= 1, "top_p must be above 0 and at most 1, not {}", top_p);
  check(min_p >= 0 && min_p <= 1, "min_p must be from 0 to 1, not {}", min_p);
  check(typical_p > 0 && typical_p <= 1, "typical_p must be above 0 and at most 1, not {}",
        typical_p);
  check(repetition_penalty >= kLeastPenalty && repetition_penalty <= kMostPenalty,
        "repetition_penalty must be from {} to {}, not {}", kLeastPenalty, kMostPenalty,
        repetition_penalty);
  check(std::abs(presence_penalty) <= kMostLogit, "presence_penalty must be finite in f32, not {}",
        presence_penalty);
  check(std::abs(frequency_penalty) <= kMostLogit,
        "frequency_penalty must be finite in f32, not {}", frequency_penalty);
  check(min_tokens >= 0, "min_tokens must not be negative, as {} is", min_tokens);
  check(min_tokens <= max_new_tokens, "min_tokens must be at most max_new_tokens, {}, not {}",
        max_new_tokens, min_tokens);
  for (const auto& [token, bias] : logit_bias) {
    check(std::abs(bias) <= kMostLogit, "the logit_bias of token {} must be finite in f32, not {}",
          token, bias);
  }
  check(top_logprobs >= 0, "top_logprobs must not be negative, as {} is", top_logprobs);
  check(prompt_logprobs.value_or(0) >= 0, "prompt_logprobs must not be negative, as {} is",
        prompt_logprobs.value_or(0));
  check(kv_cache || !prompt_logprobs, "prompt_logprobs needs the KV cache");
  check(lookup >= 0 && lookup <= kMostLookup, "lookup must be from 0 to {}, not {}", kMostLookup,
        lookup);
  check(kv_cache || lookup == 0, "lookup needs the KV cache");
  check(kv_cache || draft == nullptr, "draft needs the KV cache");
  check(lookup == 0 || draft == nullptr, "lookup and draft exclude each other");
  check(draft_tokens >= 1 && draft_tokens <= kMostLookup,
        "draft_tokens must be from 1 to {}, not {}", kMostLookup, draft_tokens);
  check(kv_cache || context == Context::exact, "context shift needs the KV cache");
}

namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

void add_to(float& logit, double added) {
  if (!std::isfinite(logit)) return;  // it is ruled out
  // Two large ones that add up to infinity would have no difference.
  const double sum = static_cast<double>(logit) + added;
  logit = static_cast<float>(std::clamp(sum, -kMostLogit, kMostLogit));
}

void add_bias(std::vector<float>& logits, const std::map<std::int32_t, double>& bias) {
  for (const auto& [token, added] : bias) {
    check(token >= 0 && token < std::ssize(logits), "logit_bias: token {} is not one of the {}",
          token, logits.size());
    add_to(logits[static_cast<std::size_t>(token)], added);
  }
}

// OpenAI's penalties, of the tokens behind a prompt.
void penalize_new(std::vector<float>& logits, double presence, double frequency,
                  std::span<const std::int32_t> made) {
  std::map<std::int32_t, std::int64_t> counts;
  for (const std::int32_t token : made) ++counts[token];
  for (const auto& [token, count] : counts) {
    add_to(logits[static_cast<std::size_t>(token)],
           -presence - frequency * static_cast<double>(count));
  }
}

void penalize(std::vector<float>& logits, double penalty, std::span<const std::int32_t> text) {
  std::vector<bool> done(logits.size());
  for (const std::int32_t token : text) {
    const auto i = static_cast<std::size_t>(token);
    if (done[i]) continue;
    done[i] = true;
    const auto logit = static_cast<double>(logits[i]);
    if (!std::isfinite(logit)) continue;  // it is ruled out
    // A small penalty must not make a large one infinite: two such have no difference.
    const double penalized = logit > 0 ? logit / penalty : logit * penalty;
    logits[i] = static_cast<float>(std::clamp(penalized, -kMostLogit, kMostLogit));
  }
}

// The k-th largest; a few are found without moving the others.
float kth_largest(const std::vector<float>& logits, std::int64_t k) {
  const bool few = k < std::ssize(logits) / 16;
  std::vector<float> top(few ? static_cast<std::size_t>(k) : 0);
  if (few) {
    std::partial_sort_copy(logits.begin(), logits.end(), top.begin(), top.end(), std::greater<>());
    return top.back();
  }
  top = logits;
  const auto kth = top.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(top.begin(), kth, top.end(), std::greater<>());
  return *kth;
}

void keep_top_k(std::vector<float>& logits, std::int64_t k) {
  if (k >= std::ssize(logits)) return;
  const float least = kth_largest(logits, k);
  for (float& logit : logits) {
    if (logit < least) logit = kRuledOut;
  }
}

// Weights in proportion to the probabilities, the largest being 1.
std::vector<double> weights_of(const std::vector<float>& logits, double temperature) {
  const auto top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> weights;
  weights.reserve(logits.size());
  for (const float logit : logits) {
    const bool ruled_out = logit == kRuledOut;
    weights.push_back(ruled_out ? 0 : std::exp((static_cast<double>(logit) - top) / temperature));
  }
  return weights;
}

// Rules out the least likely tokens that together have a probability of at most 1 − p. n tokens,
// each with less than an n-th of what may still go, go all: so most are found without sorting.
void keep_top_p(std::vector<double>& weights, double p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) order.push_back(i);
  }
  double rest = (1 - p) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t before = order.size() + 1; order.size() < before;) {
    before = order.size();
    const double cut = rest / static_cast<double>(before);
    std::erase_if(order, [&](std::size_t i) {  // never the likeliest one, whose weight is 1
      if (weights[i] >= cut) return false;
      rest -= std::exchange(weights[i], 0);
      return true;
    });
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] < weights[b]; });
  double sum = 0;
  order.pop_back();  // the likeliest one stays
  for (const std::size_t i : order) {
    sum += weights[i];
    if (sum > rest) break;
    weights[i] = 0;
  }
}

// Rules out all but the tokens whose surprise is nearest to its mean, and that have the probability
// `p` together.
void keep_typical(std::vector<double>& weights, double p) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  // The quotient itself may be 0 in f64, which has no logarithm.
  const auto surprise = [&](double weight) { return std::log(total) - std::log(weight); };
  double mean = 0;
  for (const double w : weights) {
    if (w > 0) mean += w / total * surprise(w);
  }
  std::vector<std::pair<double, std::size_t>> order;  // how far from the mean
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) order.emplace_back(std::abs(surprise(weights[i]) - mean), i);
  }
  std::sort(order.begin(), order.end());
  double sum = 0, most = 0;
  for (const auto& [distance, i] : order) {
    if (sum >= p * total) break;
    sum += weights[i];
    most = distance;
  }
  for (const auto& [distance, i] : order) {  // of those at the edge, all stay
    if (distance > most) weights[i] = 0;
  }
}

}  // namespace

std::int32_t pick_token(std::vector<float> logits, const GenerateOptions& options, Rng& rng,
                        std::span<const std::int32_t> text, std::int64_t prompt_tokens) {
  check_logits(logits);
  add_bias(logits, options.logit_bias);
  if (options.repetition_penalty != 1) penalize(logits, options.repetition_penalty, text);
  if (options.presence_penalty != 0 || options.frequency_penalty != 0) {
    penalize_new(logits, options.presence_penalty, options.frequency_penalty,
                 text.subspan(static_cast<std::size_t>(prompt_tokens)));
  }
  if (options.greedy) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
  }
  if (options.top_k) keep_top_k(logits, *options.top_k);
  std::vector<double> weights = weights_of(logits, options.temperature);
  if (options.top_p < 1) keep_top_p(weights, options.top_p);
  for (double& weight : weights) {  // the likeliest token has weight 1
    if (weight < options.min_p) weight = 0;
  }
  if (options.typical_p < 1) keep_typical(weights, options.typical_p);
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    logits[i] = static_cast<float>(weights[i]);
    total += static_cast<double>(logits[i]);
  }
  for (float& weight : logits) weight = static_cast<float>(weight / total);
  return static_cast<std::int32_t>(rng.multinomial(logits));
}

}  // namespace tapegrad::nn
