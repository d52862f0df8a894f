// Mamba-2 in place of attention: the layer, and models that have some.

#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/layers/mamba2.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

nn::DecoderConfig config_of(const std::string& mixers) {
  nn::DecoderConfig config = tiny_config();
  config.arch = nn::Architecture::llama;
  config.n_embd = 16;
  config.mixer_pattern = mixers;
  config.mamba = {.heads = 4, .head_size = 20, .state_size = 12, .groups = 2};
  return config;
}

Tensor positions(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return slice(x, 1, begin, end);
}

}  // namespace

TEST_CASE("a Mamba-2 computes what its formula says", "[mamba2]") {
  Rng rng(1);
  const nn::Params params(rng, DType::f64);
  const std::int64_t C = 6, T = 7;
  const bool bias = GENERATE(true, false);
  const nn::Mamba2 layer(params, C,
                         {.sizes = {.heads = 4, .head_size = 5, .groups = 2, .state_size = 3},
                          .conv_bias = bias,
                          .norm_eps = 1e-3});
  std::vector<std::string> names;
  for (const auto& [name, t] : params.parameters()) names.push_back(name);
  std::vector<std::string> expected_names{
      "conv1d.weight", "in_proj.weight", "dt_bias", "A_log", "D", "norm.weight", "out_proj.weight"};
  if (bias) expected_names.insert(expected_names.begin() + 1, "conv1d.bias");
  CHECK(names == expected_names);
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {2, T, C});
  // The gate, then 20 channels of x, 6 each of B and C, and a step of each head.
  const std::vector<Tensor> in = split(layer.in_proj(x), {20, 32, 4}, 2);
  const Tensor mixed =
      conv1d(transpose(in[1], 1, 2), layer.weight, layer.bias, {.padding = 3, .groups = 32});
  const Tensor seen = silu(transpose(slice(mixed, 2, 0, T), 1, 2));
  const std::vector<Tensor> parts = split(seen, {20, 6, 6}, 2);
  const Tensor values = parts[0].view({2, T, 4, 5});
  const Tensor y =
      state_space_scan_steps(values, softplus(in[2] + layer.dt_bias), -exp(layer.A_log),
                             parts[1].view({2, T, 2, 3}), parts[2].view({2, T, 2, 3})) +
      values * layer.D.view({4, 1});
  const Tensor gated = y.view({2, T, 20}) * silu(in[0]);
  const Tensor normed = gated / sqrt(mean(gated * gated, {-1}, true) + 1e-3) * layer.norm.weight;
  CHECK(difference(layer(x), layer.out_proj(normed), 1e-11, 1e-12) == "");
}

TEST_CASE("first rates, steps and skips of a Mamba-2 are those of its authors", "[mamba2]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Mamba2 layer(params, 8, {.sizes = {500, 1, 1, 1}});
  for (const double x : list(exp(layer.A_log))) CHECK((x > 0.999 && x < 16.001));
  for (const double x : list(softplus(layer.dt_bias))) CHECK((x > 0.00099 && x < 0.101));
  CHECK(mean(exp(layer.A_log)).item() == Approx(8.5).margin(1));
  CHECK(list(layer.D) == std::vector<double>(500, 1));
}

TEST_CASE("a Mamba-2 goes on behind a cache to the bit, however it is cut", "[mamba2]") {
  Rng rng(2);
  const nn::Params params(rng);
  const std::int64_t C = 6, T = 560;
  const nn::Mamba2 layer(params, C, {.sizes = {4, 5, 2, 9}});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {1, T, C}, DType::f32);
  const TapePause pause;
  const BatchInvariant apart;  // of the linear layers: pieces are products of other sizes
  nn::KVCache all, cache;
  nn::KVCache *const one = &all, *const other = &cache;
  const Tensor whole = layer(x, nn::CachedLayer({&one, 1}, 0));
  CHECK(difference(whole, layer(x), 1e-3, 1e-4) == "");
  const nn::CachedLayer cached({&other, 1}, 0);
  for (std::int64_t begin = 0, end = 1; begin < T; begin = end, end = std::min(T, 3 * end)) {
    CHECK(same_bits(layer(positions(x, begin, end), cached), positions(whole, begin, end)));
  }
  for (const auto& [length, left] : {std::pair(559, 512), std::pair(511, 256), std::pair(255, 0)}) {
    CHECK(cache.reachable(length) == left);
    cache.truncate(length);
    CHECK(same_bits(layer(positions(x, left, left + 3), cached), positions(whole, left, left + 3)));
    cache.truncate(left);
  }
}

TEST_CASE("of a pass of a Mamba-2 over rows of one sequence, any may be taken back", "[mamba2]") {
  Rng rng(4);
  const nn::Params params(rng);
  const std::int64_t C = 6;
  const nn::Mamba2 layer(params, C, {.sizes = {2, 5, 1, 9}});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {1, 300, C}, DType::f32), y = normal(rng, {1, 300, C}, DType::f32);
  const TapePause pause;
  const BatchInvariant apart;
  nn::KVCache all, first, second;
  nn::KVCache *const one = &all, *const alone = &first;
  const Tensor whole = layer(x, nn::CachedLayer({&one, 1}, 0));
  layer(positions(x, 0, 252), nn::CachedLayer({&alone, 1}, 0));
  std::int64_t at = 252;
  for (const std::int64_t right : {1, 5, 2, 4, 3, 1}) {  // of five rows, beyond a place
    const std::vector<nn::KVCache*> caches = {&second, &first, &first, &first, &first, &first};
    const Tensor rows = concat({positions(y, 0, 1), positions(x, at, at + 5)}, 1).view({6, 1, C});
    const Tensor seen = layer(rows, nn::CachedLayer(caches, 0)).view({1, 6, C});
    CHECK(same_bits(positions(seen, 1, 6), positions(whole, at, at + 5)));
    at += right;
    first.truncate(at);
    CHECK(first.length() == at);
  }
}

TEST_CASE("documents side by side are to a Mamba-2 as if each were alone", "[mamba2]") {
  Rng rng(5);
  const nn::Params params(rng);
  const nn::Mamba2 layer(params, 6, {.sizes = {2, 5, 1, 9}});
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {1, 100, 6}, DType::f32);
  std::vector<std::int32_t> starts(100, 0);
  std::fill(starts.begin() + 37, starts.end(), 37);
  const Tensor together = layer(x, nullptr, Tensor::from(starts, {1, 100}));
  CHECK(difference(positions(together, 0, 37), layer(positions(x, 0, 37)), 1e-5, 1e-6) == "");
  CHECK(difference(positions(together, 37, 100), layer(positions(x, 37, 100)), 1e-5, 1e-6) == "");
}

TEST_CASE("blocks have a Mamba-2 as the pattern says", "[mamba2]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder model(params, config_of("MA"));
  CHECK((model.h[0].mamba.exists() && !model.h[0].attn.exists() && !model.h[0].delta.exists()));
  CHECK((!model.h[1].mamba.exists() && model.h[1].attn.exists()));
  CHECK_FALSE(model.can_move());
  CHECK_THROWS_WITH(model.attention_weights(0, Tensor::ones({1, 2, 16})),
                    ContainsSubstring("a Mamba-2 in place of attention"));
  // Letters that choose nothing are none, and there are as many heads as twice the width has.
  nn::DecoderConfig plain = tiny_config();
  plain.mixer_pattern = "M";
  plain.mamba.head_size = 4;
  CHECK(plain.with_defaults().mamba.heads == plain.n_embd / 2);
  plain.mamba.head_size = 64;
  CHECK(plain.with_defaults().mamba.heads == 1);
  plain.mixer_pattern = "AAM", plain.n_layer = 2;
  CHECK(plain.with_defaults().mamba == nn::MambaOptions{});
  CHECK(plain.with_defaults().mixer_pattern.empty());
}

TEST_CASE("a summary and a cache count Mamba-2", "[mamba2]") {
  nn::DecoderConfig config = config_of("MMA");
  config.n_layer = 6, config.n_inner = 16;
  const nn::Summary s = nn::summary(config, 6);
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder model(params, config);
  CHECK(s.parameters() == params.count());
  REQUIRE(s.kinds.size() == 2);
  CHECK((s.kinds[0].count == 4 && s.kinds[1].first == 2 && s.kinds[1].count == 2));
  CHECK_THAT(s.str(), ContainsSubstring("4 heads, states of 12 x 20, 2 groups") &&
                          ContainsSubstring("of the Mamba-2"));
  // Two of keys and values of 16 channels, and for each 256 positions a state of 4 heads and the
  // inputs that a convolution sees, beside a step of each head.
  const std::int64_t inputs = (config.conv_kernel - 1) * (4 * 20 + 2 * 2 * 12 + 4);
  CHECK(nn::cache_bytes_per_position(config) ==
        4 * 4 * ((4 * 12 * 20 + inputs + 255) / 256) + 2 * 2 * 16 * 4);
}

TEST_CASE("GPT-2's first weights leave kernels of Mamba-2 as they are drawn", "[mamba2]") {
  nn::DecoderConfig config = config_of("M");
  config.conv_bias = true;
  Rng rng(1), other(1);
  const nn::Params params(rng), drawn(other);
  const nn::Decoder model = nn::make_decoder(params, config, {.gpt2_weights = &rng});
  const nn::Decoder plain(drawn, config);
  const nn::Mamba2 &made = model.h[1].mamba, &first = plain.h[1].mamba;
  CHECK(same_bits(made.weight, first.weight));
  CHECK(same_bits(made.A_log, first.A_log));
  CHECK(same_bits(made.D, first.D));
  CHECK_FALSE(same_bits(made.in_proj.weight, first.in_proj.weight));
}
