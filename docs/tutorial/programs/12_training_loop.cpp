// The training loop: a small GPT learns to spell, until it learns its 300 words by heart.

#include <algorithm>

#include "tapegrad/data/loader.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/optim/schedule.h"
#include "word_list.h"

using namespace tapegrad;

namespace {

constexpr int kWords = 300, kSteps = 600;

Tensor loss_of(const nn::GPT& gpt, const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  return gpt.loss(Tensor::from(batch.inputs, shape), Tensor::from(batch.targets, shape));
}

int lesson() {
  Rng rng(123);
  const auto words = tutorial::WordList::of_words(rng);
  const std::vector<data::Token> train = words.tokens(0, kWords), val = words.tokens(17855, 18355);

  const nn::Params params(rng, DType::f64);
  const nn::GPT gpt(params,
                    {.vocab_size = 27, .block_size = 16, .n_layer = 2, .n_head = 4, .n_embd = 32});
  nn::init_gpt2(gpt, params, rng);
  fmt::print("{} parameters, {} characters to train on, {} to validate\n\n", params.count(),
             train.size(), val.size());

  data::Loader batches(train, 32, 16, Rng(1));
  const data::SequentialBatches validation(val, 1000, 16);
  optim::AdamW optimizer(params.parameters(), {.weight_decay = 0.1});
  const optim::Schedule rate{
      .learning_rate = 0.005, .min_lr = 0.0005, .warmup_iters = 50, .lr_decay_iters = kSteps};
  fmt::print(" step     rate   norm  factor  training  validation\n");
  double sum = 0;
  for (int step = 0; step <= kSteps; ++step) {
    const bool look = step % 50 == 0;
    const double val_loss = look ? loss_of(gpt, validation[0]).item() : 0;
    Tape tape;
    const Tensor loss = loss_of(gpt, batches.next());
    tape.backward(loss);
    const optim::Clipping clip = optim::measure_clipping(params.parameters(), 1.0);
    sum += loss.item();
    if (look) {
      fmt::print("{:5} {:8.5f} {:6.2f} {:7.2f} {:9.3f} {:11.3f}\n", step, rate(step), clip.norm,
                 clip.factor, step == 0 ? sum : sum / 50, val_loss);
      sum = 0;
    }
    optimizer.step(rate(step), clip.factor);
    optimizer.zero_grad();
  }

  const auto ids = nn::stream(gpt, {0}, {.max_new_tokens = 100}, 42).tokens();
  std::string text = tutorial::WordList::letters().decode(ids);
  std::replace(text.begin(), text.end(), '\n', ' ');
  fmt::print("\n{}\n", text);
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
