#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::nn {

// Continues `prompt` (at least one token) and returns the new tokens. Each is passed to `on_token`,
// if there is one, as soon as it is known; returning false from it ends the text. Draws one
// multinomial per token, as nanoGPT's generate does. As to long texts, see Generation.
Tokens generate(const Decoder& gpt, const Tokens& prompt, const GenerateOptions& options, Rng& rng,
                const std::function<bool(std::int32_t)>& on_token = {});

// Continues several prompts side by side, up to GenerationLimits::max_sequences at once. Text i
// draws from rngs[i] alone, one multinomial per token: it becomes what it becomes by itself with
// that generator. `on_token` gets the index of the text and the token; returning false ends that
// text. Error unless there are as many generators as prompts.
std::vector<Tokens> generate(const Decoder& gpt, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options, std::span<Rng> rngs,
                             const std::function<bool(std::size_t, std::int32_t)>& on_token = {});

}  // namespace tapegrad::nn
