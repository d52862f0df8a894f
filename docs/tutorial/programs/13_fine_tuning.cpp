// Fine-tuning: a GPT that knows words learns names, with all weights, with some of them, with LoRA.

#include "tapegrad/base/text/words.h"
#include "tapegrad/data/loader.h"
#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "word_list.h"

using namespace tapegrad;

namespace {

using Ids = std::vector<data::Token>;
const nn::DecoderConfig config{
    .vocab_size = 27, .block_size = 16, .n_layer = 2, .n_head = 4, .n_embd = 32};

Tensor loss_of(const nn::GPT& gpt, const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  return gpt.loss(Tensor::from(batch.inputs, shape), Tensor::from(batch.targets, shape));
}

// The layer's weight W (out, in) stays as it is. What is learnt is added: B (out, r) · A (r, in).
struct Lora {
  nn::Linear* layer;
  Tensor W, A, B;
  Lora(nn::Linear& on, const nn::Params& p, std::int64_t rank)
      : layer(&on),
        W(on.weight),
        A(p.parameter("A", {rank, W.dim(1)}, nn::normal(0, 0.2))),
        B(p.parameter("B", {W.dim(0), rank}, nn::zeros())) {}
  void apply() const { layer->weight = W + matmul(B, A); }
};

void train(const nn::GPT& gpt, const NamedTensors& weights, const Ids& text, int steps, double rate,
           const std::vector<Lora>& loras = {}) {
  data::Loader batches(text, 32, 16, Rng(1));
  optim::AdamW optimizer(weights);
  for (int step = 0; step < steps; ++step) {
    Tape tape;
    for (const Lora& lora : loras) lora.apply();
    tape.backward(loss_of(gpt, batches.next()));
    optimizer.step(rate);
    optimizer.zero_grad();
  }
  for (const Lora& lora : loras) lora.apply();
}

// The parameters whose names begin with `prefix`; the others are frozen. A Tensor is a handle, so a
// copy of it changes the model's own weight.
NamedTensors only(const nn::Params& params, const std::string& prefix) {
  NamedTensors chosen;
  for (auto [name, weight] : params.parameters()) {
    weight.set_requires_grad(name.rfind(prefix, 0) == 0);
    if (weight.requires_grad()) chosen.emplace_back(name, weight);
  }
  return chosen;
}

// A row of the table: `weights` are the trained ones, and the losses are those of `texts`.
void report(const char* how, const NamedTensors& weights, const nn::GPT& gpt,
            const std::vector<Ids>& texts) {
  std::int64_t count = 0;
  for (const auto& named : weights) count += named.second.numel();
  fmt::print("{:<28} {:>6}", how, grouped(count));
  for (const Ids& text : texts) {
    fmt::print(" {:7.3f}", loss_of(gpt, data::SequentialBatches(text, 1000, 16)[0]).item());
  }
  fmt::print("\n");
}

int lesson() {
  Rng rng(123);
  const auto words = tutorial::WordList::of_words(rng), names = tutorial::WordList::of_names(rng);
  const Ids many_words = words.tokens(500, 8500), few_names = names.tokens(500, 700);
  const std::vector<Ids> unseen = {names.tokens(0, 500), words.tokens(0, 500)};

  fmt::print("                                        loss of new ones\n");
  fmt::print("what is trained              weights   names   words\n");
  const nn::Params params(rng, DType::f64);
  const nn::GPT base(params, config);
  nn::init_gpt2(base, params, rng);
  train(base, params.parameters(), many_words, 400, 0.005);
  report("all, on 8,000 words", params.parameters(), base, unseen);
  const auto learnt = memory_source({params.tensors().begin(), params.tensors().end()}, "learnt");

  const nn::Params all(learnt, DType::f64);
  const nn::GPT changed(all, config);
  train(changed, all.parameters(), few_names, 100, 0.0005);
  report("then on 200 names: all", all.parameters(), changed, unseen);

  const nn::Params some(learnt, DType::f64);
  const nn::GPT half_frozen(some, config);
  const NamedTensors last_block = only(some, "h.1.");
  train(half_frozen, last_block, few_names, 100, 0.001);
  report("  the last block", last_block, half_frozen, unseen);

  const nn::Params none(learnt, DType::f64), narrow(rng, DType::f64);
  nn::GPT adapted(none, config);
  for (auto [name, weight] : none.parameters()) weight.set_requires_grad(false);
  std::vector<Lora> loras;
  for (const int i : {0, 1}) {
    nn::Block& block = adapted.h[static_cast<std::size_t>(i)];
    loras.emplace_back(block.attn.c_attn, narrow / i / "c_attn", 2);
    loras.emplace_back(block.mlp.c_fc, narrow / i / "c_fc", 2);
  }
  train(adapted, narrow.parameters(), few_names, 100, 0.005, loras);
  report("  LoRA of rank 2", narrow.parameters(), adapted, unseen);

  const nn::Params anew(rng, DType::f64);
  const nn::GPT ignorant(anew, config);
  nn::init_gpt2(ignorant, anew, rng);
  train(ignorant, anew.parameters(), few_names, 100, 0.002);
  report("all, on 200 names alone", anew.parameters(), ignorant, unseen);
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
