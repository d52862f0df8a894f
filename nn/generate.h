#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tapegrad/nn/gpt.h"

namespace tapegrad::nn {

struct GenerateOptions {
  std::int64_t max_new_tokens = 200;
  bool greedy = false;       // always the likeliest token; temperature and top_k do not matter then
  double temperature = 1.0;  // above 0: logits are divided by it
  std::optional<std::int64_t> top_k = {};       // sample among the k likeliest tokens only
  std::optional<std::int32_t> stop_token = {};  // ends the text; is not part of it
  bool kv_cache =
      true;  // keep keys and values of what was seen; false computes them for each token

  void validate() const;  // throws Error for values that mean nothing
};

// Continues `prompt` (at least one token) and returns the new tokens. Each is passed to `on_token`,
// if there is one, as soon as it is known; returning false from it ends the text. Of a long text,
// the model sees the last block_size tokens. Draws one multinomial per token, as nanoGPT's generate
// does.
//
// With kv_cache, logits are the same up to rounding (5e-6 of the largest in f32, tested). It helps
// until block_size tokens are there: then each new token pushes the first out of what the model
// sees, which moves all positions and changes what every later layer makes of them, so that nothing
// of the cache holds any more.
std::vector<std::int32_t> generate(const GPT& gpt, const std::vector<std::int32_t>& prompt,
                                   const GenerateOptions& options, Rng& rng,
                                   const std::function<bool(std::int32_t)>& on_token = {});

// The token that `logits` (V) and the options give.
std::int32_t pick_token(std::vector<float> logits, const GenerateOptions& options, Rng& rng);

}  // namespace tapegrad::nn
