#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/nn/gpt.h"

namespace tapegrad::nn {

using Tokens = std::vector<std::int32_t>;

struct GenerateOptions {
  std::int64_t max_new_tokens = 200;
  bool greedy = false;       // always the likeliest token; temperature and top_k do not matter then
  double temperature = 1.0;  // above 0: logits are divided by it
  std::optional<std::int64_t> top_k = {};       // sample among the k likeliest tokens only
  std::optional<std::int32_t> stop_token = {};  // ends the text; is not part of it
  bool kv_cache = true;  // keep keys and values of what was seen, or compute them for each token

  void validate() const;  // throws Error for invalid values
};

// Continues `prompt` (at least one token) and returns the new tokens. Each is passed to `on_token`,
// if there is one, as soon as it is known; returning false from it ends the text. Of a long text,
// the model sees the last block_size tokens. Draws one multinomial per token, as nanoGPT's generate
// does.
//
// With kv_cache, logits are the same up to rounding (5e-6 of the largest in f32, tested). The cache
// helps until there are block_size tokens. After that, each new token pushes the first one out of
// what the model sees. This moves all positions, so that no key or value stays what it was.
Tokens generate(const GPT& gpt, const Tokens& prompt, const GenerateOptions& options, Rng& rng,
                const std::function<bool(std::int32_t)>& on_token = {});

// Continues several prompts. Text i draws from rngs[i] alone, one multinomial per token: it becomes
// what it would become by itself with that generator, as far as rounding lets it. Prompts of equal
// length share their forward passes; lengths take turns. `on_token` gets the index of the text and
// the token; returning false ends that text. Error unless there are as many generators as prompts.
std::vector<Tokens> generate(const GPT& gpt, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options, std::span<Rng> rngs,
                             const std::function<bool(std::size_t, std::int32_t)>& on_token = {});

// The token that `logits` (V) and the options give.
std::int32_t pick_token(std::vector<float> logits, const GenerateOptions& options, Rng& rng);

}  // namespace tapegrad::nn
