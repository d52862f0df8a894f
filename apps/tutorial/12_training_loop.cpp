// The training loop: a small GPT learns to spell, until it learns its 300 words by heart.

#include <regex>

#include "tapegrad/data/loader.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/generate.h"
#include "tapegrad/optim/adamw.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/schedule.h"

using namespace tapegrad;

namespace {

constexpr int kWords = 300, kSteps = 600;

// The words among GPT-2's tokens, shuffled, a line each.
std::vector<std::string> all_words(Rng& rng) {
  static const std::regex word(" [a-z]{4,}");
  const auto gpt2 = data::Tokenizer::gpt2();
  std::vector<std::string> found, shuffled;
  for (data::Token id = 0; id < gpt2.vocab_size(); ++id) {
    const std::string token = gpt2.token_bytes(id);
    if (std::regex_match(token, word)) found.push_back(token.substr(1) + "\n");
  }
  for (const std::int64_t i : rng.randperm(static_cast<std::int64_t>(found.size()))) {
    shuffled.push_back(found[static_cast<std::size_t>(i)]);
  }
  return shuffled;
}

Tensor loss_of(const nn::GPT& gpt, const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  return gpt.loss(Tensor::from(batch.inputs, shape), Tensor::from(batch.targets, shape));
}

int lesson() {
  Rng rng(123);
  const std::vector<std::string> words = all_words(rng);
  std::string text, unseen;  // for training and for validation
  for (std::size_t i = 0; i < kWords; ++i) text += words[i];
  for (std::size_t i = words.size() - 500; i < words.size(); ++i) unseen += words[i];
  const auto tokenizer = data::Tokenizer::of_characters("abcdefghijklmnopqrstuvwxyz\n");
  const std::vector<data::Token> train = tokenizer.encode(text), val = tokenizer.encode(unseen);

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

  Rng sampler(42);
  const auto ids = nn::generate(gpt, tokenizer.encode("\n"), {.max_new_tokens = 100}, sampler);
  fmt::print("\n{}\n", std::regex_replace(tokenizer.decode(ids), std::regex("\n"), " "));
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
