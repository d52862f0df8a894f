// Ten tokens from GPT-2 with random weights, the likeliest one each time.

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"

using namespace tapegrad;

namespace {

int lesson() {
  Rng rng(123);
  const nn::GPT gpt(nn::Params(rng), {.qkv_bias = false, .tied = false});
  const auto tokenizer = data::Tokenizer::gpt2();
  std::vector<data::Token> ids = tokenizer.encode("Hello, I am");

  fmt::print("   id  token         probability\n");
  for (const data::Token id : ids) fmt::print("{:5}  {}\n", id, tokenizer.token_bytes(id));
  for (int i = 0; i < 10; ++i) {
    const Tensor context = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
    const Tensor logits = gpt.last_logits(context);  // (1, 50257)
    const MaxResult best = max(softmax(logits), 1);
    const auto id = static_cast<data::Token>(best.indices.item());
    ids.push_back(id);
    fmt::print("{:5}  {:<13} {:.3f} %\n", id, tokenizer.token_bytes(id), 100 * best.values.item());
  }
  fmt::print("\n{}\n", tokenizer.decode(ids));
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
