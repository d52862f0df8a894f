// Attention and a Mamba-2 side by side in one block, with numbers that their parts are multiplied
// by, as in Falcon-H1. What generation does with both is tested beside gated delta nets.

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/decoder/tiny_decoder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

nn::DecoderConfig parallel_config() {
  nn::DecoderConfig config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.mixer_pattern = "P";
  config.conv_kernel = 4;
  config.mamba = {.heads = 4, .head_size = 5, .state_size = 3, .groups = 2, .norm_groups = 0};
  return config;
}

// Multiplies rows [begin, end) of a weight.
void multiply_rows(Tensor weight, std::int64_t begin, std::int64_t end, double by) {
  const TapePause pause;
  Tensor factors = Tensor::ones({weight.dim(0), 1}, weight.dtype());
  for (std::int64_t i = begin; i < end; ++i) factors.mutable_data<double>()[i] = by;
  weight *= factors;
}

}  // namespace

TEST_CASE("a block with attention and a Mamba-2 adds what both make of one input",
          "[parallel_mixers]") {
  nn::DecoderConfig config = parallel_config();
  config.scales = {
      .attention_in = 0.7, .attention_out = 0.8, .mamba_out = 0.6, .gate = 1.4, .mlp = 0.9};
  const TinyDecoder tiny(config);
  const nn::Block& block = tiny.model.h[1];
  CHECK((block.attn.exists() && block.mamba.exists() && !block.conv.exists()));
  CHECK_FALSE(tiny.model.can_move());
  const Tensor x = tiny.model.embed(tiny.inputs), n = block.ln_1(x);
  const Tensor y = x + block.attn(n * 0.7) * 0.8 + block.mamba(n) * 0.6;
  const Tensor m = block.ln_2(y);
  const Tensor gated = silu(block.mlp.c_gate(m) * 1.4) * block.mlp.c_fc(m);
  CHECK(difference(block(x), y + block.mlp.c_proj(gated) * 0.9, 1e-12, 1e-13) == "");
  // Its attention can be looked at.
  const Tensor weights = block.attention_weights(x);
  CHECK(difference(weights, block.attn.weights(n * 0.7), 0, 0) == "");
}

TEST_CASE("scales of keys and of what a Mamba-2 projects are those of their weights",
          "[parallel_mixers]") {
  nn::DecoderConfig config = parallel_config();
  const TinyDecoder plain(config);
  config.scales = {.key = 1.6, .mamba_in = 1.3, .mamba_parts = "0.5,1.5,0.75,2,1.25"};
  const TinyDecoder scaled(config);  // with the same weights
  CHECK(plain.loss() != scaled.loss());
  for (const nn::Block& block : plain.model.h) {
    multiply_rows(block.attn.W_key.weight, 0, 8, 1.6);
    const Tensor in = block.mamba.in_proj.weight;
    // 20 channels of the gate and of x, 6 of B and C, and a step of each head.
    multiply_rows(in, 0, 20, 1.3 * 0.5);
    multiply_rows(in, 20, 40, 1.3 * 1.5);
    multiply_rows(in, 40, 46, 1.3 * 0.75);
    multiply_rows(in, 46, 52, 1.3 * 2);
    multiply_rows(in, 52, 56, 1.3 * 1.25);
  }
  CHECK(scaled.loss() == Approx(plain.loss()).epsilon(1e-12));
}

TEST_CASE("a Mamba-2 norms parts of its output, or nothing", "[parallel_mixers]") {
  Rng rng(1);
  const nn::Params params(rng, DType::f64);
  nn::Mamba2 layer(params, 6, {.sizes = {4, 5, 2, 3}, .norm_groups = 0});
  for (const auto& [name, t] : params.parameters()) CHECK(name.find("norm") == std::string::npos);
  randomize(params.parameters(), rng);
  // What a projection that changes nothing leaves.
  layer.out_proj.weight = Tensor::eye(20, DType::f64);
  const Tensor x = normal(rng, {1, 5, 6}), y = layer(x);
  layer.norm.weight = normal(rng, {20}), layer.norm.eps = 1e-3;
  const Tensor parts = y.view({1, 5, 2, 10});
  const Tensor normed = parts / sqrt(mean(parts * parts, {-1}, true) + 1e-3);
  layer.config.norm_groups = 2;
  CHECK(difference(layer(x), normed.view({1, 5, 20}) * layer.norm.weight, 1e-12, 1e-13) == "");
}

TEST_CASE("a summary and a cache count both parts of a block", "[parallel_mixers]") {
  nn::DecoderConfig config = parallel_config();
  const nn::Summary s = nn::summary(config, 6);
  const TinyDecoder tiny(config);
  CHECK(s.parameters() == tiny.params.count());
  REQUIRE(s.kinds.size() == 1);
  CHECK_THAT(s.str(), ContainsSubstring("4 heads, states of 3 x 5, 2 groups") &&
                          ContainsSubstring("2 heads of 4, rope") &&
                          ContainsSubstring("of the attention and the Mamba-2"));
  config.mixer_pattern = "A", config.mamba = {}, config.conv_kernel = 3;
  const std::int64_t attention = nn::summary(config, 6).mixer_parameters(),
                     bytes = nn::cache_bytes_per_position(config);
  nn::DecoderConfig mamba = parallel_config();
  mamba.mixer_pattern = "M";
  CHECK(s.mixer_parameters() == attention + nn::summary(mamba, 6).mixer_parameters());
  CHECK(nn::cache_bytes_per_position(parallel_config()) ==
        bytes + nn::cache_bytes_per_position(mamba));
}
