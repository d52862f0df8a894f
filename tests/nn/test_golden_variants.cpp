#include "tapegrad/docs/tutorial/programs/placeholder_gpt.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

const nlohmann::json& facts() {
  static const nlohmann::json json = golden_json("variants.json");
  return json;
}

const SafeTensors& tensors() {
  static const SafeTensors file = load_safetensors(golden_file("variants.safetensors").string());
  return file;
}

nn::DecoderConfig config_of(const std::string& variant) {
  const nlohmann::json& size = facts().at("size");
  const nlohmann::json& c = facts().at("variants").at(variant).at("config");
  nn::DecoderConfig config;
  config.vocab_size = size.at("vocab_size");
  config.block_size = size.at("block_size");
  config.n_layer = size.at("n_layer");
  config.n_head = size.at("n_head");
  config.n_embd = size.at("n_embd");
  config.dropout = c.value("dropout", 0.0);
  config.qkv_bias = c.value("qkv_bias", true);
  config.tied = c.value("tied", true);
  config.activation = enum_of<nn::Activation>(c.value("activation", "gelu")).value();
  config.separate_qkv = c.value("separate_qkv", false);
  if (c.value("rope", false)) config.positions = nn::Positions::rotary;
  if (c.value("unbiased_norm", false)) config.norm = nn::NormKind::unbiased;
  config.ff_dropout = c.value("ff_dropout", false);
  config.attn_out_dropout = c.value("attn_out_dropout", true);
  config.residual_scalars = c.value("residual_scalars", false);
  config.qk_norm = c.value("qk_norm", false);
  config.ngrams = c.value("ngrams", config.ngrams);
  config.ngram_rows = c.value("ngram_rows", config.ngram_rows);
  if (c.contains("n_inner")) config.n_inner = c.at("n_inner").get<std::int64_t>();
  return config;
}

// The weights that the variants share, for those that this one has.
template <class Model>
SafeTensors weights_of(const nn::DecoderConfig& config) {
  Rng rng(0);
  const nn::Params names(rng);
  const Model model(names, config);
  SafeTensors file;
  for (const auto& [name, t] : names.parameters()) {
    // Training writes to them.
    file.tensors[name] = tensors().at(fmt::format("param/{} {}", name, t.shape())).clone();
  }
  return file;
}

template <class Model>
void check_variant(const std::string& variant, const nlohmann::json& expected) {
  INFO(variant);
  const nn::DecoderConfig config = config_of(variant);
  const nn::Params params(source_of(weights_of<Model>(config)));
  const Model gpt(params, config);
  CHECK(params.count() == expected.at("parameters").get<std::int64_t>());
  optim::AdamW adamw(params.parameters(), {.beta1 = facts().at("betas").at(0),
                                           .beta2 = facts().at("betas").at(1),
                                           .eps = facts().at("eps"),
                                           .weight_decay = facts().at("weight_decay")});
  Rng dropout(facts().at("dropout_seed").get<std::uint64_t>());
  for (std::size_t step = 0; step < 10; ++step) {
    INFO("step " << step);
    Tape tape;
    const Tensor logits = gpt(tensors().at("idx"), &dropout);
    const Tensor loss = cross_entropy(logits, tensors().at("targets"));
    tape.backward(loss);
    CHECK(loss.item() == Approx(expected.at("losses").at(step).get<double>()).epsilon(1e-5));
    if (step == 0) {
      // Logits are about 1, and sums of f32 products in another order.
      CHECK(difference(logits, tensors().at(variant + "/logits"), 1e-4, 3e-6) == "");
      for (const auto& [name, t] : params.parameters()) {
        INFO(name);
        CHECK(difference(t.grad(), tensors().at(variant + "/grad/" + name), 1e-4, 1e-6) == "");
      }
    }
    adamw.step(facts().at("lr"));
    adamw.zero_grad();
  }
}

}  // namespace

TEST_CASE("each variant of the GPT has PyTorch's logits, gradients and losses of ten steps",
          "[golden][variants]") {
  CHECK(facts().at("variants").size() == 15);
  for (const auto& [variant, expected] : facts().at("variants").items()) {
    if (variant == "placeholder") {
      check_variant<tutorial::PlaceholderGPT>(variant, expected);
    } else {
      check_variant<nn::GPT>(variant, expected);
    }
  }
}
