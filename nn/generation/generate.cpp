#include "tapegrad/nn/generation/generate.h"

namespace tapegrad::nn {

TokenStream stream(const Decoder& model, Tokens prompt, const GenerateOptions& options,
                   std::uint64_t seed) {
  return {model, source_of({std::move(prompt)}, options, seed)};
}

std::vector<Tokens> generate(const Decoder& model, std::vector<Tokens> prompts,
                             const GenerateOptions& options, std::uint64_t seed) {
  TokenStream stream(model, source_of(std::move(prompts), options, seed));
  std::vector<Tokens> texts;
  while (stream.next_text()) texts.push_back(stream.tokens());
  return texts;
}

}  // namespace tapegrad::nn
