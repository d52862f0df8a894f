// Gated short convolutions in place of attention: the layer, and models that have some.

#include "tapegrad/nn/generation/generation.h"
#include "tapegrad/nn/layers/short_conv.h"
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
  config.block_size = 600;  // more than two pages
  config.mixer_pattern = mixers;
  return config;
}

struct Model {
  explicit Model(const nn::DecoderConfig& config, DType dtype = DType::f32)
      : params(rng, dtype), gpt(params, config) {
    randomize(params.parameters(), rng);
  }
  Rng rng{3};
  nn::Params params;
  nn::Decoder gpt;
};

// Positions [begin, end) of x (B, T, C).
Tensor positions(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return slice(x, 1, begin, end);
}

}  // namespace

TEST_CASE("a short convolution computes what its formula says", "[short_conv]") {
  Rng rng(1);
  const nn::Params params(rng, DType::f64);
  const std::int64_t C = 4, T = 7;
  const nn::ShortConv layer(params, C, {.kernel = 3, .bias = true});
  CHECK(params.parameters().size() == 6);
  CHECK(params.parameters()[0].first == "conv.weight");
  randomize(params.parameters(), rng);
  const Tensor x = normal(rng, {2, T, C});
  const std::vector<Tensor> parts = split(layer.in_proj(x), {C, C, C}, 2);
  const Tensor mixed = conv1d(transpose(parts[0] * parts[2], 1, 2), layer.weight, layer.bias,
                              {.padding = 2, .groups = C});
  const Tensor expected = layer.out_proj(parts[1] * transpose(slice(mixed, 2, 0, T), 1, 2));
  CHECK(difference(layer(x), expected, 1e-12, 1e-12) == "");
}

TEST_CASE("a short convolution goes on behind a cache to the bit, across its pages",
          "[short_conv]") {
  Rng rng(2);
  const nn::Params params(rng);
  const std::int64_t C = 6, T = 520;
  const nn::ShortConv layer(params, C, {.kernel = 4});
  const Tensor x = normal(rng, {1, T, C}, DType::f32);
  const TapePause pause;
  const BatchInvariant apart;  // of the linear layers: pieces are products of other sizes
  const Tensor whole = layer(x);
  nn::KVCache cache(INT64_MAX, GENERATE(CacheType::f32, CacheType::f16));
  nn::KVCache* const one = &cache;
  const nn::CachedLayer cached({&one, 1}, 0);
  for (std::int64_t begin = 0, end = 1; begin < T; begin = end, end = std::min(T, 3 * end)) {
    CHECK(same_bits(layer(positions(x, begin, end), cached), positions(whole, begin, end)));
  }
  for (const std::int64_t length : {519, 512, 257, 256, 2, 0}) {
    cache.truncate(length);
    CHECK(same_bits(layer(positions(x, length, length + 1), cached),
                    positions(whole, length, length + 1)));
  }
  const Tensor states = cached.latest_states(3);
  CHECK(states.shape() == Shape{1, 3, C});
  CHECK(list(states)[0] == 0);  // one position, behind two that are not there
  CHECK(list(states)[2 * C] != 0);
}

TEST_CASE("a cache of states needs an even number of channels", "[short_conv]") {
  nn::KVCache cache;
  nn::KVCache* const one = &cache;
  nn::CachedLayer layer({&one, 1}, 0);
  CHECK_THROWS_WITH(layer.append_states(Tensor::ones({1, 1, 3})),
                    ContainsSubstring("states (1, 1, 3) need an even number of channels"));
  layer.append_states(Tensor::ones({1, 2, 4}));
  CHECK(cache.length() == 2);
}

TEST_CASE("what is dropped of a model of convolutions alone is gone", "[short_conv]") {
  Model model(config_of("C"), DType::f64);
  const Tensor ids = random_ids(model.rng, {1, 300}, 11);
  nn::KVCache dropped, anew;
  model.gpt.last_logits(ids, dropped);
  model.gpt.drop(dropped, 10, 290);
  CHECK(dropped.length() == 20);
  // Behind as many positions as two blocks see, nothing tells that there were others.
  model.gpt.last_logits(columns(ids, 290, 300), anew);
  const Tensor next = columns(ids, 0, 1);
  CHECK(difference(model.gpt.last_logits(next, dropped), model.gpt.last_logits(next, anew), 1e-12,
                   1e-12) == "");
}

TEST_CASE("blocks have attention or a convolution, as the pattern says", "[short_conv]") {
  Model model(config_of("CA"));
  const std::vector<nn::Block>& blocks = model.gpt.h;
  CHECK((blocks[0].conv.exists() && !blocks[0].attn.exists()));
  CHECK((!blocks[1].conv.exists() && blocks[1].attn.exists()));
  const Tensor state = model.gpt.embed(random_ids(model.rng, {1, 4}, 11));
  CHECK(model.gpt.attention_weights(1, state).shape() == Shape{1, 2, 4, 4});
  CHECK_THROWS_WITH(model.gpt.attention_weights(0, state),
                    ContainsSubstring("a convolution in place of attention"));
  // Letters that choose nothing are none.
  nn::DecoderConfig none = config_of("AA");
  none.conv_kernel = 7;
  CHECK(none.with_defaults() == config_of("").with_defaults());
  CHECK(config_of("CACA").with_defaults().mixer_pattern == "CA");
}

TEST_CASE("a summary and a cache count convolutions", "[short_conv]") {
  nn::DecoderConfig config = config_of("CCA");
  config.n_layer = 6, config.n_inner = 16;
  const nn::Summary s = nn::summary(config, 6);
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder model(params, config);
  CHECK(s.parameters() == params.count());
  REQUIRE(s.kinds.size() == 2);
  CHECK((s.kinds[0].count == 4 && s.kinds[1].first == 2 && s.kinds[1].count == 2));
  const double mlp = 2 * 3 * 8 * 16, conv = 2 * (8 * 24 + 8 * 8 + 8 * 3),
               attention = 2 * 4 * 64 + 4 * 8 * 3.5;
  CHECK(s.flops() == 4 * (conv + mlp) + 2 * (attention + mlp) + 2 * 8 * 11);
  CHECK_THAT(s.str(), ContainsSubstring("layers.0.conv.conv") &&
                          ContainsSubstring("in layers.0 280 of the convolution, 384 of the"));
  // Two of keys and values of 8 channels, and one state of as many.
  CHECK(nn::cache_bytes_per_position(config) == 4 * 8 * 4 + 2 * 2 * 8 * 4);
  CHECK(nn::cache_bytes_per_position(config, CacheType::f16) == 4 * 8 * 4 + 2 * 2 * 8 * 2);
}

TEST_CASE("GPT-2's first weights leave kernels of convolutions as they are drawn", "[short_conv]") {
  const nn::DecoderConfig config = config_of("C");
  Rng rng(1), other(1);
  const nn::Params params(rng), drawn(other);
  const nn::Decoder model = nn::make_decoder(params, config, {.gpt2_weights = &rng});
  const nn::Decoder plain(drawn, config);
  CHECK(same_bits(model.h[1].conv.weight, plain.h[1].conv.weight));
  CHECK_FALSE(same_bits(model.h[1].conv.in_proj.weight, plain.h[1].conv.in_proj.weight));
}
