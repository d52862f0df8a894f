#include "tapegrad/run/sampling.h"

#include <cstdio>

#include "tapegrad/data/tokenize/utf8.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::apps {

std::vector<data::Token> default_prompt(const data::Tokenizer& tokenizer) {
  for (data::Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.token_bytes(token) == "\n") return {token};
  }
  return {0};
}

void stream_sample(const nn::GPT& gpt, const data::Tokenizer& tokenizer,
                   const std::vector<data::Token>& prompt, nn::GenerateOptions options, Rng& rng) {
  options.stop_token = tokenizer.end_of_text();
  data::Utf8Stream stream;
  const auto print = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0;
  };
  nn::generate(gpt, prompt, options, rng, [&](data::Token token) {
    return print(stream.push(tokenizer.token_bytes(token))) && !interrupted();
  });
  print(stream.flush());
}

}  // namespace tapegrad::apps
