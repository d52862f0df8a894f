// The encoder–decoder Transformer with products in bf16 and int8.

#include <cmath>
#include <vector>

#include "tapegrad/nn/transformer.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// Large enough for threads to share the work of a batch.
const nn::TransformerConfig kConfig = {
    .vocab_size = 300, .block_size = 32, .n_layer = 1, .n_embd = 64, .n_hidden = 256};

double size_of(const Tensor& t) { return std::sqrt(sum(t * t).item()); }

struct Step {
  double before = 0, after = 0;  // losses of the batch
  std::vector<Tensor> gradients, weights;
};

// A step of training, which learns to copy a target that it sees.
Step step_in(Precision precision, int threads) {
  const Threads set(threads);
  Rng rng(5);
  const nn::Params params(rng, DType::f32, precision);
  const nn::Transformer model(params, kConfig);
  nn::init_transformer(params, rng);
  const Tensor source = random_ids(rng, {16, 32}, kConfig.vocab_size),
               target = random_ids(rng, {16, 30}, kConfig.vocab_size);
  const nn::PaddingMasks masks{nn::padding_mask(source, 7), nn::padding_mask(target, 7)};
  const auto loss = [&] { return model.loss(source, target, target, masks); };
  Step made;
  {
    Tape tape;
    const Tensor before = loss();
    tape.backward(before);
    made.before = before.item();
  }
  made.gradients = gradients(params.parameters());
  optim::AdamW(params.parameters()).step(0.003);
  made.after = loss().item();
  for (const auto& [name, t] : params.parameters()) made.weights.push_back(t.detach());
  return made;
}

}  // namespace

TEST_CASE("every linear layer of a Transformer multiplies in its precision", "[bf16]") {
  const Precision precision = GENERATE(Precision::bf16, Precision::int8);
  Rng rng(1);
  const nn::Transformer model(nn::Params(rng, DType::f32, precision), kConfig);
  std::vector<nn::Linear> linears = {model.lm_head};
  const auto add = [&](const nn::MultiHeadAttention& attn) {
    linears.insert(linears.end(), {attn.W_query, attn.W_key, attn.W_value, attn.c_proj});
  };
  for (const nn::EncoderLayer& layer : model.encoder.h) {
    add(layer.attn);
    linears.insert(linears.end(), {layer.mlp.c_fc, layer.mlp.c_proj});
  }
  for (const nn::DecoderLayer& layer : model.decoder.h) {
    add(layer.attn), add(layer.cross_attn);
    linears.insert(linears.end(), {layer.mlp.c_fc, layer.mlp.c_proj});
  }
  for (const nn::Linear& l : linears) {
    CHECK(l.weight.defined());
    CHECK(l.weight.precision == precision);
  }
}

TEST_CASE("a Transformer's step in bf16 and int8 is nearly that in f32", "[bf16]") {
  const Step full = step_in(Precision::full, 1);
  CHECK(full.after < full.before);
  double before = full.before;
  for (const Precision precision : {Precision::bf16, Precision::int8}) {
    INFO(kPrecisionNames[static_cast<std::size_t>(precision)]);
    const Step rounded = step_in(precision, 1);
    CHECK(rounded.before != before);
    CHECK(std::abs(rounded.before - full.before) < 0.01 * full.before);
    const double gain = rounded.before - rounded.after;
    CHECK(gain == Approx(full.before - full.after).epsilon(0.2));
    for (std::size_t i = 0; i < full.gradients.size(); ++i) {
      INFO("parameter " << i);
      CHECK(size_of(full.gradients[i] - rounded.gradients[i]) <
            0.2 * size_of(full.gradients[i]) + 1e-6);
      CHECK(rounded.gradients[i].dtype() == DType::f32);
    }
    before = rounded.before;
  }
}

TEST_CASE("threads change no bit of a Transformer's step in int8", "[bf16]") {
  const Step one = step_in(Precision::int8, 1);
  for (const int threads : {2, 3}) {
    const Step many = step_in(Precision::int8, threads);
    CHECK(many.before == one.before);
    CHECK(many.after == one.after);
    for (std::size_t i = 0; i < one.weights.size(); ++i) {
      INFO("parameter " << i);
      CHECK(same_bits(many.gradients[i], one.gradients[i]));
      CHECK(same_bits(many.weights[i], one.weights[i]));
    }
  }
}
