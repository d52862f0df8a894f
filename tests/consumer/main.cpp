#include <fmt/core.h>
#include <tapegrad/tapegrad.h>

int main() {
  using namespace tapegrad;
  Rng rng(1337);
  const nn::Params params(rng);
  const nn::GPT gpt(params,
                    {.vocab_size = 5, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
  optim::AdamW adamw(params.parameters());
  const Tensor tokens = Tensor::from<std::int32_t>({0, 1, 2, 3, 4, 0, 1, 2}, {1, 8});
  const Tensor targets = Tensor::from<std::int32_t>({1, 2, 3, 4, 0, 1, 2, 3}, {1, 8});
  for (int step = 0; step <= 50; ++step) {
    Tape tape;  // from here on, ops on parameters are recorded
    const Tensor loss = cross_entropy(gpt(tokens), targets);
    tape.backward(loss);
    adamw.step(1e-2);
    adamw.zero_grad();
    if (step % 10 == 0) fmt::print("step {}: loss {:.4f}\n", step, loss.item());
  }
}
