#pragma once

#include <string>
#include <vector>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/generate.h"

namespace tapegrad::apps {

// What a text begins with when nothing else is asked for: a line break, as nanoGPT's sample.py, or
// the first token of a vocabulary that has none.
std::vector<data::Token> default_prompt(const data::Tokenizer& tokenizer);

// Writes the continuation of `prompt` to stdout token by token, whole UTF-8 characters only. Ends
// early at <|endoftext|>, when a signal interrupts it, and when nobody reads any more.
void stream_sample(const nn::GPT& gpt, const data::Tokenizer& tokenizer,
                   const std::vector<data::Token>& prompt, nn::GenerateOptions options, Rng& rng);

}  // namespace tapegrad::apps
