// What blocks of a Decoder choose, and what some of its parts compute, by their formulas.

#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/decoder/tiny_decoder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Config = nn::DecoderConfig;
using Change = std::function<void(Config&)>;

}  // namespace

TEST_CASE("a window ends where block_size does, and a pattern chooses its blocks", "[decoder]") {
  const auto loss = [](std::int64_t window, const std::string& pattern = "") {
    Config config = tiny_config();
    config.window = window, config.window_pattern = pattern;
    return TinyDecoder(config).loss();
  };
  CHECK(loss(6) == loss(0));
  CHECK(loss(2, "LL") == loss(0));
  CHECK(loss(2, "S") == loss(2));
  CHECK(loss(2, "SL") != loss(2, "LS"));
  CHECK(loss(2, "SL") != loss(2));
  Config config = tiny_config();
  config.n_layer = 5, config.window = 2, config.window_pattern = "SSL";
  const std::vector<std::int64_t> windows = {2, 2, 0, 2, 2};
  for (int i = 0; i < 5; ++i) {
    CHECK(config.scores_of(i).window == windows[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("blocks choose the base of rotary positions, and whether they have any", "[decoder]") {
  Config plain = tiny_config();
  plain.positions = nn::Positions::rotary;
  const auto loss = [&](const Change& change) {
    Config config = plain;
    change(config);
    return TinyDecoder(config).loss();
  };
  const double usual = loss([](Config&) {});
  CHECK(loss([](Config& c) { c.rope_pattern = "RR"; }) == usual);
  CHECK(loss([](Config& c) { c.rope_pattern = "NR"; }) != usual);
  CHECK(loss([](Config& c) { c.rope_pattern = "NR"; }) !=
        loss([](Config& c) { c.rope_pattern = "RN"; }));
  CHECK(loss([](Config& c) { c.rope_pattern = "N"; }) ==
        loss([](Config& c) { c.positions = nn::Positions::none; }));
  // A window that hides nothing, but chooses the base.
  const auto base = [&](const std::string& pattern, double window_base) {
    return loss([&](Config& c) {
      c.window = 100, c.window_pattern = pattern, c.rope_window_base = window_base;
    });
  };
  CHECK(base("SL", 0) == usual);
  CHECK(base("SL", 10000) == usual);
  CHECK(base("LL", 7) == usual);
  CHECK(base("S", 7) == loss([](Config& c) { c.rope_base = 7; }));
  CHECK(base("SL", 7) != base("LS", 7));
  // Blocks with a base of their own are not scaled.
  Config config = plain;
  config.window = 2, config.window_pattern = "SL", config.rope_window_base = 7;
  config.rope_scaling = nn::RopeScalingKind::linear, config.rope_factor = 2;
  CHECK_FALSE(config.scaling_of(0));
  CHECK(config.scaling_of(1));
  config.rope_window_base = 0;
  CHECK(config.scaling_of(0));
}

TEST_CASE("a summary counts the products of the keys that windows leave", "[decoder]") {
  Config config = tiny_config();  // 6 positions, 8 channels, 2 blocks
  const auto flops = [&] { return nn::summary(config).flops(); };
  const double all = flops();
  config.window = 2;  // sees 1, 2, 2, 2, 2, 2 keys in place of 1 to 6
  CHECK(all - flops() == Approx(2 * 4 * 8 * (21 - 11) / 6.0));
  config.window_pattern = "SL";
  CHECK(all - flops() == Approx(4 * 8 * (21 - 11) / 6.0));
  CHECK_THAT(nn::summary(config).str(), ContainsSubstring("window 2 of blocks SL"));
}

TEST_CASE("a block with norms on both sides computes what its formula says", "[decoder]") {
  Config config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.norm = nn::NormKind::rms_plus, config.norm_place = nn::NormPlace::both;
  config.activation = nn::Activation::gelu, config.embedding_scale = 3;
  const TinyDecoder tiny(config);
  const std::map<std::string, Tensor> p(tiny.params.parameters().begin(),
                                        tiny.params.parameters().end());
  const auto norm = [&](const Tensor& x, const std::string& name) {
    const Tensor mean_square = mean(x * x, {-1}, true);
    return x / sqrt(mean_square + 1e-5) * (p.at(name + ".weight") + 1.0);
  };
  const auto times = [&](const Tensor& x, const std::string& name) {
    return linear(x, p.at(name + ".weight"));
  };
  Tensor x = embedding(p.at("embed_tokens.weight"), tiny.inputs) * 3.0;
  for (const std::string layer : {"layers.0.", "layers.1."}) {
    const Tensor in = norm(x, layer + "input_layernorm");
    const auto turned = [&](const char* which) {
      return rope(times(in, layer + "self_attn." + which), 4);
    };
    const Tensor attended = attention_reference(turned("q_proj"), turned("k_proj"),
                                                times(in, layer + "self_attn.v_proj"), 2, true);
    x = x + norm(times(attended, layer + "self_attn.o_proj"), layer + "post_attention_layernorm");
    const Tensor y = norm(x, layer + "pre_feedforward_layernorm");
    const Tensor inner = gelu(times(y, layer + "mlp.gate_proj")) * times(y, layer + "mlp.up_proj");
    x = x + norm(times(inner, layer + "mlp.down_proj"), layer + "post_feedforward_layernorm");
  }
  CHECK(difference(tiny.model.hidden(tiny.inputs), norm(x, "norm"), 1e-11, 1e-12) == "");
}

TEST_CASE("residual scalars mix a block's input with the normed embedding, and begin as no mixture",
          "[decoder]") {
  Config config = tiny_config();
  const auto first_logits = [&](bool scalars) {
    config.residual_scalars = scalars;
    Rng rng(3);
    const nn::Params params(rng);
    return nn::Decoder(params, config)(ids({1, 4, 0, 7}).view({1, 4}));
  };
  CHECK(same_bits(first_logits(true), first_logits(false)));

  config.residual_scalars = true, config.norm_eps = 0.1;
  const TinyDecoder tiny(config);
  const auto number = [&](const std::string& name) {
    for (const auto& [other, t] : tiny.params.parameters()) {
      if (other == name) return t;
    }
    throw std::runtime_error(name);
  };
  const Tensor e = tiny.model.embed(tiny.inputs);
  const Tensor x0 = e / sqrt(mean(e * e, {2}, true) + 0.1);
  const auto mixed = [&](const Tensor& x, const std::string& block) {
    return x * number(block + ".residual_scalars.state") +
           x0 * number(block + ".residual_scalars.embedding");
  };
  const std::vector<Tensor> states = tiny.model.residual_stream(e);
  CHECK(difference(states[0], mixed(e, "h.0"), 1e-12, 1e-12) == "");
  CHECK(difference(states[1], mixed(tiny.model.h[0](states[0]), "h.1"), 1e-12, 1e-12) == "");
  CHECK(difference(states[2], tiny.model.h[1](states[1]), 1e-12, 1e-12) == "");
}
