#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

TEST_CASE("a GPT in bf16 and int8 has nearly the loss and the gradient that it has in f32",
          "[bf16]") {
  const auto run = [](Precision precision) {
    Rng rng(11);
    const nn::Params params(rng, DType::f32, precision);
    const nn::GPT gpt(params, tiny_config());
    const Tensor inputs = random_ids(rng, {2, tiny_config().block_size}, tiny_config().vocab_size);
    Tape tape;
    const Tensor loss = gpt.loss(inputs, inputs);
    tape.backward(loss);
    return std::pair{loss.item(), gradients(params.parameters())};
  };
  const auto [loss, full] = run(Precision::full);
  double before = loss;
  for (const Precision precision : {Precision::bf16, Precision::int8}) {
    const auto [rounded_loss, rounded] = run(precision);
    CHECK(rounded_loss != before);
    CHECK(std::abs(rounded_loss - loss) < 0.01 * loss);
    for (std::size_t i = 0; i < full.size(); ++i) {
      const double size = std::sqrt(sum(full[i] * full[i]).item());
      const Tensor off = full[i] - rounded[i];
      INFO(kPrecisionNames[static_cast<std::size_t>(precision)] << ", parameter " << i);
      CHECK(std::sqrt(sum(off * off).item()) < 0.05 * size + 1e-6);
      CHECK(rounded[i].dtype() == DType::f32);
    }
    before = rounded_loss;
  }
  Rng rng(1);
  CHECK_THROWS_WITH(nn::Params(rng, DType::f64, Precision::bf16),
                    "products in bf16 need parameters of f32, not of f64");
}

TEST_CASE("every linear layer of a model multiplies in its precision", "[bf16]") {
  const Precision precision = GENERATE(Precision::bf16, Precision::int8);
  for (const bool tied : {false, true}) {
    for (const bool separate : {false, true}) {
      nn::DecoderConfig config = tiny_config();
      config.tied = tied;
      config.separate_qkv = separate;
      Rng rng(1);
      const nn::Params params(rng, DType::f32, precision);
      const nn::GPT gpt(params, config);
      std::vector<nn::Linear> linears;
      for (const nn::Block& b : gpt.h) {
        for (const nn::Linear& l : {b.attn.c_attn, b.attn.W_query, b.attn.W_key, b.attn.W_value,
                                    b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj}) {
          if (l.weight.defined()) linears.push_back(l);
        }
      }
      CHECK(linears.size() == (separate ? 12 : 8));
      for (const nn::Linear& l : linears) CHECK(l.weight.precision == precision);
      CHECK(gpt.lm_head.weight.precision == precision);
      // Logits that are asked for have gradients that 8 bits are too few for.
      const Tensor x = normal(rng, {3, config.n_embd}, DType::f32);
      CHECK(same_bits(gpt.head(x), linear(x, {gpt.lm_head.weight, Precision::bf16})));
    }
  }
}
