#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/nn/decoder.h"

namespace tapegrad::nn {

using Tokens = std::vector<std::int32_t>;

struct GenerateOptions {
  std::int64_t max_new_tokens = 200;
  bool greedy = false;       // always the likeliest token; temperature and top_k do not matter then
  double temperature = 1.0;  // above 0: logits are divided by it
  std::optional<std::int64_t> top_k = {};  // sample among the k likeliest tokens only
  // Nucleus sampling (Holtzman et al., 2020, "The Curious Case of Neural Text Degeneration",
  // section 3.1): among the likeliest tokens that together have at least this probability. (0, 1]
  double top_p = 1;
  // Among the tokens with at least this share of the likeliest one's probability. [0, 1]
  double min_p = 0;
  // Of a token that the text has already, a positive logit is divided by it, and a negative one
  // multiplied (Keskar et al., 2019, "CTRL", section 4.1). Above 0; 1: no penalty.
  double repetition_penalty = 1;
  std::vector<std::int32_t> stop_tokens = {};  // each ends the text, and is not part of it
  // Gets each chosen token with its log probability under the model alone, that is without
  // temperature, penalty and the choices above; `text` is the index of the prompt.
  std::function<void(std::size_t text, std::int32_t token, double logprob)> on_logprob = {};
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
Tokens generate(const Decoder& gpt, const Tokens& prompt, const GenerateOptions& options, Rng& rng,
                const std::function<bool(std::int32_t)>& on_token = {});

// Continues several prompts. Text i draws from rngs[i] alone, one multinomial per token: it becomes
// what it would become by itself with that generator, as far as rounding lets it. Prompts of equal
// length share their forward passes; lengths take turns. `on_token` gets the index of the text and
// the token; returning false ends that text. Error unless there are as many generators as prompts.
std::vector<Tokens> generate(const Decoder& gpt, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options, std::span<Rng> rngs,
                             const std::function<bool(std::size_t, std::int32_t)>& on_token = {});

// The token that `logits` (V) and the options give after the tokens of `text`. What an option rules
// out is decided in the order of Hugging Face's transformers: penalty, temperature, top_k, top_p,
// min_p, each among what the ones before it have left.
std::int32_t pick_token(std::vector<float> logits, const GenerateOptions& options, Rng& rng,
                        std::span<const std::int32_t> text = {});

}  // namespace tapegrad::nn
