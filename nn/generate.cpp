#include "tapegrad/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapegrad::nn {
namespace {

// Logits (1, V) in f32 of what follows `tokens`, of which the cache, if there is one, has the
// first.
Tensor next_logits(const GPT& gpt, const std::vector<std::int32_t>& tokens, KVCache* cache) {
  const auto last = [&](std::int64_t n) {
    return Tensor::from(std::vector<std::int32_t>(tokens.end() - n, tokens.end()), {1, n});
  };
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (cache != nullptr && length <= gpt.config.block_size) {
    return gpt.last_logits(last(length - cache->length), *cache).to(DType::f32);
  }
  if (cache != nullptr) *cache = {};  // of no use any more
  return gpt.last_logits(last(std::min(length, gpt.config.block_size))).to(DType::f32);
}

}  // namespace

void GenerateOptions::validate() const {
  check(max_new_tokens >= 0, "max_new_tokens must not be negative, as {} is", max_new_tokens);
  check(temperature > 0 && std::isfinite(temperature),
        "temperature must be above 0, not {}; for the likeliest token each time, use greedy",
        temperature);
  check(!top_k || *top_k >= 1, "top_k must be at least 1, not {}", top_k.value_or(0));
}

std::int32_t pick_token(std::vector<float> logits, const GenerateOptions& options, Rng& rng) {
  for (const float logit : logits) {
    check(!std::isnan(logit), "the model's logits are NaN: its weights are broken");
  }
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (options.greedy) return static_cast<std::int32_t>(largest - logits.begin());
  const auto top = static_cast<double>(*largest);
  if (options.top_k && *options.top_k < static_cast<std::int64_t>(logits.size())) {
    std::vector<float> sorted = logits;
    const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(*options.top_k - 1);
    std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
    for (float& logit : logits) {
      if (logit < *kth) logit = -std::numeric_limits<float>::infinity();
    }
  }
  double total = 0;
  for (float& logit : logits) {
    logit = static_cast<float>(std::exp((static_cast<double>(logit) - top) / options.temperature));
    total += static_cast<double>(logit);
  }
  for (float& weight : logits) weight = static_cast<float>(weight / total);
  return static_cast<std::int32_t>(rng.multinomial(logits));
}

std::vector<std::int32_t> generate(const GPT& gpt, const std::vector<std::int32_t>& prompt,
                                   const GenerateOptions& options, Rng& rng,
                                   const std::function<bool(std::int32_t)>& on_token) {
  options.validate();
  check(!prompt.empty(), "a prompt needs at least one token");
  const TapePause pause;
  std::vector<std::int32_t> tokens = prompt;
  KVCache cache;
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    const Tensor logits = next_logits(gpt, tokens, options.kv_cache ? &cache : nullptr);
    const auto values = logits.values<float>();
    const std::int32_t token = pick_token({values.begin(), values.end()}, options, rng);
    if (options.stop_token && token == *options.stop_token) break;
    tokens.push_back(token);
    if (on_token && !on_token(token)) break;
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

}  // namespace tapegrad::nn
