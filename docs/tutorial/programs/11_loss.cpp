// The loss: cross entropy by hand, what an untrained model gets, and the gradient that mends it.

#include <cmath>

#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/decoder.h"

using namespace tapegrad;

namespace {

int lesson() {
  Rng rng(123);
  const nn::GPT gpt(nn::Params(rng), {.block_size = 256, .qkv_bias = false, .tied = false});
  const auto tokenizer = data::Tokenizer::gpt2();
  std::vector<data::Token> inputs, targets;  // the target of a token is the one that follows it
  for (const char* text : {"every effort moves you", "I really like chocolate"}) {
    const std::vector<data::Token> ids = tokenizer.encode(text);
    inputs.insert(inputs.end(), ids.begin(), ids.end() - 1);
    targets.insert(targets.end(), ids.begin() + 1, ids.end());
  }
  const Tensor logits = reshape(gpt(Tensor::from(inputs, {2, 3})), {6, 50257});
  const Tensor p = softmax(logits);

  double sum = 0;
  fmt::print("after      comes       with probability   -log p\n");
  for (std::size_t i = 0; i < 6; ++i) {
    const double likely = p.at({static_cast<std::int64_t>(i), targets[i]});
    sum += -std::log(likely);
    fmt::print("{:<10} {:<12} {:.10f} {:12.4f}\n", tokenizer.token_bytes(inputs[i]),
               tokenizer.token_bytes(targets[i]), likely, -std::log(likely));
  }

  Tape tape;
  tape.watch(logits);
  const Tensor loss = cross_entropy(logits, Tensor::from(targets, {6}));
  fmt::print("\nmean {:.4f}, cross_entropy {:.4f}, ln 50257 = {:.4f}, perplexity {:.1f}\n", sum / 6,
             loss.item(), std::log(50257.0), std::exp(loss.item()));

  const Tensor gradient = tape.gradient(loss, {logits})[0];
  fmt::print("\nscore after 'every'   softmax  one-hot  difference / 6  gradient\n");
  for (const data::Token id : {targets[0], targets[1]}) {
    const int one_hot = id == targets[0] ? 1 : 0;
    fmt::print("{:<19} {:.7f} {:8} {:15.7f} {:9.7f}\n", tokenizer.token_bytes(id), p.at({0, id}),
               one_hot, (p.at({0, id}) - one_hot) / 6, gradient.at({0, id}));
  }
  fmt::print("sum of the gradients of all 50257 scores: {:.6f}\n",
             std::abs(sum_to(gradient.rows(0, 1), {1, 1}).item()));

  fmt::print("\nlogits - rate · gradient:");
  for (const double rate : {6, 60}) {
    const Tensor better = logits - gradient * rate;
    fmt::print("  rate {}, loss {:.4f}", rate,
               cross_entropy(better, Tensor::from(targets, {6})).item());
  }
  fmt::print("\n");
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
