// Temperature and top-k: how daring the choice of the next token is, and among how many.

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/generation/generate.h"

using namespace tapegrad;

namespace {

// The probability, in percent, that one of the k likeliest tokens is drawn.
double likeliest(const Tensor& probabilities, std::int64_t k) {
  const auto p = probabilities.values<float>();
  std::vector<double> sorted(p.begin(), p.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  return 100 * std::accumulate(sorted.begin(), sorted.begin() + k, 0.0);
}

int lesson() {
  Rng rng(123);
  const nn::GPT gpt(nn::Params(rng), {.qkv_bias = false, .tied = false});
  const auto tokenizer = data::Tokenizer::gpt2();
  const std::vector<data::Token> prompt = tokenizer.encode("Hello, I am a");

  const Tensor logits = gpt.last_logits(Tensor::from(prompt, {1, 5}));
  fmt::print("temperature   likeliest token   likeliest 40\n");
  for (const double temperature : {2.0, 1.0, 0.8, 0.5, 0.1}) {
    const Tensor p = softmax(logits / temperature);
    fmt::print("{:11.1f} {:15.3f} % {:12.2f} %\n", temperature, likeliest(p, 1), likeliest(p, 40));
  }

  const nn::GenerateOptions options{.max_new_tokens = 20, .temperature = 0.8, .top_k = 40};
  const std::vector<data::Token> ids = nn::stream(gpt, prompt, options, 42).tokens();
  fmt::print("\n{} tokens become {}:\n", prompt.size(), prompt.size() + ids.size());
  fmt::print("{}\n\nHello, I am a{}\n", fmt::join(ids, " "), tokenizer.decode(ids));
  return 0;
}

}  // namespace

int main() {
  try {
    return lesson();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
