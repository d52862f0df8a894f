#pragma once

#include <vector>

#include "tapegrad/nn/generation/token_stream.h"

namespace tapegrad::nn {

// The text behind a prompt of at least one token, made as it is walked through:
//
//   for (const NewToken& t : stream(model, prompt, {.max_new_tokens = 50})) show(t.token);
//   const Tokens text = stream(model, prompt).tokens();
//
// A generator with this seed draws one multinomial per token, as in nanoGPT's generate. As to long
// texts, see Generation.
TokenStream stream(const Decoder& model, Tokens prompt, const GenerateOptions& options = {},
                   std::uint64_t seed = 1337);

// The texts behind several prompts, in their order, made side by side. Text i is the one that
// stream() makes of prompt i with the seed `seed + i`.
std::vector<Tokens> generate(const Decoder& model, std::vector<Tokens> prompts,
                             const GenerateOptions& options = {}, std::uint64_t seed = 1337);

}  // namespace tapegrad::nn
