#include "tapegrad/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace tapegrad::nn {
namespace {

using OnToken = std::function<bool(std::size_t, std::int32_t)>;

// The last n tokens of these texts: (B, n).
Tensor last_tokens(const std::vector<Tokens>& texts, const std::vector<std::size_t>& which,
                   std::int64_t n) {
  Tokens ids;
  for (const std::size_t i : which) ids.insert(ids.end(), texts[i].end() - n, texts[i].end());
  return Tensor::from(ids, {std::ssize(which), n});
}

// Logits (B, V) in f32 of what follows these texts of equal length. The cache, if there is one, has
// their first tokens.
Tensor next_logits(const Decoder& gpt, const std::vector<Tokens>& texts,
                   const std::vector<std::size_t>& which, KVCache* cache) {
  const std::int64_t length = std::ssize(texts[which.front()]);
  const std::int64_t most = gpt.config.block_size;
  if (cache != nullptr && length <= most) {
    const Tensor ids = last_tokens(texts, which, length - cache->length());
    return gpt.last_logits(ids, *cache).to(DType::f32);
  }
  if (cache != nullptr) *cache = {};  // the texts have outgrown it
  return gpt.last_logits(last_tokens(texts, which, std::min(length, most))).to(DType::f32);
}

double log_probability(const std::vector<float>& logits, std::int32_t token) {
  const auto top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - top - std::log(sum);
}

// Continues texts of equal length, whose indices are `live`, side by side. Those that have ended
// leave.
void continue_together(const Decoder& gpt, std::vector<std::size_t> live,
                       const GenerateOptions& options, std::span<Rng> rngs, const OnToken& on_token,
                       std::vector<Tokens>& texts) {
  KVCache cache;
  for (std::int64_t step = 0; step < options.max_new_tokens && !live.empty(); ++step) {
    const Tensor logits = next_logits(gpt, texts, live, options.kv_cache ? &cache : nullptr);
    const auto values = logits.values<float>();
    const std::int64_t vocab = logits.dim(1);
    std::vector<std::size_t> still_live;
    std::vector<std::int32_t> rows;  // of the cache that they have
    for (std::size_t row = 0; row < live.size(); ++row) {
      const std::size_t text = live[row];
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(row) * vocab;
      const std::int32_t token =
          pick_token({first, first + vocab}, options, rngs[text], texts[text]);
      const auto& stops = options.stop_tokens;
      if (std::find(stops.begin(), stops.end(), token) != stops.end()) continue;
      if (options.on_logprob) {
        options.on_logprob(text, token, log_probability({first, first + vocab}, token));
      }
      texts[text].push_back(token);
      if (on_token && !on_token(text, token)) continue;
      still_live.push_back(text);
      rows.push_back(static_cast<std::int32_t>(row));
    }
    if (rows.size() < live.size()) cache.select(rows);
    live = std::move(still_live);
  }
}

}  // namespace

void GenerateOptions::validate() const {
  check(max_new_tokens >= 0, "max_new_tokens must not be negative, as {} is", max_new_tokens);
  check(temperature > 0 && std::isfinite(temperature),
        "temperature must be above 0, not {}; for the likeliest token each time, use greedy",
        temperature);
  check(!top_k || *top_k >= 1, "top_k must be at least 1, not {}", top_k.value_or(0));
  check(top_p > 0 && top_p <= 1, "top_p must be above 0 and at most 1, not {}", top_p);
  check(min_p >= 0 && min_p <= 1, "min_p must be from 0 to 1, not {}", min_p);
  check(repetition_penalty > 0 && std::isfinite(repetition_penalty),
        "repetition_penalty must be above 0, not {}", repetition_penalty);
}

namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

void penalize(std::vector<float>& logits, double penalty, std::span<const std::int32_t> text) {
  std::vector<bool> done(logits.size());
  for (const std::int32_t token : text) {
    const auto i = static_cast<std::size_t>(token);
    if (done[i]) continue;
    done[i] = true;
    const auto logit = static_cast<double>(logits[i]);
    logits[i] = static_cast<float>(logit > 0 ? logit / penalty : logit * penalty);
  }
}

void keep_top_k(std::vector<float>& logits, std::int64_t k) {
  if (k >= static_cast<std::int64_t>(logits.size())) return;
  std::vector<float> sorted = logits;
  const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  for (float& logit : logits) {
    if (logit < *kth) logit = kRuledOut;
  }
}

// Weights in proportion to the probabilities, the largest being 1.
std::vector<double> weights_of(const std::vector<float>& logits, double temperature) {
  const auto top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> weights;
  weights.reserve(logits.size());
  for (const float logit : logits) {
    weights.push_back(std::exp((static_cast<double>(logit) - top) / temperature));
  }
  return weights;
}

// Rules out the least likely tokens that together have a probability of at most 1 − p.
void keep_top_p(std::vector<double>& weights, double p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] < weights[b]; });
  const double rest = (1 - p) * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  order.pop_back();  // the likeliest one stays
  for (const std::size_t i : order) {
    sum += weights[i];
    if (sum > rest) break;
    weights[i] = 0;
  }
}

}  // namespace

std::int32_t pick_token(std::vector<float> logits, const GenerateOptions& options, Rng& rng,
                        std::span<const std::int32_t> text) {
  for (const float logit : logits) {
    check(!std::isnan(logit), "the model's logits are NaN: its weights are broken");
  }
  if (options.repetition_penalty != 1) penalize(logits, options.repetition_penalty, text);
  if (options.greedy) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
  }
  if (options.top_k) keep_top_k(logits, *options.top_k);
  std::vector<double> weights = weights_of(logits, options.temperature);
  if (options.top_p < 1) keep_top_p(weights, options.top_p);
  // The likeliest token has weight 1, and is never ruled out.
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    logits[i] = weights[i] < options.min_p ? 0.0F : static_cast<float>(weights[i]);
    total += static_cast<double>(logits[i]);
  }
  for (float& weight : logits) weight = static_cast<float>(weight / total);
  return static_cast<std::int32_t>(rng.multinomial(logits));
}

Tokens generate(const Decoder& gpt, const Tokens& prompt, const GenerateOptions& options, Rng& rng,
                const std::function<bool(std::int32_t)>& on_token) {
  const auto on_indexed = [&](std::size_t, std::int32_t token) { return on_token(token); };
  using OnToken = std::function<bool(std::size_t, std::int32_t)>;
  return generate(gpt, std::vector<Tokens>{prompt}, options, std::span(&rng, 1),
                  on_token ? OnToken(on_indexed) : OnToken())[0];
}

std::vector<Tokens> generate(const Decoder& gpt, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options, std::span<Rng> rngs,
                             const std::function<bool(std::size_t, std::int32_t)>& on_token) {
  options.validate();
  check(rngs.size() == prompts.size(), "{} prompts need as many generators, not {}", prompts.size(),
        rngs.size());
  std::map<std::size_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    check(!prompts[i].empty(), "a prompt needs at least one token");
    by_length[prompts[i].size()].push_back(i);
  }
  const TapePause pause;
  std::vector<Tokens> texts = prompts;
  for (const auto& [length, group] : by_length) {
    continue_together(gpt, group, options, rngs, on_token, texts);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i].erase(texts[i].begin(), texts[i].begin() + std::ssize(prompts[i]));
  }
  return texts;
}

}  // namespace tapegrad::nn
